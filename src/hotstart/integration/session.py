"""What hotstart knows of a process while it is enabled: which functions have which package.

A package is looked for at a function's first call, not when it is decorated: only then does the
module that the function lives in hold everything that guards refer to.
"""

from __future__ import annotations

import inspect
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from torch._dynamo.precompile_context import PrecompileContext

from hotstart import keys, report
from hotstart._torch import context as contexts
from hotstart._torch import eval_frame, settings, telemetry
from hotstart.dropin.code import SerializedCode
from hotstart.dropin.compile_package import CompilePackage
from hotstart.dropin.complete import complete
from hotstart.dropin.records import PrecompileCacheEntry
from hotstart.identity import code_fingerprint
from hotstart.integration.backend_guard import BackendScope, add_backend_guard
from hotstart.integration.kernels import Kernels
from hotstart.log import logger
from hotstart.store import legacy
from hotstart.store.base import DynamoStore
from hotstart.store.disk import DiskDynamoStore, cache_dir
from hotstart.store.environments import Environments


class Session:
    """The packages of one enabled stretch. Never raises into the user's program."""

    def __init__(self, store: DynamoStore) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._attachments: weakref.WeakKeyDictionary[Any, Attachment] = weakref.WeakKeyDictionary()
        # Weak, since a package leads to the function and so to the model.
        self._packages: weakref.WeakValueDictionary[str, CompilePackage] = (
            weakref.WeakValueDictionary()
        )
        self._unsaved: set[str] = set()
        self._kernels = Kernels(store)
        self._environments = (
            Environments(store.path_prefix()) if isinstance(store, DiskDynamoStore) else None
        )
        self.closed = False

    def watch(self, context: Any, fn: Any) -> None:
        """Has the package of ``fn`` looked for when ``context`` first runs it."""
        package = contexts.package_of(context)
        if context in self._attachments or not isinstance(package, CompilePackage):
            return
        if package.is_initialized():
            return  # The user's own, to be saved and installed by the user.
        attachment = Attachment(self, context, contexts.callable_of(fn))
        self._attachments[context] = attachment
        contexts.on_enter(context, attachment.enter)

    def attach(self, attachment: Attachment) -> BackendScope:
        """Finds or begins the package of a function. Returns with which compile options it runs:
        none where it is compiled without a package."""
        with eval_frame.compile_lock, self._lock:
            if attachment.scope is not None:
                return attachment.scope  # Another thread came first.
            if attachment.looking or self.closed:
                return BackendScope(None)  # A call from inside the look-up, or after the end.
            attachment.looking = True
            try:
                attachment.scope = BackendScope(self._look_up(attachment))
            finally:
                attachment.looking = False
            return attachment.scope

    def _look_up(self, attachment: Attachment) -> str | None:
        row = report.record(_title(attachment.fn), report.Outcome.MISS)
        try:
            return self._attach(attachment, row)
        except Exception as e:
            attachment.detach()
            row.bypass(report.failure(logger, row.function, "find a package", e))
            return None

    def _attach(self, attachment: Attachment, row: report.Row) -> str | None:
        """Returns the id of the compile options, None where there is no package."""
        reason = _cannot_be_filed(attachment)
        if reason is not None:
            attachment.detach()
            row.bypass(reason)
            return None
        options = settings.compile_options(attachment.context())
        key = keys.filing_id(attachment.fn, options)
        row.key = key
        options_id = key.rpartition("-")[2]
        package: CompilePackage = attachment.package
        package.filing_id = key
        package.on_give_up = row.give_up
        package.on_guards = row.count_guards
        package.on_miss = row.missed
        package.phase = row.phase
        package.guard_hook = lambda manager, scope: add_backend_guard(manager, scope, options_id)
        other = self._packages.get(key)
        if other is not None and not other.is_of(attachment.fn):
            attachment.detach()
            row.bypass("another function with the same name and code has the package")
            return None
        if other is not None:
            package.share(other, attachment.fn)
            row.hit("shares the package of another object of the same code")
        elif not self._load(package, attachment, key, options, row):
            package.initialize(attachment.fn)
        self._packages[key] = package
        return options_id

    def _load(
        self,
        package: CompilePackage,
        attachment: Attachment,
        key: str,
        options: dict[str, Any],
        row: report.Row,
    ) -> bool:
        """Whether the store's package was taken over, with at least its records."""
        try:
            with row.phase("read"):
                entry, foreign = self._read(attachment, key, options)
            if entry is None:
                telemetry.count("dynamo_cache_miss")
                row.miss(self._why_none(key))
                return False
            with row.phase("check"):
                _check_is_of(entry, attachment.fn)
                package.initialize(attachment.fn, entry.dynamo)
        except Exception as e:
            telemetry.count("dynamo_cache_error")
            row.miss(report.failure(logger, row.function, "load its package", e))
            return False
        telemetry.count("dynamo_cache_hit")
        self._kernels.serve(keys.environment_of(key))
        served = package.install_what_fits(entry.backends)
        for reason in self._kernels.refused():
            row.note(reason)
        if foreign:
            self.record(package)  # To be filed as ours.
        if served:
            row.hit(f"{served} compiled variants")
        else:
            row.miss("no variant of the package fits")
        return True

    def _why_none(self, key: str) -> str:
        other = None
        if self._environments is not None:
            other = self._environments.why_not(key, keys.describe_environment())
        return f"there is no package, only one for {other}" if other else "there is no package"

    def _read(
        self, attachment: Attachment, key: str, options: dict[str, Any]
    ) -> tuple[PrecompileCacheEntry | None, bool]:
        """The package of a function, if there is one, and whether torch's own cache wrote it."""
        if self.store.contains(key):
            return self.store.load_cache_entry(key), False
        return self._read_torch_file(attachment, options), True

    def _read_torch_file(
        self, attachment: Attachment, options: dict[str, Any]
    ) -> PrecompileCacheEntry | None:
        """The package that torch's own cache has for the function, if it is sure to fit."""
        if not settings.are_defaults(options):
            return None
        name = CompilePackage.source_id_from_fn(attachment.fn)
        file = os.path.join(cache_dir(), "dynamo", name, "entry")
        if not os.path.exists(file) or not legacy.is_torch_file(file):
            return None
        entry = legacy.read(file)
        if not legacy.fits(entry, attachment.fn):
            return None
        for artifact in entry.backends.values():
            PrecompileContext.record_artifact(artifact)
        return entry

    def record(self, package: CompilePackage) -> None:
        """Notes what ``package`` has just compiled; called by Dynamo after each compile."""
        try:
            key = package.filing_id = package.filing_id or keys.filing_id(package._innermost_fn)
            self.store.record_package(package)
        except Exception as e:
            report.failure(logger, "a compiled function", "note its package", e)
            return
        with self._lock:
            self._unsaved.add(key)

    def save(self) -> int:
        """Writes every package that has something new; returns how many were written."""
        with self._lock:
            unsaved, self._unsaved = self._unsaved, set()
        return sum(self._save(key) for key in sorted(unsaved))

    def _save(self, key: str) -> bool:
        row = report.find(key) or report.record(key, report.Outcome.MISS, key=key)
        try:
            entry = PrecompileContext._dynamo_cache_entries[key]
            artifacts = PrecompileContext._backend_artifacts_by_key
            package = complete(entry, artifacts, row.give_up)
            if not any(code.guarded_codes for code in package.dynamo.codes):
                return False
            with row.phase("save"):
                self.store.write(package, key)
                environment = keys.environment_of(key)
                self._kernels.save(environment, package.backends.values())
                if self._environments is not None:
                    self._environments.note(environment, keys.describe_environment())
            row.saved = True
            return True
        except Exception as e:
            row.note(report.failure(logger, row.function, "save its package", e))
            return False

    def reset(self) -> None:
        """What `torch._dynamo.reset` means for packages: as if the process ended and began anew."""
        self.save()
        with self._lock:
            for attachment in list(self._attachments.values()):
                attachment.forget()
            self._packages.clear()

    def close(self) -> None:
        """Takes everything back. Functions compiled meanwhile go on without packages."""
        with self._lock:
            self.closed = True
            for attachment in list(self._attachments.values()):
                attachment.forget()
                attachment.detach()
            self._packages.clear()
        self._kernels.close()


