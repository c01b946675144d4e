"""Warm load in fresh processes: torch's own package beside hotstart, over the number of layers.

`make bench` runs it; docs/benchmarks.md says how it measures. ``--smoke`` is the smallest run
there is, for continuous integration: it shows that the benchmark works, its figures mean nothing.
"""

from __future__ import annotations

import argparse
import sys

from hotstart.demo import figures, table
from hotstart.demo.measure import SIDES, MeasurementFailed, Plan, measure


def main() -> int:
    args = _arguments()
    try:
        results = [measure(plan, _say) for plan in _plans(args)]
    except MeasurementFailed as error:
        _say(f"warm_load: {error}")
        return 1
    if args.phases:
        print("\n\n".join(map(table.text, results)), end="\n\n")
    print(table.markdown(results))
    if args.json:
        figures.write(args.json, results)
    problems = [problem for result in results for problem in result.problems()]
    for problem in problems:
        print(f"PROBLEM: {problem}")
    return 1 if problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 24, 48])
    parser.add_argument("--rounds", type=int, default=11, help="fresh processes a side")
    parser.add_argument("--warmups", type=int, default=1, help="rounds that are not counted")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--phases", action="store_true", help="print the phases as well")
    parser.add_argument(
        "--json", type=figures.new_file, metavar="FILE", help="write every figure there"
    )
    parser.add_argument("--smoke", action="store_true", help="2 layers, 1 round")
    return parser.parse_args()


def _plans(args: argparse.Namespace) -> list[Plan]:
    sides = tuple(dict.fromkeys(args.sides))
    if args.smoke:
        return [Plan(layers=2, rounds=1, warmups=0, sides=sides)]
    return [Plan(layers, args.rounds, args.warmups, sides) for layers in args.layers]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
