"""Source text that a compiled graph depends on: recorded when compiled, checked when loaded."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib
import inspect
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from torch._dynamo.exc import PackageError

from hotstart.dropin.code import follow, handle_in
from hotstart.identity import code_fingerprint, namespace_fingerprint
from hotstart.source_hash import hash_lines


def _hash_source(source: str) -> str:
    """The SHA-256 of ``source`` in UTF-8, in hexadecimal."""
    return hashlib.sha256(source.encode()).hexdigest()


def _get_sourcelines(m: types.ModuleType, firstlineno: int, lastlineno: int) -> list[str]:
    """Lines ``firstlineno`` (counted from 1) up to, not including, ``lastlineno``."""
    return inspect.getsourcelines(m)[0][firstlineno - 1 : lastlineno - 1]


def _hash_sourcelines(m: types.ModuleType, firstlineno: int, lastlineno: int) -> str:
    return _hash_source("".join(_get_sourcelines(m, firstlineno, lastlineno)))


@functools.cache
def _get_module_content(module: types.ModuleType) -> str:
    return inspect.getsource(module)


@dataclasses.dataclass(frozen=True)
class InlinedSource:
    """A function's lines in its module: lines ``firstlineno`` up to, not including,
    ``lastlineno``; their checksum; and the text of the whole module."""

    module: str
    firstlineno: int
    lastlineno: int
    checksum: str
    content: str


@dataclasses.dataclass(frozen=True)
class LiveCode:
    """A handle to an inlined function's code and the fingerprint that the code had.

    Lines of a file say nothing about a function that was replaced while the program runs; the code
    that the handle leads to does.
    """

    module: str
    qualname: str
    code_source: str
    fingerprint: str
    namespace: str

    def is_unchanged(self) -> bool:
        code = follow(self.module, self.qualname, self.code_source)
        return (
            isinstance(code, types.CodeType)
            and code_fingerprint(code) == self.fingerprint
            and namespace_fingerprint(code, vars(sys.modules[self.module])) == self.namespace
        )


@dataclasses.dataclass
class SourceInfo:
    """The sources of all functions that were inlined into a package's graphs."""

    inlined_sources: set[InlinedSource]

    def __post_init__(self) -> None:
        # Not fields: torch's records, whose fields these are, have no place for them.
        self.live_codes: set[LiveCode] = set()
        self.main_namespace = ""

    def add_code(self, code: types.CodeType) -> None:
        """Records the source of ``code``. Of code that is in no module's file, such as a notebook's
        cell, only what it does is recorded; of code that no module holds, nothing.

        Raises AssertionError where the source is not what its module has in that place, OSError
        where it cannot be read.
        """
        module = inspect.getmodule(code)
        if module is None:
            self._add_live_code(sys.modules["__main__"], code)
            return
        self._add_live_code(module, code)
        lines, firstlineno = inspect.getsourcelines(code)
        lastlineno = firstlineno + len(lines)
        source = "".join(lines)
        if source != "".join(_get_sourcelines(module, firstlineno, lastlineno)):
            raise AssertionError(
                f"Source mismatch for {module.__name__} (line {firstlineno}-{lastlineno})"
            )
        self.inlined_sources.add(
            InlinedSource(
                module=module.__name__,
                firstlineno=firstlineno,
                lastlineno=lastlineno,
                checksum=_hash_source(source),
                content=_get_module_content(module),
            )
        )

    def _add_live_code(self, module: types.ModuleType, code: types.CodeType) -> None:
        try:
            qualname, code_source = handle_in(module, code)
        except PackageError:
            return  # No handle leads to it; its guards and its lines have to do.
        if follow(module.__name__, qualname, code_source) is code:
            self.live_codes.add(
                LiveCode(
                    module.__name__,
                    qualname,
                    code_source,
                    code_fingerprint(code),
                    namespace_fingerprint(code, vars(module)),
                )
            )

    def add_main(self, fn: Any) -> None:
        """Records what names the package's own function ``fn`` sees."""
        self.main_namespace = namespace_fingerprint(fn.__code__, _globals_of(fn))

    def check(self, fn: Any) -> None:
        """Raises RuntimeError where a source is no longer what it was for the package of ``fn``."""
        if self.main_namespace not in ("", namespace_fingerprint(fn.__code__, _globals_of(fn))):
            raise RuntimeError(f"Names came or went that {fn.__qualname__} uses")
        for inlined in _changed(self.inlined_sources):
            raise RuntimeError(
                f"Source code changes detected for {inlined.module} "
                f"(line {inlined.firstlineno} - line {inlined.lastlineno})"
            )
        for live in self.live_codes:
            if not live.is_unchanged():
                raise RuntimeError(
                    f"Source code changes detected for {live.module} ({live.qualname})"
                )


def _globals_of(fn: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(fn, "__globals__", {})
    return found


def _changed(inlined_sources: Iterable[InlinedSource]) -> Iterator[InlinedSource]:
    """Those that are not what they were; each file is read once."""
    by_module: dict[str, list[InlinedSource]] = {}
    for inlined in inlined_sources:
        by_module.setdefault(inlined.module, []).append(inlined)
    for name, sources in by_module.items():
        module = importlib.import_module(name)
        spans = [(s.firstlineno, s.lastlineno) for s in sources]
        for inlined, found in zip(sources, _checksums(module, spans), strict=True):
            same = found == inlined.checksum
            if not same and not _has_only_moved(inlined, inspect.getsource(module)):
                yield inlined


def _checksums(module: types.ModuleType, spans: list[tuple[int, int]]) -> list[str]:
    path = inspect.getsourcefile(module)
    if path is not None and os.path.isfile(path):
        return hash_lines(path, spans)
    # Inside a zip file, or typed into a notebook.
    return [_hash_sourcelines(module, first, last) for first, last in spans]


def _has_only_moved(inlined: InlinedSource, content: str) -> bool:
    """Whether the module still has the same lines, at another place, under the same one name."""
    try:
        before = _definitions(inlined.content)
        after = _definitions(content)
    except SyntaxError:
        return False
    name = next((n for n, spans in before.items() if inlined.firstlineno in dict(spans)), None)
    if name is None or len(before[name]) != 1 or len(after.get(name, ())) != 1:
        return False
    first, _ = after[name][0]
    lines = content.splitlines(keepends=True)
    length = inlined.lastlineno - inlined.firstlineno
    return _hash_source("".join(lines[first - 1 : first - 1 + length])) == inlined.checksum


def _definitions(content: str) -> dict[str, list[tuple[int, int]]]:
    """The (first, last) lines of all functions in ``content`` by qualified name."""
    found: dict[str, list[tuple[int, int]]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                if not isinstance(child, ast.ClassDef):
                    found.setdefault(name, []).append((first, child.end_lineno or first))
                visit(child, f"{name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(content), "")
    return found
