"""The drop-in for ``torch._dynamo.package``: the same names, the same behaviour.

Everything is defined elsewhere, one job to a module; this is the place to import it from.
"""

from __future__ import annotations

import logging
from typing import Any

from hotstart._torch.graph import leading as _collapse_device_types
from hotstart._torch.guard_state import PICKLING
from hotstart.dropin.code import (
    _CODE_CACHE,
    SerializedCode,
    _backend_ids_from_code,
    _code_cache,
    _get_code_source,
    _lookup_code,
    _raise_resolution_error,
)
from hotstart.dropin.compile_package import CompilePackage, _compile_frame_context
from hotstart.dropin.records import (
    PrecompileCacheEntry,
    SystemInfo,
    _BackendId,
    _Backends,
    _DynamoCacheEntry,
    _DynamoCodeCacheEntry,
    _FunctionId,
    _GuardedCodeCacheEntry,
)
from hotstart.dropin.sources import (
    InlinedSource,
    SourceInfo,
    _get_module_content,
    _get_sourcelines,
    _hash_source,
    _hash_sourcelines,
)
from hotstart.guards.load import load_guard_manager, load_guards_state
from hotstart.store.base import DynamoStore
from hotstart.store.disk import (
    DiskDynamoCache,
    DiskDynamoStore,
    DynamoCache,
    PrecompileCacheArtifact,
    cache_dir,
)
from hotstart.store.memory import InMemoryDynamoStore

logger = logging.getLogger("hotstart")

__all__ = [
    "_CODE_CACHE",
    "CompilePackage",
    "DiskDynamoCache",
    "DiskDynamoStore",
    "DynamoCache",
    "DynamoStore",
    "InMemoryDynamoStore",
    "InlinedSource",
    "PrecompileCacheArtifact",
    "PrecompileCacheEntry",
    "SerializedCode",
    "SourceInfo",
    "SystemInfo",
    "_BackendId",
    "_Backends",
    "_DynamoCacheEntry",
    "_DynamoCodeCacheEntry",
    "_FunctionId",
    "_GuardedCodeCacheEntry",
    "_backend_ids_from_code",
    "_code_cache",
    "_collapse_device_types",
    "_compile_frame_context",
    "_get_code_source",
    "_get_module_content",
    "_get_sourcelines",
    "_hash_source",
    "_hash_sourcelines",
    "_lookup_code",
    "_raise_resolution_error",
    "cache_dir",
    "load_guard_manager",
    "load_guards_state",
    "logger",
]


def __getattr__(name: str) -> Any:
    # hotstart leaves the pickling of guard states, where it needs any, to torch.
    if name in PICKLING:
        return PICKLING[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
