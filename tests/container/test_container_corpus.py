"""Every file that the fuzzer starts from or ever tripped over, read by both readers."""

from __future__ import annotations

from pathlib import Path

import pytest
import second_reader

from hotstart._core import Container
from hotstart.errors import CorruptPackageError

FUZZ = Path(__file__).parents[2] / "csrc" / "fuzz"
FILES = sorted((FUZZ / "corpus" / "container").iterdir()) + sorted(
    FUZZ.glob("regressions/container/*")
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_both_readers_agree(path: Path) -> None:
    data = path.read_bytes()
    try:
        expected = second_reader.read_container(data)
    except second_reader.Refused:
        expected = None
    try:
        container = Container.from_bytes(data)
        container.verify()
        got = {s[:2]: (s[2], bytes(container.get(*s[:2]))) for s in container.sections()}
    except CorruptPackageError:
        got = None
    assert got == expected
    assert expected is not None or "regressions" in path.parts
