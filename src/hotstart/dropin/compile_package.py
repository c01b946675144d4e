"""`CompilePackage`: what one `torch.compile` compiled, while it compiles and when it is loaded.

Dynamo holds its compile lock whenever it calls into a package, so a package needs none of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo.exc import PackageError

from hotstart._torch import eval_frame, naming, telemetry
from hotstart._torch.diagnosis import tell_reasons
from hotstart._torch.graph import device_type_of
from hotstart._torch.recording import recording
from hotstart.dropin.code import (
    COMPILED_FN,
    SerializedCode,
    _backend_ids_from_code,
    _get_code_source,
    holds_a_dict,
    with_globals_named,
)
from hotstart.dropin.installation import Installation
from hotstart.dropin.records import (
    _BackendId,
    _Backends,
    _DynamoCacheEntry,
    _DynamoCodeCacheEntry,
    _FunctionId,
    _GuardedCodeCacheEntry,
)
from hotstart.dropin.sources import SourceInfo
from hotstart.guards.envelope import Refusal
from hotstart.guards.load import explained, globals_of, kinds_of
from hotstart.guards.save import save_guards
from hotstart.log import logger, one_line


def _compile_frame_context(
    code: types.CodeType,
) -> contextlib.AbstractContextManager[None]:
    """Accounts for a loaded frame as for a compiled one; see `telemetry.frame_context`."""
    return telemetry.frame_context(code)


@dataclasses.dataclass
class _Compile:
    """One compile under way: its entry, and what is taken back if it comes to nothing."""

    entry: _DynamoCodeCacheEntry
    new_backends: list[_BackendId] = dataclasses.field(default_factory=list)
    variant: _GuardedCodeCacheEntry | None = None
    given_up: bool = False
    # What Dynamo put into the frame's globals, beyond what records list.
    put_globals: dict[str, Any] = dataclasses.field(default_factory=dict)


class CompilePackage:
    """The compiled states of a function and of all the code that it leads to.

    Without ``dynamo`` the package is new and fills while Dynamo compiles; with it, `install` makes
    the saved states serve. With ``fn=None`` it waits for `initialize`.

    Raises RuntimeError where ``dynamo`` was made by another Python, torch or GPU, or where the
    source of an inlined function has changed (unless ``ignore_inlined_sources``).
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        dynamo: _DynamoCacheEntry | None = None,
        ignore_inlined_sources: bool = False,
    ) -> None:
        self._innermost_fn: Any = None
        self._codes: dict[types.CodeType, _DynamoCodeCacheEntry] = {}
        self._compiles: list[_Compile] = []
        self._device_type = "cpu"
        self._cached_backends: _Backends = {}
        self._source_info = SourceInfo(inlined_sources=set())
        self._resume_codes: set[types.CodeType] = set()
        self._initialized = False
        self._other_face: CompilePackage | None = None
        # The id that stores file it under, once one of them has said so; see `hotstart.keys`.
        self.filing_id: str | None = None
        # What the integration adds: what every guard manager gets; who is told of variants that are
        # not saved or not installed (function, reason) and of the guards of each compile (number by
        # kind, whether they are kept) and of calls that missed every installed variant (function,
        # the guard that refused, for each); and what times the phases of an install.
        self.guard_hook: Callable[[Any, dict[str, Any]], None] | None = None
        self.on_give_up: Callable[[str, str], None] = _log_give_up
        self.on_guards: Callable[[dict[str, int], bool], None] = lambda kinds, kept: None
        self.on_miss: Callable[[str, list[str]], None] = lambda function, reasons: None
        self.phase: Callable[[str], contextlib.AbstractContextManager[None]] = _untimed
        self._installation = self._new_installation()
        if fn is not None:
            self.initialize(fn, dynamo, ignore_inlined_sources)
            self.uninstall()
            self.validate()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is a new package that waits for `initialize`: what is installed here, on these
        code objects and in these globals, belongs to this one. Compiled modules are copied with
        the package they are compiled into."""
        return CompilePackage, (None,)

    # Beginning

    def is_initialized(self) -> bool:
        return self._initialized

    def initialize(
        self,
        fn: Any,
        dynamo: _DynamoCacheEntry | None = None,
        ignore_inlined_sources: bool = False,
    ) -> None:
        """Binds the package to ``fn``. A package that raised here can be initialised again."""
        if self._initialized:
            raise AssertionError("CompilePackage is already initialized")
        innermost = eval_frame.innermost_fn(fn)
        if innermost is None:
            raise AssertionError("innermost_fn returned None")
        codes: dict[types.CodeType, _DynamoCodeCacheEntry] = {}
        source_info = SourceInfo(inlined_sources=set())
        if dynamo is not None:
            if not isinstance(dynamo, _DynamoCacheEntry):
                raise AssertionError(f"Expected _DynamoCacheEntry, got {type(dynamo)}")
            dynamo.check_versions()
            if not ignore_inlined_sources:
                dynamo.source_info.check(innermost)
                source_info = dynamo.source_info
            main, *others = dynamo.codes
            codes[innermost.__code__] = main
            for entry in others:
                codes[SerializedCode.to_code_object(entry.python_code)] = entry
        self._innermost_fn = innermost
        self._codes, self._source_info = codes, source_info
        if dynamo is None:
            self._add_function(innermost.__code__, _module_of(innermost))
        else:
            self._device_type = dynamo.device_type
        self._resume_codes = {c for c, entry in codes.items() if entry.install_to_global}
        self._initialized = True

    def is_of(self, fn: Any) -> bool:
        """Whether the package is bound to the very code object of ``fn``."""
        return eval_frame.innermost_fn(fn).__code__ is self._innermost_fn.__code__

    def share(self, other: CompilePackage, fn: Any) -> None:
        """Makes this package another face of ``other``, for a second object of the same code."""
        self._innermost_fn = eval_frame.innermost_fn(fn)
        self._codes = other._codes
        self._source_info = other._source_info
        self._resume_codes = other._resume_codes
        self._other_face = other
        self._initialized = True

    def validate(self) -> None:
        if self._compiles:
            raise AssertionError("_current_entry should be None during validate")
        if self._innermost_fn is None:
            raise AssertionError("_innermost_fn is not set during validate")
        if not self._initialized:
            raise AssertionError("CompilePackage is not initialized during validate")
        if next(iter(self._codes)) is not self._innermost_fn.__code__:
            raise AssertionError("First code entry does not match _innermost_fn.__code__")

    def release(self) -> None:
        """Uninstalls the package and makes it wait for `initialize` again."""
        if self._initialized:
            self.uninstall()
        self._innermost_fn = None
        self._codes, self._source_info = {}, SourceInfo(inlined_sources=set())
        self._resume_codes, self._cached_backends = set(), {}
        self._device_type = "cpu"
        self.__dict__.pop("source_id", None)
        self.filing_id = None
        self._other_face = None
        self._initialized = False

    # While Dynamo compiles

    @property
    def current_entry(self) -> _DynamoCodeCacheEntry | None:
        """The entry of the code object that is being compiled."""
        return self._current_entry

    @property
    def _current_entry(self) -> _DynamoCodeCacheEntry | None:
        return self._compiles[-1].entry if self._compiles else None

    def _current(self, caller: str) -> _Compile:
        if not self._compiles:
            raise AssertionError(f"_current_entry is not set in {caller}")
        return self._compiles[-1]

    def _add_function(
        self,
        python_code: types.CodeType,
        python_module: str,
        function_name: _FunctionId | None = None,
        code_source: str | None = None,
        install_to_global: bool = False,
    ) -> None:
        new = _new_entry(python_code, python_module, code_source, install_to_global)
        entry = self._codes.setdefault(python_code, new)
        for name in ("python_module", "install_to_global", "code_source"):
            known, wanted = getattr(entry, name), getattr(new, name)
            if known != wanted:
                raise AssertionError(f"{name} mismatch: {known} != {wanted}")
        if function_name is not None and function_name not in entry.function_names:
            entry.function_names.append(function_name)

    @property
    def cached_backends(self) -> _Backends:
        """The backends' compiled functions, by id, as far as this process compiled them."""
        return self._cached_backends

    @functools.cached_property
    def source_id(self) -> str:
        if self._innermost_fn is None:
            raise AssertionError("_innermost_fn is not set")
        return CompilePackage.source_id_from_fn(self._innermost_fn)

    def _add_user_function(self, code: types.CodeType) -> None:
        function_name, code_source = _get_code_source(code)
        module = inspect.getmodule(code)
        if module is None:
            raise PackageError(f"Cannot find module for code {code}")
        self._add_function(
            code,
            module.__name__,
            function_name=_FunctionId(function_name),
            code_source=code_source,
        )

    @contextlib.contextmanager
    def code_context(self, code: types.CodeType) -> Iterator[None]:
        """What is recorded inside belongs to ``code``.

        User code that Dynamo could not inline comes here when it is called. Where no handle leads
        to such code from its module, nothing of it is saved; it compiles as it would without us.
        """
        if self._compiles:
            raise AssertionError("_current_entry is already set in code_context")
        compile_ = _Compile(self._entry_for(code))
        self._compiles.append(compile_)
        try:
            save = functools.partial(save_guards, compile_.put_globals)
            with recording(save, self._assumed_constant, self._global_put):
                yield
        finally:
            compile_.entry.has_compile_id = True
            self._compiles.pop()

    def _entry_for(self, code: types.CodeType) -> _DynamoCodeCacheEntry:
        if code not in self._codes:
            try:
                self._add_user_function(code)
            except PackageError as e:
                self.on_give_up(code.co_name, one_line(e))
                unfiled = _new_entry(code, "", None, False)
                unfiled.bypassed = True
                return unfiled
        return self._codes[code]

    def add_guarded_code(self, guards_state: bytes, dynamo_code: types.CodeType) -> None:
        """Records what the current compile made, unless that cannot be saved."""
        compile_ = self._current("add_guarded_code")
        if compile_.given_up:
            return
        refusal = Refusal.from_bytes(guards_state)
        reason = refusal.reason if refusal is not None else None
        if reason is None:
            lost = compile_.put_globals.keys() - globals_of(guards_state)
            reason = _why_not_portable(dynamo_code, lost)
        self.on_guards(kinds_of(guards_state), reason is None)
        if reason is not None:
            self._give_up(compile_, reason)
            return
        compile_.variant = _GuardedCodeCacheEntry(
            guards_state=guards_state,
            dynamo_code=SerializedCode.from_code_object(with_globals_named(dynamo_code)),
        )
        compile_.entry.guarded_codes.append(compile_.variant)
        for backend_id in _backend_ids_from_code(dynamo_code):
            self._add_backend_id(_BackendId(backend_id))
        if self._is_filed(compile_.entry):
            compile_.entry.bypassed = False

    def _is_filed(self, entry: _DynamoCodeCacheEntry) -> bool:
        return any(entry is filed for filed in self._codes.values())

    def _give_up(self, compile_: _Compile, reason: str) -> None:
        """Takes the current compile back; earlier ones of the same code stay."""
        entry = compile_.entry
        compile_.given_up = True
        if compile_.variant is not None:
            entry.guarded_codes.remove(compile_.variant)
        entry.backend_ids = [b for b in entry.backend_ids if b not in compile_.new_backends]
        # Without a variant the entry would read like a frame in which there was nothing to compile.
        entry.bypassed = not entry.guarded_codes
        self.on_give_up(entry.python_code.co_name, reason)

    def _assumed_constant(self, name: str) -> None:
        compile_ = self._current("_assumed_constant")
        if not compile_.given_up:
            self._give_up(compile_, f"{name} is assumed to be constant, in this process")

    def _global_put(self, name: str, value: Any) -> None:
        if not naming.is_kept_by_packages(name):
            self._current("_global_put").put_globals[name] = value

    def add_inlined_source(self, sources: list[types.CodeType]) -> None:
        compile_ = self._current("add_inlined_source")
        if compile_.given_up:
            return
        for code in sources:
            if code in self._resume_codes:
                continue
            if code is self._innermost_fn.__code__:
                self._source_info.add_main(self._innermost_fn)
            try:
                self._source_info.add_code(code)
            except (AssertionError, OSError) as e:
                self._give_up(compile_, f"no source for the inlined {code.co_name}: {e}")
                return

    def update_device_type(self, graph: Any) -> None:
        """A package that has used a GPU once is a GPU package."""
        device_type = device_type_of(graph)
        if device_type != "cpu":
            self._device_type = device_type

    def bypass_current_compile(self) -> None:
        """The current compile is not saved; other variants of the same code are."""
        compile_ = self._current("bypass_current_compile")
        if not compile_.given_up:
            self._give_up(compile_, "Dynamo asked for it")

    def bypass_current_entry(self) -> None:
        """`bypass_current_compile`, as torch called it before 2.15."""
        self.bypass_current_compile()

    def add_resume_function(
        self, python_code: types.CodeType, python_module: str, function_name: str
    ) -> None:
        self._add_function(
            python_code,
            python_module,
            function_name=_FunctionId(function_name),
            install_to_global=True,
        )
        self._resume_codes.add(python_code)

    def add_import_source(self, alias: str, module_name: str) -> None:
        self._current("add_import_source").entry.import_sources[alias] = module_name

    def add_backend_id(self, backend_id: str, backend: Any | None = None) -> None:
        self._current("add_backend_id")
        if not backend_id.startswith(COMPILED_FN):
            raise AssertionError(f"backend_id must start with '{COMPILED_FN}', got '{backend_id}'")
        self._add_backend_id(_BackendId(backend_id), backend)

    def _add_backend_id(self, backend_id: _BackendId, backend: Any | None = None) -> None:
        compile_ = self._current("add_backend_id")
        if backend_id not in compile_.entry.backend_ids:
            compile_.entry.backend_ids.append(backend_id)
            compile_.new_backends.append(backend_id)
        if backend is not None:
            self._cached_backends[backend_id] = backend

    # Serving

    def install(self, backends: _Backends) -> None:
        """Makes the package's saved states serve, in place of any it had installed before.

        Raises where anything of it cannot be installed: RuntimeError naming a backend that is not
        in ``backends``, PackageError for guards whose objects are not what they were.
        """
        self.uninstall()
        for code, entry in self._codes.items():
            with self._frame_context(code, entry):
                self._installation.add(code, entry, backends, _raise_failure)

    def install_what_fits(self, backends: _Backends) -> int:
        """`install`, but what cannot be installed is left to an ordinary compile, each with a
        reason to `on_give_up`. Returns how many variants serve.

        Entries that other packages have on the same code stay.
        """
        self._installation.remove()
        self._installation = self._new_installation()
        served = 0
        for code, entry in self._codes.items():

            def give_up(e: Exception, name: str = entry.python_code.co_name) -> None:
                logger.debug("cannot install %s", name, exc_info=e)
                self.on_give_up(name, one_line(e))

            with self._frame_context(code, entry):
                served += self._installation.add(code, entry, backends, give_up)
        return served

    def explain_miss(self, frame: Any) -> None:
        """Tells `on_miss` which guards refused ``frame``, if variants of its code are installed.

        Raises what torch raises for a recompile that is not allowed.
        """
        served = (self._other_face or self)._installation.served(frame.f_code)
        if served:
            tell = functools.partial(self.on_miss, frame.f_code.co_name)
            tell_reasons(frame, explained(served), tell)

    def _new_installation(self) -> Installation:
        return Installation(self._scope_of, self.guard_hook, self.phase)

    def _frame_context(
        self, code: types.CodeType, entry: _DynamoCodeCacheEntry
    ) -> contextlib.AbstractContextManager[None]:
        return _compile_frame_context(code) if entry.has_compile_id else contextlib.nullcontext()

    def _scope_of(self, module: str) -> dict[str, Any]:
        """The globals of the frames that were compiled in ``module``."""
        if module == _module_of(self._innermost_fn):
            return self._innermost_fn.__globals__  # type: ignore[no-any-return]
        return vars(importlib.import_module(module))

    def _install_global(
        self, module: types.ModuleType, name: str, value: Any, *, record_only_if_new: bool = False
    ) -> None:
        if record_only_if_new and name in vars(module):
            vars(module)[name] = value
        else:
            self._installation.put(vars(module), name, value)

    def uninstall(self) -> None:
        """Removes what `install` put there, and every precompiled entry of the function's code."""
        if self._innermost_fn is None:
            raise AssertionError("_innermost_fn is not set in uninstall")
        self._installation.remove()
        self._installation = self._new_installation()
        eval_frame.remove_entries(self._innermost_fn.__code__)

    # Saving

    def cache_entry(self) -> _DynamoCacheEntry:
        self.validate()
        return _DynamoCacheEntry(
            codes=list(self._codes.values()),
            source_info=self._source_info,
            device_type=self._device_type,
            fn_name=self._innermost_fn.__qualname__,
            fn_first_lineno=self._innermost_fn.__code__.co_firstlineno,
        )

    @staticmethod
    def source_id_from_fn(fn: Callable[..., Any]) -> str:
        """torch's id of a function: SHA-256 of its qualified name and first line.

        Two functions can share it; hotstart files packages under `hotstart.keys.filing_id`.
        """
        innermost = eval_frame.innermost_fn(fn)
        sha256 = hashlib.sha256(innermost.__qualname__.encode())
        sha256.update(str(innermost.__code__.co_firstlineno).encode())
        return sha256.hexdigest()


