"""Writing every figure of a measurement as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from hotstart.demo import machine
from hotstart.demo.measure import Result


def new_file(text: str) -> Path:
    """An argument of the command line; a wrong one is refused before minutes of measuring."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent}: there is no such folder")
    return path


def write(path: Path, results: Sequence[Result]) -> None:
    """The machine, then for each result its medians and what each process said."""
    figures = {"machine": machine.describe(), "runs": [result.to_dict() for result in results]}
    path.write_text(json.dumps(figures, indent=1) + "\n")
