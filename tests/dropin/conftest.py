"""One source of tests, two implementations: torch's own package module and hotstart's.

``impl`` is the module under test with the few things that differ around it (how saving is switched
on and how it is flushed). ``program`` gives each test a throwaway module with globals of its own,
and ``restart`` makes this process look like a new one: the file is executed again, so that code
objects and globals are fresh and only what was stored outside the process is left.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _seed import kernel_seed

try:
    import torch._dynamo.package
    from torch._dynamo.precompile_context import PrecompileContext
    from torch._dynamo.utils import counters
    from torch.compiler._cache import CacheArtifactManager
except ModuleNotFoundError:  # the codec's tests run on Pythons that have no torch
    collect_ignore_glob = ["test_*.py"]

_NUMBERS = itertools.count()


class Impl:
    """A package module and the switches that belong to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.package: Any = importlib.import_module(
            {"torch": "torch._dynamo.package", "hotstart": "hotstart.package"}[name]
        )

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.package, attribute)

    @contextlib.contextmanager
    def automatic(self) -> Iterator[None]:
        """``torch.compile`` saves and loads packages by itself in here."""
        if self.name == "torch":
            with torch._dynamo.config.patch(caching_precompile=True):
                yield
        else:
            import hotstart

            with hotstart.enable():
                yield

    def save(self) -> None:
        """Write everything that was compiled under ``automatic``."""
        if self.name == "torch":
            PrecompileContext.save_to_dynamo_cache()
        else:
            import hotstart

            hotstart.save()

    def compile(self, package: Any, fn: Any, backend: Any = "eager", **options: Any) -> Any:
        """``fn`` compiled by hand into ``package``.

        Torch cannot serialise guards on the identity of functions; it is left to the caller to
        drop them.
        """
        options.setdefault("guard_filter_fn", _without_identity)
        return torch._dynamo.optimize(backend, package=package, **options)(fn)

    def record_eager(self, package: Any, store: Any | None = None) -> None:
        """Eager backends do not record themselves for saving; compiled ones do."""
        store = store or self.InMemoryDynamoStore()
        for backend_id, backend in package.cached_backends.items():
            store.record_eager_backend(backend_id, backend)


def _without_identity(guards: Any) -> list[bool]:
    dropped = {"ID_MATCH", "CLOSURE_MATCH", "FUNCTION_MATCH"}
    return [not dropped & {g.guard_type, *g.derived_guard_types} for g in guards]


@pytest.fixture(params=["torch", "hotstart"])
def impl(request: pytest.FixtureRequest) -> Impl:
    if request.param == "hotstart":
        importlib.import_module("hotstart.package")
    return Impl(request.param)


@pytest.fixture
def torch_fails(request: pytest.FixtureRequest, impl: Impl) -> Callable[[str], None]:
    """Call it to say that torch's own module is known to fail this test, and how."""

    def expect(reason: str) -> None:
        if impl.name == "torch":
            # What a later torch has mended is no failure of ours.
            strict = torch.__version__.startswith("2.13")
            request.applymarker(pytest.mark.xfail(reason=reason, strict=strict))

    return expect


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> Path:
    return kernel_seed(pytestconfig)


def forget() -> None:
    """Drop every trace of compilation that this process holds in memory."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    PrecompileContext.clear()
    CacheArtifactManager.clear()


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches of its own and an empty process for each test."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("HOTSTART_DIR", str(tmp_path / "hotstart"))
    forget()
    yield
    forget()


@pytest.fixture
def kernels(tmp_path: Path, seed: Path, clean: None) -> None:
    """The tiny kernels of these tests, already compiled: g++ is not what they are about."""
    shutil.copytree(seed, tmp_path / "inductor", dirs_exist_ok=True)


class Program:
    """A module written to disk, imported under a name that no other test uses."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._path: Path | None = None

    def __call__(self, source: str, name: str | None = None) -> ModuleType:
        """Write ``source`` as a new module and import it."""
        name = name or f"dropin_program_{next(_NUMBERS)}"
        self._path = self._folder / f"{name}.py"
        self._monkeypatch.syspath_prepend(str(self._folder))
        self.write(source)
        return self._import(name)

    def write(self, source: str) -> None:
        """Change the file without touching the module that was imported from it."""
        assert self._path is not None
        self._path.write_text("import torch\n\n" + textwrap.dedent(source))
        # The same second and size must not hide a change from linecache or from a .pyc.
        stamp = 1_700_000_000 + next(_NUMBERS)
        os.utime(self._path, (stamp, stamp))

    def restart(self) -> ModuleType:
        """What a new process would see of the last module."""
        assert self._path is not None
        forget()
        return self._import(self._path.stem)

    def _import(self, name: str) -> ModuleType:
        import linecache

        linecache.checkcache()
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        self._monkeypatch.setattr(sys, "dont_write_bytecode", True)
        module = importlib.import_module(name)
        self._monkeypatch.setitem(sys.modules, name, module)
        return module


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    folder = tmp_path / "programs"
    folder.mkdir()
    return Program(folder, monkeypatch)


@pytest.fixture
def compiles() -> Callable[[], int]:
    """How many frames Dynamo has compiled (or tried to) since the test, or ``restart``, began."""
    return lambda: counters["frames"]["total"]


@pytest.fixture
def backend_log() -> Iterator[list[str]]:
    """The messages of torch's and hotstart's loggers, whatever their propagation."""
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Keep(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("torch", "torch._dynamo", "hotstart")]
    for logger in loggers:
        logger.addHandler(handler)
    yield messages
    for logger in loggers:
        logger.removeHandler(handler)
