"""Saying what is in a package file and in a store. Loads nothing: no torch, no pickle."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotstart._core import Decoder
from hotstart.container import Container, SectionKind, sections
from hotstart.errors import HotstartError
from hotstart.store.location import store_folder


@dataclass(frozen=True)
class Section:
    kind: str
    index: int
    size: int


@dataclass(frozen=True)
class PackageFacts:
    """What a package file says of itself."""

    format_version: int
    sections: tuple[Section, ...]
    meta: Mapping[str, object] = field(default_factory=dict)


def read_facts(file: Path) -> PackageFacts:
    """Opens ``file`` and verifies all of it. Raises CorruptPackageError or OSError."""
    container = Container.open(file)
    container.verify()
    table = tuple(
        Section(getattr(info.kind, "name", f"kind {info.kind}"), info.ordinal, info.length)
        for info in sections(container)
    )
    return PackageFacts(container.version, table, _meta(container))


def _meta(container: Container) -> Mapping[str, object]:
    """The section that is there for people; nothing is loaded from it."""
    if not (container.has(SectionKind.META) and container.has(SectionKind.STRINGS)):
        return {}
    decoder = Decoder(container.get(SectionKind.STRINGS), _leave_undecoded)
    meta = decoder.decode(container.get(SectionKind.META))
    return meta if isinstance(meta, dict) else {}


def _leave_undecoded(tag: str, payload: object) -> object:
    """A value that is not plain, such as a pickle: to look at a file must not run it."""
    return f"<{tag}>"


def describe(file: Path) -> str:
    """The sections, sizes and versions of a package file, for people."""
    facts = read_facts(file)
    size = file.stat().st_size
    lines = [f"{file}: format {facts.format_version}, {_size(size)}"]
    lines += [f"  {name}: {value}" for name, value in facts.meta.items()]
    lines += [f"  {'section':<16} {'number':>6} {'size':>12}"]
    lines += [f"  {s.kind:<16} {s.index:>6} {_size(s.size):>12}" for s in facts.sections]
    payload = sum(section.size for section in facts.sections)
    return "\n".join([*lines, f"  {'frame and padding':<23} {_size(size - payload):>12}"])


def listing(folder: Path | None = None) -> Iterator[str]:
    """One line for each package of a store, newest first; a file that cannot be read says why."""
    folder = folder or Path(store_folder())
    if not folder.is_dir():
        raise HotstartError(f"{folder}: there is no such folder")
    found = [(file, file.stat()) for file in folder.glob("*/entry")]
    yield f"{folder}: {len(found)} packages, {_size(sum(stat.st_size for _, stat in found))}"
    for file, stat in sorted(found, key=_newest_first):
        saved = time.strftime("%Y-%m-%d %H:%M", time.localtime(stat.st_mtime))
        yield f"{saved} {_size(stat.st_size):>12}  {file.parent.name}  {_summary(file)}"


def _newest_first(found: tuple[Path, os.stat_result]) -> float:
    return -found[1].st_mtime


def _summary(file: Path) -> str:
    try:
        meta = read_facts(file).meta
    except (HotstartError, OSError) as error:
        return f"unreadable: {error}"
    return ", ".join(f"{name} {value}" for name, value in meta.items())


def _size(size: int) -> str:
    return f"{size:,} bytes"
