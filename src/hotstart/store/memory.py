"""A store that lives as long as the process."""

from __future__ import annotations

from hotstart.dropin.records import PrecompileCacheEntry
from hotstart.store.base import DynamoStore


class InMemoryDynamoStore(DynamoStore):
    """Keeps packages as they are, in ``packages``."""

    def __init__(self) -> None:
        self.packages: dict[str, PrecompileCacheEntry] = {}

    def clear(self) -> None:
        self.packages.clear()

    def write(self, cache_entry: PrecompileCacheEntry, path: str) -> None:
        self.packages[path] = cache_entry

    def read(self, path: str) -> PrecompileCacheEntry:
        if path not in self.packages:
            raise RuntimeError(f"No package found with key {path}")
        return self.packages[path]

    def contains(self, path: str) -> bool:
        return path in self.packages