class Attachment:
    """One optimize context, the function it compiles, and their package."""

    def __init__(self, session: Session, context: Any, fn: Any) -> None:
        self.session = session
        self.context = weakref.ref(context)
        self.fn = fn
        self.package: CompilePackage = contexts.package_of(context)
        self.scope: BackendScope | None = None
        self.looking = False

    def enter(self) -> Callable[[], None]:
        """Runs at the start of each call of the function."""
        scope = self.scope or self.session.attach(self)
        return scope()

    def forget(self) -> None:
        """Uninstalls the package; the next call looks for it again."""
        self.scope = None
        self.package.release()

    def detach(self) -> None:
        context = self.context()
        if context is not None:
            contexts.detach_package(context)


def _check_is_of(entry: PrecompileCacheEntry, fn: Any) -> None:
    """Raises RuntimeError for another function's package: the name of a file proves nothing."""
    main = SerializedCode.to_code_object(entry.dynamo.codes[0].python_code)
    if code_fingerprint(main) != code_fingerprint(eval_frame.innermost_fn(fn).__code__):
        raise RuntimeError(f"it is the package of another function, {entry.dynamo.fn_name}")


def _cannot_be_filed(attachment: Attachment) -> str | None:
    """Why the function's package could not be found again in another process."""
    fn = eval_frame.innermost_fn(attachment.fn)
    if not (inspect.isfunction(fn) or inspect.ismethod(fn)):
        return f"a {type(fn).__name__} has no code object of its own"
    if settings.backend_name(attachment.context()) is None:
        return "the backend is no function of a module, so it has no name to file packages under"
    return None


def _title(fn: Any) -> str:
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"
