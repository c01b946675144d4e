"""Containers to test with, and a way to patch one so that the deeper checks are reached."""

from __future__ import annotations

import struct

import second_reader

from hotstart._core import build_container

Section = tuple[int, int, int, bytes]

#: Small enough to try every prefix and every byte; has empty, aligned and unknown sections.
SMALL: list[Section] = [
    (1, 0, 1, b"strings"),
    (2, 0, 0, b""),
    (2, 7, 0x0001_0000, b"x" * 64),
    (4, 0, 0, bytes(range(65))),
    (99, 0xFFFF_FFFF, 0, b"a kind from the future"),
]

HEADER_SIZE = 32
ENTRY_SIZE = 40
#: Offsets and struct formats of every field, for patching.
HEADER_FIELDS = {
    "version": (8, "<I"),
    "flags": (12, "<I"),
    "size": (16, "<Q"),
    "count": (24, "<I"),
    "reserved": (28, "<I"),
}
ENTRY_FIELDS = {
    "kind": (0, "<I"),
    "ordinal": (4, "<I"),
    "flags": (8, "<I"),
    "reserved": (12, "<I"),
    "offset": (16, "<Q"),
    "length": (24, "<Q"),
    "checksum": (32, "<Q"),
}


def small() -> bytes:
    return build_container(SMALL)


def entry_at(index: int, field: str) -> tuple[int, str]:
    offset, form = ENTRY_FIELDS[field]
    return HEADER_SIZE + ENTRY_SIZE * index + offset, form


def patched(data: bytes, *changes: tuple[tuple[int, str], int], count: int | None = None) -> bytes:
    """`data` with some fields changed and the header checksum made right again."""
    out = bytearray(data)
    for (offset, form), value in changes:
        struct.pack_into(form, out, offset, value)
    if count is None:
        (count,) = struct.unpack_from("<I", data, HEADER_FIELDS["count"][0])
    end = HEADER_SIZE + ENTRY_SIZE * count
    struct.pack_into("<Q", out, end, second_reader.xxh64(bytes(out[:end])))
    return bytes(out)


def field(data: bytes, place: tuple[int, str]) -> int:
    offset, form = place
    (value,) = struct.unpack_from(form, data, offset)
    assert isinstance(value, int)
    return value
