"""A guard plan: how to build one variant's guard tree again, as bytes.

See docs/format-guards.md. The calls themselves are read by C++ only.
"""

from __future__ import annotations

import dataclasses
import struct
import types
import zlib
from typing import Any, cast

from hotstart._core import dumps, loads

MAGIC = b"hsguard1"
_HEADER = struct.Struct("<8s6I")

# One guard's texts: the lines that it shows when it fails, and the user's stack where it was made,
# as (file, line, function, source line) from the outermost frame.
Stack = tuple[tuple[str, int, str, str], ...]
Texts = tuple[tuple[str, ...], int]


@dataclasses.dataclass(frozen=True)
class Header:
    """What a load needs besides the tree.

    ``globals`` maps names that Dynamo put into the frame's globals to the number of the value each
    had; ``builtins`` is the name it put the builtins under. ``frame`` is the fingerprint of the
    code object whose locals the guards index. ``kinds`` counts Dynamo's guards by kind.
    """

    ambient: dict[str, Any]
    frame: str
    builtins: str | None
    globals: dict[str, int]
    kinds: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Cold:
    """What only messages need: each guard's texts, with the number of its stack among ``stacks``
    (-1 for none), and for each node the text of its class as torch prints it."""

    texts: tuple[Texts, ...]
    stacks: tuple[Stack, ...]
    types: tuple[str, ...]


def is_plan(data: bytes) -> bool:
    return data[: len(MAGIC)] == MAGIC


class Plan:
    """A plan's bytes, whose hot part has been decoded."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        fields = _HEADER.unpack_from(data)
        values_size, tape_size = fields[3:5]
        view = memoryview(data)
        self._cold = view[_HEADER.size + values_size + tape_size :]
        decoded = loads(view[_HEADER.size : _HEADER.size + values_size])
        header, self.plain, self.special = cast(tuple[Any, Any, Any], decoded)
        self.header = Header(*header)

    @property
    def output_graph(self) -> types.SimpleNamespace:
        """What callers of torch's `load_guards_state` read: where to put the builtins."""
        name = self.header.builtins or ""
        return types.SimpleNamespace(name_of_builtins_dict_key_in_fglobals=name)

    @property
    def hot_size(self) -> int:
        """Bytes that a load reads."""
        return len(self.data) - len(self._cold)

    def cold(self) -> Cold:
        """What `Cold` says, decompressed and decoded."""
        return Cold(*cast(tuple[Any, Any, Any], loads(zlib.decompress(self._cold))))


def to_bytes(
    header: Header,
    plain: tuple[Any, ...],
    special: tuple[Any, ...],
    node_count: int,
    tape: bytes,
    cold: Cold,
) -> bytes:
    fields = tuple(getattr(header, field.name) for field in dataclasses.fields(header))
    values = dumps((fields, plain, special))
    texts = zlib.compress(dumps((cold.texts, cold.stacks, cold.types)))
    value_count = len(plain) + len(special)
    sizes = (value_count, node_count, len(values), len(tape), len(texts), 0)
    return _HEADER.pack(MAGIC, *sizes) + values + tape + texts
