"""docs/format-guards.md says what is written."""

from __future__ import annotations

import re
from pathlib import Path

from hotstart._core import validate_plan
from hotstart.guards import plan as plans
from hotstart.guards.resolve import _MAKERS
from hotstart.guards.tape_writer import Example, TapeWriter

DOC = (Path(__file__).parents[2] / "docs" / "format-guards.md").read_text()


def example_in_doc() -> bytes:
    block = re.search(r"```\n(.*?)```", DOC, re.DOTALL)
    assert block is not None
    columns = (
        re.match(r"(?:[0-9a-f]{2} )*[0-9a-f]{2}(?=\s)", line) for line in block[1].splitlines()
    )
    return bytes.fromhex("".join(found[0] for found in columns if found))


def test_the_worked_example() -> None:
    writer = TapeWriter()
    writer.accessor("framelocals_manager", 0, 0, Example.NONE, None, 0, 1)
    writer.leaf("add_none_match_guard", 1, "mu", [None, None])
    assert example_in_doc() == writer.to_bytes([0, 1])


def test_the_worked_example_is_a_plan() -> None:
    header = plans.Header({}, "", None, {}, {})
    cold = plans.Cold((), (), ())
    data = plans.to_bytes(header, (("x", 0), "L['x']"), (), 2, example_in_doc(), cold)
    validate_plan(data)
    assert plans.Plan(data).plain == (("x", 0), "L['x']")


def test_kinds_in_the_doc_exist() -> None:
    table = DOC.partition("the object is")[2].partition("A proof is")[0]
    named = re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)
    assert len(named) == 7
    assert set(named) <= set(_MAKERS)
