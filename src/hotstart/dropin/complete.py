"""Which variants of a package can be saved: those whose every backend left an artifact."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from hotstart.dropin.code import SerializedCode, backends_used
from hotstart.dropin.records import (
    PrecompileCacheEntry,
    _BackendId,
    _Backends,
    _DynamoCacheEntry,
    _DynamoCodeCacheEntry,
    _GuardedCodeCacheEntry,
)


def complete(
    entry: _DynamoCacheEntry, backends: _Backends, given_up: Callable[[str, str], None]
) -> PrecompileCacheEntry:
    """``entry`` without the variants that use a backend not in ``backends``, and with those that
    are used. ``given_up(function, reason)`` is told of each variant left out."""
    codes = [_complete_code(code, backends, given_up) for code in entry.codes]
    used = {backend_id for code in codes for backend_id in code.backend_ids}
    return PrecompileCacheEntry(
        dynamo=dataclasses.replace(entry, codes=codes),
        backends={backend_id: backends[backend_id] for backend_id in sorted(used)},
    )


def _complete_code(
    code: _DynamoCodeCacheEntry, backends: _Backends, given_up: Callable[[str, str], None]
) -> _DynamoCodeCacheEntry:
    kept: list[_GuardedCodeCacheEntry] = []
    used: set[str] = set()
    for variant in code.guarded_codes:
        needed = backends_used(SerializedCode.to_code_object(variant.dynamo_code))
        missing = sorted(needed - backends.keys())
        if missing:
            reason = f"the backend of {missing[0]} gave nothing that can be saved"
            given_up(code.python_code.co_name, reason)
        else:
            kept.append(variant)
            used |= needed
    return dataclasses.replace(
        code,
        guarded_codes=kept,
        backend_ids=[_BackendId(b) for b in dict.fromkeys(code.backend_ids) if b in used],
        # Without a variant the entry would read like a frame with nothing to compile.
        bypassed=code.bypassed or (bool(code.guarded_codes) and not kept),
    )
