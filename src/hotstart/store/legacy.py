"""Packages that torch's own cache wrote: read once, then filed as ours.

torch's file names neither the function's code nor the compile options, and torch drops guards on
functions and modules before it saves. So such a package is taken only for the very code it was made
from and while no module that it was compiled from has changed in any line.
"""

from __future__ import annotations

import importlib
import inspect
import pickle
import types
from typing import Any

from hotstart._torch import eval_frame
from hotstart.dropin.code import SerializedCode
from hotstart.dropin.records import (
    PrecompileCacheEntry,
    SystemInfo,
    _DynamoCacheEntry,
    _DynamoCodeCacheEntry,
    _GuardedCodeCacheEntry,
)
from hotstart.dropin.sources import InlinedSource, SourceInfo

# torch's file is a pickle of protocol 2 or higher: PROTO, then the protocol's number.
_PICKLE = b"\x80"


def is_torch_file(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(1) == _PICKLE


def read(path: str) -> PrecompileCacheEntry:
    """The package in torch's file ``path``. This runs what the pickle says, as torch's load does.

    Raises what unpickling raises.
    """
    with open(path, "rb") as file:
        return from_torch(pickle.load(file))


def from_torch(entry: Any) -> PrecompileCacheEntry:
    """A package of torch's classes (or ours, which have the same fields) as one of ours."""
    dynamo = entry.dynamo
    return PrecompileCacheEntry(
        dynamo=_DynamoCacheEntry(
            codes=[_code_entry(code) for code in dynamo.codes],
            source_info=SourceInfo(
                {
                    InlinedSource(s.module, s.firstlineno, s.lastlineno, s.checksum, s.content)
                    for s in dynamo.source_info.inlined_sources
                }
            ),
            device_type=dynamo.device_type,
            system_info=SystemInfo(**vars(dynamo.system_info)),
            fn_name=dynamo.fn_name,
            fn_first_lineno=dynamo.fn_first_lineno,
        ),
        backends=dict(entry.backends),
    )


def fits(entry: PrecompileCacheEntry, fn: Any) -> bool:
    """Whether a package from torch's file is sure to be of ``fn`` as it is now."""
    main = SerializedCode.to_code_object(entry.dynamo.codes[0].python_code)
    return main == eval_frame.innermost_fn(fn).__code__ and all(
        source.content == inspect.getsource(importlib.import_module(source.module))
        for source in entry.dynamo.source_info.inlined_sources
    )


def _code_entry(entry: Any) -> _DynamoCodeCacheEntry:
    fields = dict(vars(entry))
    fields["python_code"] = _serialized(entry.python_code)
    fields["guarded_codes"] = [
        _GuardedCodeCacheEntry(variant.guards_state, _serialized(variant.dynamo_code))
        for variant in entry.guarded_codes
    ]
    return _DynamoCodeCacheEntry(**fields)


def _serialized(code: Any) -> SerializedCode:
    """torch's record of a code object as ours."""
    fields = dict(vars(code))
    fields["co_consts"] = tuple(
        const if isinstance(const, _PLAIN) or not hasattr(const, "co_code") else _serialized(const)
        for const in code.co_consts
    )
    return SerializedCode(**fields)


_PLAIN = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset, types.CodeType)
