"""A package as the sections of a container, and back.

``docs/format.md`` specifies the container, this module what hotstart puts into its sections:

- STRINGS: the codec's string table for META and ENTRY;
- META: a dict of plain values for people and tools (`hotstart inspect`); nothing is loaded from it;
- ENTRY: the records, with code objects; guards and backends are referred to by number;
- GUARDS, one each: the bytes of ``guards_state``;
- BACKEND, one each: a pickled backend artifact.

Loading a package runs what it contains: the compiled code, and pickles of torch's.
"""

from __future__ import annotations

import pickle
import types
from typing import Any

from hotstart._core import Container, Decoder, Encoder, build_container
from hotstart.container import SectionKind
from hotstart.dropin.code import GlobalsOf, SerializedCode
from hotstart.dropin.records import (
    PrecompileCacheEntry,
    SystemInfo,
    _BackendId,
    _DynamoCacheEntry,
    _DynamoCodeCacheEntry,
    _GuardedCodeCacheEntry,
)
from hotstart.dropin.sources import InlinedSource, LiveCode, SourceInfo
from hotstart.errors import CorruptPackageError
from hotstart.store import artifact

_VERSION = 1


def to_bytes(entry: PrecompileCacheEntry) -> bytes:
    """The file of ``entry``. Raises UnsupportedValueError or what pickle raises."""
    encoder = Encoder(_pickle_hook)
    guards: list[bytes] = []
    backend_ids = sorted(entry.backends)
    records = encoder.encode(_from_dynamo(entry.dynamo, guards) | {"backends": backend_ids})
    meta = encoder.encode(_meta(entry))
    sections = [
        (SectionKind.STRINGS, 0, 0, encoder.string_table()),
        (SectionKind.META, 0, 0, meta),
        (SectionKind.ENTRY, 0, 0, records),
        *((SectionKind.GUARDS, i, 0, state) for i, state in enumerate(guards)),
        *(
            (SectionKind.BACKEND, i, 0, artifact.to_bytes(entry.backends[backend_id]))
            for i, backend_id in enumerate(backend_ids)
        ),
    ]
    return build_container(sections)


def from_container(container: Container) -> PrecompileCacheEntry:
    """The package in ``container``. Raises CorruptPackageError or what unpickling raises."""
    decoder = Decoder(container.get(SectionKind.STRINGS), _unpickle_hook)
    records: Any = decoder.decode(container.get(SectionKind.ENTRY))
    if not isinstance(records, dict) or records.get("version") != _VERSION:
        raise CorruptPackageError("the package's records are of an unknown version", 0)
    dynamo = _to_dynamo(records, container)
    backends = {
        _BackendId(backend_id): artifact.StoredArtifact(
            backend_id, bytes(container.get(SectionKind.BACKEND, i))
        )
        for i, backend_id in enumerate(records["backends"])
    }
    return PrecompileCacheEntry(dynamo=dynamo, backends=backends)


def _meta(entry: PrecompileCacheEntry) -> dict[str, Any]:
    dynamo, system = entry.dynamo, entry.dynamo.system_info
    return {
        "function": dynamo.fn_name,
        "python": system.python_version,
        "torch": str(system.torch_version),
        "device": dynamo.device_type,
        "gpu": system.gpu_name,
        "codes": len(dynamo.codes),
        "variants": sum(len(code.guarded_codes) for code in dynamo.codes),
        "backends": len(entry.backends),
    }


def _from_dynamo(entry: _DynamoCacheEntry, guards: list[bytes]) -> dict[str, Any]:
    """Plain data for ``entry``; its guard states are appended to ``guards``."""
    system = entry.system_info
    return {
        "version": _VERSION,
        "codes": [_from_code_entry(code, guards) for code in entry.codes],
        "inlined": [
            (s.module, s.firstlineno, s.lastlineno, s.checksum, s.content)
            for s in sorted(entry.source_info.inlined_sources, key=_source_order)
        ],
        "live": sorted(
            (c.module, c.qualname, c.code_source, c.fingerprint, c.namespace)
            for c in getattr(entry.source_info, "live_codes", ())
        ),
        "main_namespace": getattr(entry.source_info, "main_namespace", ""),
        "device_type": entry.device_type,
        "system": (
            system.python_version,
            system.torch_version,
            system.toolkit_version,
            system.triton_version,
            system.gpu_name,
        ),
        "fn_name": entry.fn_name,
        "fn_first_lineno": entry.fn_first_lineno,
    }


def _source_order(source: InlinedSource) -> tuple[str, int, int, str]:
    return source.module, source.firstlineno, source.lastlineno, source.checksum


def _from_code_entry(entry: _DynamoCodeCacheEntry, guards: list[bytes]) -> tuple[Any, ...]:
    first = len(guards)
    guards += [variant.guards_state for variant in entry.guarded_codes]
    return (
        SerializedCode.to_code_object(entry.python_code),
        entry.python_module,
        list(entry.function_names),
        [SerializedCode.to_code_object(v.dynamo_code) for v in entry.guarded_codes],
        first,
        dict(entry.import_sources),
        list(entry.backend_ids),
        entry.code_source,
        entry.install_to_global,
        entry.has_compile_id,
        entry.bypassed,
    )


def _to_dynamo(records: dict[str, Any], container: Container) -> _DynamoCacheEntry:
    source_info = SourceInfo({InlinedSource(*fields) for fields in records["inlined"]})
    source_info.live_codes = {LiveCode(*fields) for fields in records["live"]}
    source_info.main_namespace = records["main_namespace"]
    return _DynamoCacheEntry(
        codes=[_to_code_entry(fields, container) for fields in records["codes"]],
        source_info=source_info,
        device_type=records["device_type"],
        system_info=SystemInfo(*records["system"]),
        fn_name=records["fn_name"],
        fn_first_lineno=records["fn_first_lineno"],
    )


def _to_code_entry(fields: tuple[Any, ...], container: Container) -> _DynamoCodeCacheEntry:
    code, module, names, dynamo_codes, first, imports, backend_ids, *flags = fields
    variants = [
        _GuardedCodeCacheEntry(
            guards_state=bytes(container.get(SectionKind.GUARDS, first + i)),
            dynamo_code=_serialized(dynamo_code),
        )
        for i, dynamo_code in enumerate(dynamo_codes)
    ]
    return _DynamoCodeCacheEntry(
        _serialized(code), module, names, variants, imports, backend_ids, *flags
    )


def _serialized(code: types.CodeType) -> SerializedCode:
    record: SerializedCode = SerializedCode.from_code_object(code)
    return record


def _pickle_hook(value: object) -> tuple[str, object]:
    """Constants of bytecode that the codec has no kind for, such as a ``torch.dtype``."""
    if isinstance(value, GlobalsOf):
        return "globals", value.module
    return "pickle", pickle.dumps(value)


def _unpickle_hook(tag: str, payload: object) -> object:
    if tag == "globals" and isinstance(payload, str):
        return GlobalsOf(payload)
    if tag != "pickle" or not isinstance(payload, bytes):
        raise CorruptPackageError(f"unknown kind of value {tag!r}", 0)
    return pickle.loads(payload)
