"""From the data of `hotstart.guards.values` to values of this process."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from torch._dynamo.exc import PackageError

from hotstart._core import FirstSight, NoHooks, SeenDicts
from hotstart._torch import guard_values as torch_values
from hotstart.errors import UnsupportedValueError
from hotstart.guards.names import find, proof_of
from hotstart.guards.paths import describe, follow
from hotstart.identity import code_fingerprint, fingerprint

_Make = Callable[[Any, list[Any], dict[str, Any]], Any]


def resolve_values(
    plain: tuple[Any, ...], special: tuple[Any, ...], scope: dict[str, Any]
) -> tuple[Any, ...]:
    """Every value of a plan; ``scope`` is the globals of the guarded frame.

    Raises PackageError for an object that is not there or no longer what it was.
    """
    values: list[Any] = list(plain)
    for kind, data, parts in special:
        values.append(_MAKERS[kind](data, [values[part] for part in parts], scope))
    return tuple(values)


def _named(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    module, qualname, how, proof = data
    return _proven(find(module, qualname), f"{module}.{qualname}".strip("."), how, proof)


def _at(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    path, how, proof = data
    return _proven(follow(path, scope), describe(path), how, proof)


def _proven(found: Any, name: str, how: str, proof: int) -> Any:
    if found is None:
        raise PackageError(f"{name} is not there")
    try:
        if proof_of(found, how) == proof:
            return found
    except UnsupportedValueError:
        pass  # It has become something that cannot be proven.
    raise PackageError(f"{name} is no longer what it was when compiled")


def _member(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    name, value = data
    cls = parts[0]
    member = cls.__members__.get(name)
    if member is None or type(member.value) is not type(value) or member.value != value:
        raise PackageError(f"{cls.__name__}.{name} is no longer what it was when compiled")
    return member


def _function(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    code, module, cells = data
    home = {"G": scope} if module is None else vars(find(module, ""))
    closure = tuple(types.CellType(part) for part in parts[:cells])
    return types.FunctionType(code, home, code.co_name, tuple(parts[cells:]) or None, closure)


def _first_sight(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    what, said, of_type = data

    def verify(found: Any) -> bool:
        if what == "code":
            return isinstance(found, types.CodeType) and code_fingerprint(found) == said
        return bool(fingerprint(found) == said)

    return FirstSight(verify, of_type=of_type)


def _sized_dict(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    cls = parts[0]
    made = cls.__new__(cls)
    for i in range(data):
        dict.__setitem__(made, i, None)
    return made


def _dict(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    half = len(parts) // 2
    return dict(zip(parts[:half], parts[half:], strict=True))


def _record(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    cls = parts[0]
    made = cls.__new__(cls)
    for name, value in zip(data, parts[1:], strict=True):
        object.__setattr__(made, name, value)
    return made


def _numpy(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    import numpy  # Only who uses it has such guards.

    dtype, content = data
    return numpy.frombuffer(content, dtype=dtype)[0]


def _dict_by_name(data: Any, parts: list[Any], scope: dict[str, Any]) -> Any:
    module, name, proof = data
    found = find(module, name)
    if found is None or torch_values.dict_proof(found) != proof:
        raise PackageError(f"{module}.{name} holds other entries than when compiled")
    return found


_MAKERS: dict[str, _Make] = {
    "address": lambda data, parts, scope: id(parts[0]),
    "at": _at,
    "dict": _dict,
    "dict by name": _dict_by_name,
    "first sight": _first_sight,
    "frozenset": lambda data, parts, scope: frozenset(parts),
    "function": _function,
    "globals": lambda data, parts, scope: scope,
    "instances": lambda data, parts, scope: [cls.__new__(cls) for cls in parts],
    "keys": lambda data, parts, scope: dict.fromkeys(parts).keys(),
    "list": lambda data, parts, scope: parts,
    "mapping": lambda data, parts, scope: types.MappingProxyType(dict.fromkeys(parts)),
    "member": _member,
    "named": _named,
    "no hooks": lambda data, parts, scope: NoHooks(data, parts[0]),
    "numpy": _numpy,
    "range": lambda data, parts, scope: range(*data),
    "record": _record,
    "seen dicts": lambda data, parts, scope: SeenDicts(),
    "set": lambda data, parts, scope: set(parts),
    "sized dict": _sized_dict,
    "sized keys": lambda data, parts, scope: dict.fromkeys(range(data)).keys(),
    "slice": lambda data, parts, scope: slice(*parts),
    "tensor": lambda data, parts, scope: torch_values.tensor_from_data(data),
    "torch": lambda data, parts, scope: torch_values.from_data(data),
    "tuple": lambda data, parts, scope: tuple(parts),
}
