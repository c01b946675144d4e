"""The `hotstart` command: ``python -m hotstart demo | inspect | list``.

Nothing here imports torch: what needs it runs in processes of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hotstart.errors import HotstartError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    args = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except (HotstartError, OSError) as error:
        print(f"hotstart: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotstart", description="What torch.compile compiled once starts warm, anywhere."
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(required=True, metavar="command")

    demo = commands.add_parser(
        "demo", help="compile a GPT once, load it in fresh processes, time it"
    )
    demo.add_argument("--layers", type=_positive, default=24)
    demo.add_argument("--rounds", type=_positive, default=5, help="fresh processes a side")
    demo.add_argument("--json", type=_new_file, metavar="FILE", help="write every figure there")
    demo.set_defaults(run=_demo)

    inspect = commands.add_parser("inspect", help="say what is in package files")
    inspect.add_argument("files", type=Path, nargs="+", metavar="FILE")
    inspect.set_defaults(run=_inspect)

    listing = commands.add_parser("list", help="say what is in a store")
    listing.add_argument("folder", type=Path, nargs="?", metavar="DIR")
    listing.set_defaults(run=_list)
    return parser


def _version() -> str:
    from hotstart import __version__

    return f"hotstart {__version__}"


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _new_file(text: str) -> Path:
    from hotstart.demo import figures

    return figures.new_file(text)


def _demo(args: argparse.Namespace) -> int:
    from hotstart.demo import figures, table
    from hotstart.demo.measure import Plan, measure

    result = measure(Plan(args.layers, args.rounds), _say)
    print(table.text(result))
    if args.json:
        figures.write(args.json, [result])
    return 1 if result.problems() else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _inspect(args: argparse.Namespace) -> int:
    from hotstart import inspection

    for file in args.files:
        print(inspection.describe(file))
    return 0


def _list(args: argparse.Namespace) -> int:
    from hotstart import inspection

    for line in inspection.listing(args.folder):
        print(line)
    return 0
