"""Stores that keep each package as one file, `<folder>/<key>/entry`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

from torch._inductor.runtime.cache_dir_utils import cache_dir as torch_cache_dir
from torch.compiler._cache import CacheArtifact, CacheArtifactRecorder

from hotstart import keys
from hotstart._core import Container, publish
from hotstart._torch import telemetry
from hotstart.dropin.compile_package import CompilePackage
from hotstart.dropin.records import PrecompileCacheEntry
from hotstart.log import logger
from hotstart.store import layout, legacy, location
from hotstart.store.base import DynamoStore


class DiskDynamoStore(DynamoStore):
    """Keeps packages below the folder ``path_prefix``; keys are paths themselves if it is empty."""

    def __init__(self, path_prefix: str = "") -> None:
        self._path_prefix = path_prefix

    def path_prefix(self) -> str:
        return self._path_prefix

    def file_of(self, key: str) -> str:
        return os.path.join(self.path_prefix(), key, "entry")

    def contains(self, path: str) -> bool:
        return os.path.exists(self.file_of(path))

    def clear(self) -> None:
        if self.path_prefix():
            shutil.rmtree(self.path_prefix(), ignore_errors=True)

    def write(self, cache_entry: PrecompileCacheEntry, path: str) -> None:
        try:
            content = layout.to_bytes(cache_entry)
            CacheArtifactRecorder(PrecompileCacheArtifact.type(), path).record(content)
        except Exception as e:
            raise RuntimeError(f"Failed to save package to {path}: {e}") from e
        self._write_to_local_cache(content, path)

    def _write_to_local_cache(self, pickled_content: bytes, path: str) -> None:
        """Publishes a package's bytes; the name of the argument is torch's."""
        file = self.file_of(path)
        try:
            # makedirs gives its mode to the last folder only.
            os.makedirs(self.path_prefix() or ".", mode=0o700, exist_ok=True)
            os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
            publish(file, pickled_content)
        except Exception as e:
            raise RuntimeError(f"Failed to save package to {os.path.dirname(file)}: {e}") from e

    def read(self, path: str) -> PrecompileCacheEntry:
        file = self.file_of(path)
        try:
            if legacy.is_torch_file(file):
                return legacy.read(file)
            return layout.from_container(Container.open(file))
        except Exception as e:
            raise RuntimeError(
                f"Failed to load package from path {os.path.dirname(file)}: {e}"
            ) from e


class DiskDynamoCache(DiskDynamoStore):
    """A store that knows by itself where the package of a function is."""

    def path_prefix(self) -> str:
        return self._path_prefix or location.store_folder()

    def save(self, package: CompilePackage) -> None:
        """Saves ``package`` where `load` finds it for the same function."""
        key = package.filing_id = package.filing_id or keys.filing_id(package._innermost_fn)
        logger.info("saving the package %s", key)
        self.save_package(package, key)

    def load(self, fn: Callable[..., Any]) -> PrecompileCacheEntry | None:
        """The package of ``fn``, None where there is none or it cannot be read (a warning)."""
        key = self.find(fn)
        if key is None:
            telemetry.count("dynamo_cache_miss")
            return None
        try:
            entry = self.load_cache_entry(key)
        except Exception as e:
            telemetry.count("dynamo_cache_error")
            logger.warning("cannot load the package %s: %s", self.file_of(key), e)
            return None
        telemetry.count("dynamo_cache_hit")
        return entry

    def find(self, fn: Callable[..., Any]) -> str | None:
        """The key of the package of ``fn`` that serves here: the one saved by hand, else the one
        made by the only way in which ``fn`` was compiled for this environment."""
        by_hand = keys.filing_id(fn)
        if self.contains(by_hand):
            return by_hand
        prefix = by_hand.rpartition("-")[0] + "-"
        found = [name for name in self._keys() if name.startswith(prefix)]
        return found[0] if len(found) == 1 else None

    def _keys(self) -> list[str]:
        try:
            return os.listdir(self.path_prefix())
        except OSError:
            return []

    def load_and_install_package(self, fn: Callable[..., Any]) -> CompilePackage | None:
        """The package of ``fn``, installed; None where `load` gives none."""
        entry = self.load(fn)
        if entry is None:
            return None
        package = CompilePackage(fn, entry.dynamo)
        package.install(entry.backends)
        return package


def cache_dir() -> str:
    """torch's own cache folder, where torch keeps its packages; ours are in `store_folder()`."""
    return str(torch_cache_dir())


DynamoCache = DiskDynamoCache()


class PrecompileCacheArtifact(CacheArtifact):
    """A package among the artifacts of ``torch.compiler.save_cache_artifacts()``."""

    def populate_cache(self) -> None:
        DynamoCache._write_to_local_cache(self.content, self.key)

    @staticmethod
    def type() -> str:
        return "precompile"
