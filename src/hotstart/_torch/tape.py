"""What was called while a guard tree was built."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class Call:
    """One call: on a node, of a method that made a node or added a guard; or of a function."""

    name: str
    receiver: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    made: Any = None


@dataclasses.dataclass
class Tape:
    """Calls in their order, all of whose objects stay alive; and objects by the address that a
    guard was made of."""

    calls: list[Call] = dataclasses.field(default_factory=list)
    objects: dict[int, Any] = dataclasses.field(default_factory=dict)
