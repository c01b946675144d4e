"""Names under which another process finds the same object, and what proves that it is the same.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

from hotstart._core import dumps, xxh64
from hotstart._torch.guard_values import HOMES
from hotstart._torch.operators import is_operator, operator_proof
from hotstart.identity import fingerprint, is_pinned, lineage, resolve

# How an object found by its name is proven to be the one that was guarded.
NAME = "name"  # by its name alone
IDENTITY = "identity"  # by what `identity.fingerprint` covers
LINEAGE = "lineage"  # a class by its own name and those of its bases
OPERATOR = "operator"  # by what a compile bakes in of it

# Classes that Python gives a name under which it does not keep them. By the names of the modules in
# sys.modules: `_collections_abc` calls itself otherwise.
_TYPES = {
    id(value): (home, name)
    for home in ("types", "_collections_abc")
    for name, value in sorted(vars(sys.modules[home]).items(), reverse=True)
    if isinstance(value, type)
}


def name_of(value: Any) -> tuple[str, str] | None:
    """The module and the dotted name that lead to this very object, None if none do."""
    for module, qualname in _candidates(value):
        if resolve(module, qualname) is value:
            return module, qualname
    return None


def _candidates(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, types.ModuleType):
        yield value.__name__, ""
        return
    if isinstance(value, types.CodeType):
        yield from _candidates_for_code(value)
        return
    if id(value) in _TYPES:
        yield _TYPES[id(value)]
    module = getattr(value, "__module__", None)
    names = [getattr(value, name, None) for name in ("__qualname__", "__name__")]
    dotted = [name for name in names if isinstance(name, str)]
    if isinstance(module, str):
        for name in dotted:
            yield module, name
    owner = getattr(value, "__objclass__", None)
    if isinstance(owner, type) and dotted:
        yield owner.__module__, f"{owner.__qualname__}.{dotted[-1]}"
    for name in dotted[-1:]:
        for home in HOMES:
            yield home, name
    if isinstance(module, str) and module.startswith("torch._ops"):
        yield "torch", f"ops.{value}"


def _candidates_for_code(code: types.CodeType) -> Iterator[tuple[str, str]]:
    module = inspect.getmodule(code)
    if module is not None:
        owner = getattr(code, "co_qualname", code.co_name)
        for way in ("", ".__func__", ".fget", ".fset", ".__wrapped__"):
            yield module.__name__, f"{owner}{way}.__code__"


def proof_of(value: Any, how: str) -> int:
    """A checksum of what ``how`` says of ``value``.

    Raises UnsupportedValueError where that does not say enough.
    """
    if how == OPERATOR:
        return operator_proof(value)
    if how == IDENTITY:
        return xxh64(fingerprint(value).encode())
    return xxh64(dumps(lineage(value))) if how == LINEAGE else 0


def proof_for(value: Any, how: str) -> str:
    """The kind of proof for ``value`` where ``how`` is asked for."""
    if isinstance(value, types.ModuleType):
        return NAME
    return OPERATOR if is_operator(value) else how


def find(module: str, qualname: str) -> Any:
    """What `name_of` named, None where it is not there. Imports what torch or Python bring."""
    if module not in sys.modules and is_pinned(module):
        importlib.import_module(module)
    return resolve(module, qualname)
