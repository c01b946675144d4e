"""What a package keeps of one variant's guards, as bytes.

Three kinds of bytes can stand in ``_GuardedCodeCacheEntry.guards_state``:

- torch's own pickle, from a manual save without `hotstart.enable()`;
- an envelope: torch's pickle, what it leaves out, checksums of what the guards said, and the
  thread state they were built under;
- a refusal: why this variant cannot be saved.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from hotstart._core import dumps, loads

_ENVELOPE = b"hotstart guards 1\n"
_REFUSAL = b"hotstart refusal 1\n"


@dataclasses.dataclass(frozen=True)
class Envelope:
    """``facts`` is what the guards said, see `hotstart.guards.facts`; ``tensor_attributes`` maps
    the name of a tensor's source to what was set on the tensor, such as marks of dynamic
    dimensions; ``kinds`` counts the guards by kind."""

    torch_state: bytes
    facts: dict[str, int]
    tensor_attributes: dict[str, dict[str, Any]]
    ambient: dict[str, Any]
    kinds: dict[str, int]

    def to_bytes(self) -> bytes:
        fields = (getattr(self, field.name) for field in dataclasses.fields(self))
        return _ENVELOPE + dumps(tuple(fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope | None:
        """The envelope in ``data``, None if that is of another kind."""
        if not data.startswith(_ENVELOPE):
            return None
        fields = loads(memoryview(data)[len(_ENVELOPE) :])
        return cls(*cast(tuple[Any, ...], fields))


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Stands for guards that cannot be saved."""

    reason: str
    kinds: dict[str, int]

    def to_bytes(self) -> bytes:
        return _REFUSAL + dumps((self.reason, self.kinds))

    @classmethod
    def from_bytes(cls, data: bytes) -> Refusal | None:
        """The refusal in ``data``, None if that is of another kind."""
        if not data.startswith(_REFUSAL):
            return None
        fields = cast(tuple[str, dict[str, int]], loads(memoryview(data)[len(_REFUSAL) :]))
        return cls(*fields)
