"""docs/format.md is true: its example decodes, its tables name the constants that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import second_reader

from hotstart._core import Container, build_container
from hotstart.container import SectionKind

DOCUMENT = (Path(__file__).parents[2] / "docs" / "format.md").read_text()


def example() -> bytes:
    block = re.search(r"```hexdump\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block is not None
    data = bytearray()
    for line in block[1].splitlines():
        at, digits, text = re.fullmatch(r"([0-9a-f]{4})  (.{47})  (.*)", line).groups()  # type: ignore[union-attr]
        row = bytes.fromhex(digits)
        assert int(at, 16) == len(data)
        assert text == "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        data += row
    return bytes(data)


def test_the_example_is_read_by_both_readers() -> None:
    expected = {(1, 0): (1, b"hot"), (5, 0): (0, b"hello")}
    assert second_reader.read_container(example()) == expected
    container = Container.from_bytes(example())
    container.verify()
    got = {s[:2]: (s[2], bytes(container.get(*s[:2]))) for s in container.sections()}
    assert got == expected


def test_the_example_is_what_the_writer_writes() -> None:
    assert build_container([(5, 0, 0, b"hello"), (1, 0, 1, b"hot")]) == example()


def test_the_annotated_rows_cover_every_byte() -> None:
    table = DOCUMENT.split("| bytes | meaning |")[1]
    rows = re.findall(r"^\| ([0-9a-f]{4}) - ([0-9a-f]{4}) \|", table, re.MULTILINE)
    ends = [0, *(int(last, 16) + 1 for _, last in rows)]
    assert [int(first, 16) for first, _ in rows] == ends[:-1]
    assert ends[-1] == len(example())


def test_the_annotated_checksums() -> None:
    for section in second_reader.read_entries(example()):
        assert f"checksum {section.checksum:016x}" in DOCUMENT
    header = int.from_bytes(example()[0x70:0x78], "little")
    assert f"header checksum {header:016x}" in DOCUMENT


def test_the_kinds_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z]+) \|", DOCUMENT, re.MULTILINE)
    assert {name: int(number) for number, name in rows} == {k.name: k.value for k in SectionKind}
