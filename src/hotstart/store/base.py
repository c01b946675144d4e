"""`DynamoStore`: what every store of packages does, wherever it keeps them."""

from __future__ import annotations

import abc
from typing import Any

from torch._dynamo.precompile_context import (
    BackendCacheArtifact,
    EagerCacheArtifact,
    PrecompileContext,
)

from hotstart.dropin.compile_package import CompilePackage
from hotstart.dropin.records import (
    PrecompileCacheEntry,
    _BackendId,
    _Backends,
    _DynamoCacheEntry,
)


class DynamoStore(abc.ABC):
    """Saves packages with the backends that ``PrecompileContext`` holds, and loads them."""

    def record_package(self, package: CompilePackage) -> None:
        """Notes the package's present state in ``PrecompileContext``, to be saved later."""
        key = package.filing_id or package.source_id
        PrecompileContext.record_dynamo_cache_entry(cache_entry=package.cache_entry(), key=key)

    def record_eager_backend(self, backend_id: _BackendId, backend: Any) -> None:
        """Notes a backend that is itself the thing to save, such as an FX graph run eagerly."""
        PrecompileContext.record_artifact(EagerCacheArtifact(key=backend_id, content=backend))

    @abc.abstractmethod
    def clear(self) -> None:
        """Forgets every package."""

    @abc.abstractmethod
    def write(self, cache_entry: PrecompileCacheEntry, path: str) -> None:
        """Keeps ``cache_entry`` under ``path``. Raises RuntimeError where that fails."""

    @abc.abstractmethod
    def read(self, path: str) -> PrecompileCacheEntry:
        """The package under ``path``. Raises RuntimeError where there is none to be had."""

    def contains(self, path: str) -> bool:
        """Whether there is something to read under ``path``."""
        try:
            self.read(path)
        except RuntimeError:
            return False
        return True

    def save_cache_entry(self, cache_entry: _DynamoCacheEntry, key: str) -> None:
        """Saves an entry with its backends; RuntimeError names one that was never recorded."""
        backends: _Backends = {}
        for backend_id in cache_entry.backend_ids:
            artifact = PrecompileContext.serialize_artifact_by_key(backend_id)
            if artifact is None:
                raise RuntimeError(f"Backend {backend_id} is not found in the given backends")
            backends[backend_id] = _checked(artifact)
        self.write(PrecompileCacheEntry(cache_entry, backends), key)

    def save_package(self, package: CompilePackage, key: str) -> None:
        """Saves ``package`` under ``key``; see `save_cache_entry`."""
        self.record_package(package)
        self.save_cache_entry(package.cache_entry(), key)

    def load_cache_entry(self, key: str) -> PrecompileCacheEntry:
        """The package under ``key``; its backends are noted so that it can be saved again."""
        entry = self.read(key)
        for artifact in entry.backends.values():
            PrecompileContext.record_artifact(_checked(artifact))
        return entry

    def load_package(self, fn: Any, key: str) -> tuple[CompilePackage, _Backends]:
        """The package under ``key`` for ``fn``, to be given to ``install`` with its backends."""
        entry = self.load_cache_entry(key)
        return CompilePackage(fn, entry.dynamo), entry.backends


def _checked(artifact: Any) -> BackendCacheArtifact[Any]:
    if not isinstance(artifact, BackendCacheArtifact):
        raise AssertionError(f"Expected BackendCacheArtifact, got {type(artifact)}")
    return artifact