def _new_entry(
    code: types.CodeType, python_module: str, code_source: str | None, install_to_global: bool
) -> _DynamoCodeCacheEntry:
    return _DynamoCodeCacheEntry(
        python_code=SerializedCode.from_code_object(code),
        python_module=python_module,
        function_names=[],
        guarded_codes=[],
        import_sources={},
        backend_ids=[],
        code_source=code_source,
        install_to_global=install_to_global,
    )


def _module_of(fn: Any) -> str:
    """The module whose globals a frame of ``fn`` sees.

    Not ``fn.__module__``: functools.wraps copies that from the wrapped function, while the frame
    keeps the globals of the module in which the wrapper was written.
    """
    scope = getattr(fn, "__globals__", None)
    name = fn.__module__ if scope is None else scope.get("__name__", fn.__module__)
    return str(name)


def _why_not_portable(dynamo_code: types.CodeType, lost_globals: set[str]) -> str | None:
    if names := sorted(lost_globals.intersection(naming.names_used(dynamo_code))):
        return f"the bytecode uses {names[0]}, a global that exists in this process only"
    if holds_a_dict(with_globals_named(dynamo_code)):
        return "the bytecode holds a dict of this process, which a copy cannot stand for"
    return None


def _untimed(phase: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _raise_failure(e: Exception) -> None:
    raise e


def _log_give_up(function: str, reason: str) -> None:
    logger.warning("%s: one compiled variant is not kept: %s", function, reason)
