"""The tape of a guard plan, written. C++ reads it: csrc/guards/plan.h has the same numbers."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any


class Shape(enum.IntEnum):
    ACCESSOR = 0
    KEYED_ACCESSOR = 1
    LEAF = 2
    FUNCTION = 3


class Example(enum.IntEnum):
    NONE = 0
    OBJECT = 1
    DICT = 2
    TENSOR = 3
    VALUE = 4


class NodeFlags(enum.IntFlag):
    DICT_MANAGER = 0x08
    TAG_SAFE = 0x10
    TAG_SAFE_ROOT = 0x20


@dataclasses.dataclass
class _Step:
    operation: int
    nodes_before: int
    receiver: int | None
    key: int | None = None
    cut: int = 0
    suffix: int | None = None
    example: int | None = None
    kinds: str = ""
    arguments: Sequence[Any] = ()


class TapeWriter:
    """Takes calls in their order. Values are numbers that `to_bytes` puts in their places."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, Shape, str], int] = {}
        self._steps: list[_Step] = []
        self._flags: list[int] = [0]  # by node

    def accessor(
        self,
        name: str,
        receiver: int,
        key: int | None,
        flags: int,
        example: int | None,
        cut: int,
        suffix: int,
    ) -> None:
        """A call that makes the next node, whose source is the receiver's without ``cut`` code
        points at its end and with ``suffix``."""
        shape = Shape.ACCESSOR if key is None else Shape.KEYED_ACCESSOR
        operation = self._operation(name, shape, "")
        nodes = len(self._flags)
        self._steps.append(_Step(operation, nodes, receiver, key, cut, suffix, example))
        self._flags.append(int(flags))

    def mark(self, node: int, flag: NodeFlags) -> None:
        self._flags[node] |= flag

    def leaf(self, name: str, receiver: int, kinds: str, arguments: Sequence[Any]) -> None:
        """A call that adds a guard; an argument is a number of its kind, None if it has none."""
        self._guard(self._operation(name, Shape.LEAF, kinds), receiver, kinds, arguments)

    def function(self, name: str, kinds: str, arguments: Sequence[Any]) -> None:
        self._guard(self._operation(name, Shape.FUNCTION, kinds), None, kinds, arguments)

    def _guard(
        self, operation: int, receiver: int | None, kinds: str, arguments: Sequence[Any]
    ) -> None:
        step = _Step(operation, len(self._flags), receiver, kinds=kinds, arguments=arguments)
        self._steps.append(step)

    def _operation(self, name: str, shape: Shape, kinds: str) -> int:
        return self._operations.setdefault((name, shape, kinds), len(self._operations))

    def to_bytes(self, places: Sequence[int]) -> bytes:
        """The tape; ``places`` has the place of each value in the plan's tables."""
        out = bytearray()
        _varint(out, len(self._operations))
        for name, shape, kinds in self._operations:
            _varint(out, len(name))
            out += name.encode()
            out.append(shape)
            _varint(out, len(kinds))
            out += kinds.encode()
        for step in self._steps:
            self._write(out, step, places)
        return bytes(out)

    def _write(self, out: bytearray, step: _Step, places: Sequence[int]) -> None:
        out.append(step.operation)
        if step.receiver is not None:
            _varint(out, step.nodes_before - step.receiver)
        if step.key is not None:
            _varint(out, places[step.key])
        if step.suffix is not None:
            out.append(self._flags[step.nodes_before])
            if step.example is not None:
                _varint(out, places[step.example])
            _varint(out, step.cut)
            _varint(out, places[step.suffix])
        for kind, argument in zip(step.kinds, step.arguments, strict=True):
            if kind == "v":
                _varint(out, places[argument])
            elif kind == "n":
                _varint(out, step.nodes_before - argument)
            elif kind == "N":
                _varint(out, len(argument))
                for node in argument:
                    _varint(out, step.nodes_before - node)


def _varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
