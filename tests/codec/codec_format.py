"""A second writer of the codec's format, after the table in csrc/codec/tags.h.

Deliberately dumb: it writes whatever it is told, so that tests can lie in any field.
"""

from __future__ import annotations

import importlib.util
import re
import struct
import sys
import types
from typing import Any

TAGS = [
    "none",
    "false",
    "true",
    "ellipsis",
    "int",
    "big_int",
    "float",
    "complex",
    "string",
    "bytes",
    "tuple",
    "list",
    "dict",
    "set",
    "frozenset",
    "slice",
    "code",
    "hook",
]
TAG = {name: bytes([number]) for number, name in enumerate(TAGS, start=1)}
MAGIC = int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little")


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def blob(data: bytes) -> bytes:
    return varint(len(data)) + data


class Table:
    """Numbers strings, and gives the table's bytes."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}

    def index(self, text: str) -> bytes:
        return varint(self.strings.setdefault(text, len(self.strings)))

    def dump(self) -> bytes:
        entries, heap = b"", b""
        for text in self.strings:
            top = max(map(ord, text), default=0)
            shift = 0 if top < 0x100 else 1 if top < 0x10000 else 2
            kind = 3 if re.fullmatch("[A-Za-z0-9_]*", text) else shift
            heap += b"".join(ord(char).to_bytes(1 << shift, "little") for char in text)
            entries += struct.pack("<I", len(heap) << 2 | kind)
        return b"hsc\x01" + struct.pack("<I", len(self.strings)) + entries + heap


def write(value: Any, table: Table) -> bytes:
    """The kinds that tests need, by the rules of the format."""
    if value is None:
        return TAG["none"]
    if isinstance(value, bool):
        return TAG["true" if value else "false"]
    if isinstance(value, int):
        return TAG["int"] + zigzag(value)
    if isinstance(value, float):
        return TAG["float"] + struct.pack("<d", value)
    if isinstance(value, str):
        return TAG["string"] + table.index(value)
    if isinstance(value, bytes):
        return TAG["bytes"] + blob(value)
    if isinstance(value, (tuple, list)):
        items = b"".join(write(item, table) for item in value)
        return TAG[type(value).__name__] + varint(len(value)) + items
    if isinstance(value, dict):
        items = b"".join(write(part, table) for item in value.items() for part in item)
        return TAG["dict"] + varint(len(value)) + items
    if isinstance(value, types.CodeType):
        return write_code(value, table)
    raise TypeError(type(value))


def write_code(code: types.CodeType, table: Table, **lies: Any) -> bytes:
    """``lies`` replace what would be read off ``code``, by the names of its attributes."""

    def field(name: str, default: Any = None) -> Any:
        return lies.get(name, getattr(code, name, default))

    def names(group: tuple[str, ...]) -> bytes:
        return varint(len(group)) + b"".join(table.index(name) for name in group)

    qualname = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
    out = TAG["code"] + struct.pack("<H", lies.get("magic", MAGIC))
    consts = field("co_consts")
    out += varint(len(consts)) + b"".join(write(const, table) for const in consts)
    for name in ("flags", "argcount", "posonlyargcount", "kwonlyargcount", "stacksize"):
        out += varint(field("co_" + name))
    out += zigzag(field("co_firstlineno"))
    for text in (field("co_filename"), field("co_name"), lies.get("co_qualname", qualname)):
        out += table.index(text)
    for name in ("co_names", "co_varnames", "co_cellvars", "co_freevars"):
        out += names(field(name))
    hidden = lies.get("hidden", ())
    out += varint(len(hidden)) + b"".join(map(varint, hidden))
    out += blob(field("co_linetable")) + blob(field("co_exceptiontable", b""))
    return out + blob(field("co_code"))
