"""The sections of a package file, by name.

The container (``hotstart._core.Container``, ``build_container``) treats payloads as opaque
bytes; ``docs/format.md`` describes the file.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from hotstart._core import TEMPORARY_PREFIX, Container, build_container, publish

__all__ = [
    "MUST_UNDERSTAND",
    "TEMPORARY_PREFIX",
    "Container",
    "SectionInfo",
    "SectionKind",
    "build_container",
    "publish",
    "sections",
]

#: Flag of a section whose kind a reader must know, or else refuse the whole file.
MUST_UNDERSTAND = 1


class SectionKind(IntEnum):
    """What a section holds. Numbers are for ever: one that is retired is not given out again."""

    STRINGS = 1
    ENTRY = 2
    GUARDS = 3
    BACKEND = 4
    META = 5
    SOURCES = 6
    LIBRARY = 7
    WRAPPER = 8


class SectionInfo(NamedTuple):
    """One entry of the table of contents; ``kind`` is a plain int where it is not a known one."""

    kind: int
    ordinal: int
    flags: int
    offset: int
    length: int
    checksum: int


def sections(container: Container) -> list[SectionInfo]:
    """The table of contents, in file order, with known kinds as :class:`SectionKind`."""
    return [SectionInfo(_kind(kind), *rest) for kind, *rest in container.sections()]


def _kind(number: int) -> int:
    try:
        return SectionKind(number)
    except ValueError:
        return number
