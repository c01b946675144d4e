"""Saved states brought to life: names in globals, backends, guards, entries on code objects.

Whoever installs or removes holds Dynamo's compile lock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import types
from collections.abc import Callable
from typing import Any

from torch._dynamo.exc import PackageError

from hotstart._torch import eval_frame, naming, telemetry
from hotstart.dropin.code import (
    IMPORT_ALIAS,
    SerializedCode,
    _lookup_code,
    backends_used,
    with_globals_of,
)
from hotstart.dropin.records import _Backends, _DynamoCodeCacheEntry, _GuardedCodeCacheEntry
from hotstart.guards.load import (
    globals_needed,
    install_builtins,
    load_guard_manager,
    load_guards_state,
)
from hotstart.identity import code_fingerprint

# A variant that serves: its guard manager and its bytecode.
Served = tuple[Any, types.CodeType]


@dataclasses.dataclass
class Installation:
    """What one package has put into this process, to be removed again.

    ``scope_of`` gives the globals of frames of a module; ``guard_hook`` is called with each guard
    manager and the globals it guards; ``phase`` times what runs under a name.
    """

    scope_of: Callable[[str], dict[str, Any]]
    guard_hook: Callable[[Any, dict[str, Any]], None] | None
    phase: Callable[[str], contextlib.AbstractContextManager[None]]
    _globals: list[tuple[dict[str, Any], str]] = dataclasses.field(default_factory=list)
    _served: dict[types.CodeType, list[Served]] = dataclasses.field(default_factory=dict)
    _skipped: list[types.CodeType] = dataclasses.field(default_factory=list)

    def add(
        self,
        code: types.CodeType,
        entry: _DynamoCodeCacheEntry,
        backends: _Backends,
        failed: Callable[[Exception], None],
    ) -> int:
        """Installs an entry; ``failed`` is told of each part that cannot be, and may raise.

        Returns how many variants of the entry serve.
        """
        try:
            scope = self.scope_of(entry.python_module)
            self._put_names(code, entry, scope)
            target = _target_of(code, entry)
        except Exception as e:
            failed(e)
            return 0
        if entry.bypassed:
            return 0
        if not entry.guarded_codes:
            if entry.has_compile_id:  # Dynamo came by and found nothing to compile.
                eval_frame.skip(target)
                self._skipped.append(target)
            return 0
        with self.phase("backends"):
            alive = self._put_backends(entry, scope, backends, failed)
        served = 0
        for variant in entry.guarded_codes:
            try:
                with self.phase("guards"):
                    served += self._serve(target, variant, scope, alive)
            except Exception as e:
                failed(e)
        return served

    def _put_names(
        self, code: types.CodeType, entry: _DynamoCodeCacheEntry, scope: dict[str, Any]
    ) -> None:
        for alias, module_name in entry.import_sources.items():
            self.put(scope, alias, importlib.import_module(module_name))
        if entry.install_to_global:
            for name in entry.function_names:
                self.put(scope, name, _resume_function(code, scope, name))

    def _put_backends(
        self,
        entry: _DynamoCodeCacheEntry,
        scope: dict[str, Any],
        backends: _Backends,
        failed: Callable[[Exception], None],
    ) -> set[str]:
        """Returns the names of the backends that are there now."""
        alive: set[str] = set()
        for backend_id in entry.backend_ids:
            try:
                if backend_id not in backends:
                    raise RuntimeError(f"Backend {backend_id} is not found in the given backends")
                with telemetry.dynamo_timed("after_deserialization", phase_name="backend_compile"):
                    backend = backends[backend_id].after_deserialization()
                self.put(scope, backend_id, eval_frame.disabled(backend))
                alive.add(backend_id)
            except Exception as e:
                failed(e)
        return alive

    def _serve(
        self,
        target: types.CodeType,
        variant: _GuardedCodeCacheEntry,
        scope: dict[str, Any],
        alive: set[str],
    ) -> bool:
        named = SerializedCode.to_code_object(variant.dynamo_code)
        dynamo_code = with_globals_of(named, self.scope_of)
        if not backends_used(dynamo_code) <= alive:
            return False  # Its backend's failure has been told.
        with telemetry.dynamo_timed("precompile_load_guards"):
            state = load_guards_state(variant.guards_state)
        if (builtins_name := install_builtins(state, scope)) is not None:
            self._note(scope, builtins_name)
        with telemetry.dynamo_timed("precompile_build_guards"):
            manager = load_guard_manager(state, target, scope)
            for name, value in globals_needed(manager).items():
                self.put(scope, name, value)
            if self.guard_hook is not None:
                self.guard_hook(manager, scope)
        eval_frame.add_entry(target, manager, dynamo_code)
        self._served.setdefault(target, []).append((manager, dynamo_code))
        return True

    def put(self, scope: dict[str, Any], name: str, value: Any) -> None:
        """Sets a global."""
        scope[name] = value
        self._note(scope, name)

    def _note(self, scope: dict[str, Any], name: str) -> None:
        naming.forget_cleanups(scope, [name])
        self._globals.append((scope, name))

    def remove(self) -> None:
        """Takes everything back. All precompiled entries of the code objects go."""
        for scope, name in self._globals:
            # Code that Dynamo compiled here meanwhile uses the alias it found.
            if not (name.startswith(IMPORT_ALIAS) and naming.dynamo_has_compiled()):
                scope.pop(name, None)
        for code in self._served:
            eval_frame.remove_entries(code)
        for code in self._skipped:
            eval_frame.unskip(code)
        self._globals, self._served, self._skipped = [], {}, []

    def served(self, code: types.CodeType) -> list[Served]:
        """The variants that serve calls of ``code``."""
        return self._served.get(code, [])


def _target_of(code: types.CodeType, entry: _DynamoCodeCacheEntry) -> types.CodeType:
    """The code object that calls of the entry's function run."""
    if not entry.code_source:
        return code
    target = _lookup_code(entry)
    if code_fingerprint(target) != code_fingerprint(code):
        raise PackageError(f"{entry.python_module}.{entry.function_names[0]} has changed")
    return target


def _resume_function(code: types.CodeType, scope: dict[str, Any], name: str) -> Any:
    """The resume function of ``code``; with free variables, what makes it from a closure."""
    if not code.co_freevars:
        return types.FunctionType(code, scope, name)

    def with_closure(closure: tuple[types.CellType, ...]) -> types.FunctionType:
        return types.FunctionType(code, scope, name, None, closure)

    return with_closure
