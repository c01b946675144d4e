"""Every attribute of torch that hotstart replaces, and how each goes back to what it was."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.package as torch_package
import torch._dynamo.precompile_context as torch_precompile_context
from torch._dynamo.exc import RecompileError
from torch.compiler._cache import CacheArtifactFactory

from hotstart import package as dropin
from hotstart import report
from hotstart._torch.autograd_cache import graph_compile, only_compiled_code
from hotstart._torch.context import OptimizeContext, package_hidden
from hotstart._torch.diagnosis import ConvertFrameAssert, telling_of_misses
from hotstart._torch.guard_state import CheckFunctionManager
from hotstart._torch.recording import keeping_all_guards
from hotstart.integration.session import Session
from hotstart.integration.store_face import StoreFace
from hotstart.log import logger


class Patches:
    """Replacements that are undone in reverse order, each to the very object it replaced."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        before = owner[name] if isinstance(owner, dict) else getattr(owner, name)
        self._undo.append((owner, name, before))
        self._put(owner, name, value)

    def undo(self) -> None:
        while self._undo:
            self._put(*self._undo.pop())

    @staticmethod
    def _put(owner: Any, name: str, value: Any) -> None:
        if isinstance(owner, dict):
            owner[name] = value
        else:
            setattr(owner, name, value)


def apply(session: Session) -> Patches:
    """Makes torch use hotstart's packages."""
    patches = Patches()
    face = StoreFace(session)
    _switch_on(patches, torch._dynamo.config, "caching_precompile")
    # Where nothing is recorded, too: what is compiled without a package must keep its guards.
    build = CheckFunctionManager.__init__
    patches.set(CheckFunctionManager, "__init__", keeping_all_guards(build))
    should_save = graph_compile._should_save_cache
    patches.set(graph_compile, "_should_save_cache", only_compiled_code(should_save))
    patches.set(torch_package, "CompilePackage", dropin.CompilePackage)
    patches.set(torch_package, "DynamoCache", face)
    patches.set(torch_package, "PrecompileCacheArtifact", dropin.PrecompileCacheArtifact)
    patches.set(torch_precompile_context, "DynamoCache", face)
    patches.set(torch_precompile_context, "PrecompileCacheEntry", dropin.PrecompileCacheEntry)
    patches.set(
        CacheArtifactFactory._artifact_types,
        dropin.PrecompileCacheArtifact.type(),
        dropin.PrecompileCacheArtifact,
    )
    convert = ConvertFrameAssert.__call__
    patches.set(ConvertFrameAssert, "__call__", telling_of_misses(convert, _explain_miss))
    patches.set(OptimizeContext, "__call__", _wrap_call(session, OptimizeContext.__call__))
    patches.set(torch._dynamo, "reset", _wrap_reset(session, torch._dynamo.reset))
    return patches


def _explain_miss(package: Any, frame: Any) -> None:
    if not isinstance(package, dropin.CompilePackage) or not package.is_initialized():
        return
    try:
        package.explain_miss(frame)
    except RecompileError:
        raise  # The user has asked for it.
    except Exception as e:
        report.failure(logger, frame.f_code.co_name, "explain a miss", e)


def _switch_on(patches: Patches, config: Any, flag: str) -> None:
    """Sets a flag of a configuration module for every thread.

    Assigning to it would count in this thread only, and others would compile without packages. The
    value that an environment variable would give counts everywhere, unless this thread has one of
    its own already.
    """
    patches.set(config._config[flag], "env_value_default", True)
    if not getattr(config, flag):
        patches.set(config, flag, True)


def _wrap_call(session: Session, original: Any) -> Any:
    """Packages are looked for by the session; torch's own look-up, which can raise, sees none."""

    @functools.wraps(original)
    def __call__(self: Any, fn: Any) -> Any:  # noqa: N807
        session.watch(self, fn)
        with package_hidden(self):
            return original(self, fn)

    return __call__


def _wrap_reset(session: Session, original: Any) -> Any:
    @functools.wraps(original)
    def reset() -> None:
        session.reset()
        original()

    return reset
