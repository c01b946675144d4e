"""The exceptions that hotstart raises.

Each derives from what callers of the code it replaces already catch: torch's stores raise
``RuntimeError``, decoding errors are ``ValueError``s, system errors stay ``OSError``s.
"""

from __future__ import annotations


class HotstartError(RuntimeError):
    """The base of every error of our own."""


class CorruptPackageError(HotstartError, ValueError):
    """Bytes that are not what the format says they are.

    ``reason`` says what was expected and what was found; ``offset`` is where, counted from the
    start of the bytes that were being read.
    """

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason, offset)
        self.reason = reason
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.reason} (at byte {self.offset})"


class UnsupportedValueError(HotstartError, TypeError):
    """A value that the codec cannot store; the message names where in the value it sits."""
