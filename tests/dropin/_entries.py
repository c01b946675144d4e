"""Package records made by hand."""

from __future__ import annotations

from typing import Any


def plain(a: int, b: int = 2, /, *rest: int, key: int = 3, **more: int) -> int:
    """A docstring, locals and every kind of parameter."""
    total = a + b + sum(rest) + key
    return total + len(more)


def code_entry(impl: Any, function: Any = plain, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "python_code": impl.SerializedCode.from_code_object(function.__code__),
        "python_module": function.__module__,
        "function_names": [function.__qualname__],
        "guarded_codes": [],
        "import_sources": {},
        "backend_ids": [],
        "code_source": "__code__",
        "install_to_global": False,
    }
    return impl._DynamoCodeCacheEntry(**values | changes)


def cache_entry(impl: Any, *codes: Any, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "codes": list(codes),
        "source_info": impl.SourceInfo(inlined_sources=set()),
        "device_type": "cpu",
        "fn_name": "plain",
        "fn_first_lineno": 17,
    }
    return impl._DynamoCacheEntry(**values | changes)
