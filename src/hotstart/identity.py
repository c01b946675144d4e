"""What proves that something in this process is what it was in another one.

A fingerprint leaves out what may differ without consequence: addresses, line numbers, file paths.
It keeps everything that decides how the thing behaves, as far as that can be said in plain data.
"""

from __future__ import annotations

import enum
import hashlib
import sys
import types
from typing import Any

from hotstart._core import dumps

# Closures and defaults can lead to functions with closures of their own; beyond this many steps
# only the type of a value counts.
_MAX_DEPTH = 4

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def is_plain(value: object) -> bool:
    """Whether ``value`` is made of the codec's plain kinds only, at any depth."""
    if type(value) in (tuple, list, set, frozenset):
        return all(is_plain(item) for item in value)  # type: ignore[attr-defined]
    if type(value) is dict:
        return all(is_plain(k) and is_plain(v) for k, v in value.items())
    return type(value) in _PLAIN


def resolve(module: str | None, qualname: str) -> Any:
    """What ``module`` holds under the dotted name ``qualname`` in this process, None if nothing;
    the module itself under an empty name."""
    found: Any = sys.modules.get(module or "")
    for name in qualname.split(".") if qualname else ():
        found = getattr(found, name, None)
    return found


def is_pinned(module: str | None) -> bool:
    """Whether a module's contents are settled by the versions of Python and torch."""
    top = (module or "").partition(".")[0]
    return top == "torch" or top in sys.stdlib_module_names


def namespace_fingerprint(code: types.CodeType, scope: dict[str, Any]) -> str:
    """Which of the names that ``code`` uses are there, in ``scope`` and in the modules and classes
    that it reaches from there by these names.

    Dynamo guards on what it finds. That a module had no attribute, or that no global hid a builtin,
    it takes for granted.
    """
    names = sorted(_names_used(code))
    spaces: dict[int, tuple[str, Any]] = {id(scope): ("", scope)}
    pending: list[Any] = [scope]
    while pending:
        space = pending.pop()
        for name in names:
            found = space.get(name)
            if _is_namespace(found) and id(vars(found)) not in spaces:
                spaces[id(vars(found))] = (found.__name__, vars(found))
                pending.append(vars(found))
    there = sorted(
        (owner, name) for owner, space in spaces.values() for name in names if name in space
    )
    return _digest(there)


def _names_used(code: types.CodeType) -> set[str]:
    """Names that ``code`` looks up, also as strings, and those of the functions inside it."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names_used(const)
        elif isinstance(const, str) and const.isidentifier():
            names.add(const)
    return names


def _is_namespace(value: object) -> bool:
    if isinstance(value, types.ModuleType):
        return not is_pinned(value.__name__)
    return isinstance(value, type) and not is_pinned(value.__module__)


def code_fingerprint(code: types.CodeType) -> str:
    """The SHA-256 of what ``code`` does, without file names and line numbers, in hexadecimal."""
    return _digest(_code_as_data(code))


def fingerprint(value: object) -> str:
    """The SHA-256 of ``value``'s identity: how it is named and, for functions, what it does."""
    return _digest(_as_data(value, 0))


def _digest(data: object) -> str:
    return hashlib.sha256(dumps(data)).hexdigest()


def _code_as_data(code: types.CodeType) -> tuple[object, ...]:
    return (
        code.co_name,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_code,
        tuple(_const_as_data(const) for const in code.co_consts),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        getattr(code, "co_exceptiontable", b""),
    )


def _const_as_data(const: object) -> object:
    return _code_as_data(const) if isinstance(const, types.CodeType) else const


def _as_data(value: object, depth: int) -> object:
    if isinstance(value, enum.Enum):
        return ("enum", *_name_of(type(value)), value.name, _as_data(value.value, depth + 1))
    if type(value) in _PLAIN:
        return ("plain", type(value).__name__, value)
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    if isinstance(value, type):
        return ("class", *(_class_as_data(base, depth + 1) for base in value.__mro__))
    if isinstance(value, types.CodeType):
        return ("code", _code_as_data(value))
    if depth < _MAX_DEPTH:
        if isinstance(value, types.FunctionType):
            return ("function", *_name_of(value), *_behaviour_of(value, depth + 1))
        if isinstance(value, types.MethodType):
            owner = _name_of(type(value.__self__))
            return ("method", *owner, _as_data(value.__func__, depth + 1))
        if type(value) in (tuple, list, frozenset, set):
            items = [_as_data(item, depth + 1) for item in value]  # type: ignore[attr-defined]
            ordered = items if isinstance(value, (tuple, list)) else sorted(items, key=repr)
            return (type(value).__name__, tuple(ordered))
    if isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType)):
        return ("builtin", *_name_of(value))
    return ("instance", *_name_of(type(value)), _plain_part(value), _plain_state(value))


def lineage(cls: type) -> tuple[tuple[str, str], ...]:
    """The names of a class and its bases, in the order in which attributes are looked up."""
    return tuple(_name_of(base) for base in cls.__mro__)


def _class_as_data(cls: type, depth: int) -> object:
    """A class by its name and, if it is a user's, what its body holds: a compile that makes an
    instance or reads an attribute has looked no closer than at the class."""
    if depth > _MAX_DEPTH or is_pinned(cls.__module__):
        return _name_of(cls)
    body = {name: _in_class_body(value, depth) for name, value in vars(cls).items()}
    return (*_name_of(cls), body if depth == 1 else tuple(sorted(body)))


def _in_class_body(value: Any, depth: int) -> object:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        return tuple(_in_class_body(part, depth) for part in (value.fget, value.fset))
    if type(value) in _PLAIN or isinstance(value, types.FunctionType):
        return _as_data(value, depth + 1)
    return ("instance", *_name_of(type(value)))


def _plain_part(value: Any) -> object:
    """What an instance of a class derived from a plain one is as the latter."""
    plain: Any
    for plain in (int, float, complex, str, bytes):
        if isinstance(value, plain):
            return plain.__new__(plain, value)
    raw = getattr(value, "raw_repr", None)  # a set of torch's dispatch keys
    return raw() if callable(raw) else None


def _plain_state(value: Any) -> object:
    """The plain attributes of an instance of a user's class: Dynamo may have read them as part of
    what it takes for one unchanging object."""
    state = getattr(value, "__dict__", None)
    if type(state) is not dict or is_pinned(type(value).__module__):
        return None
    return tuple((name, state[name]) for name in sorted(state) if is_plain(state[name]))


def _behaviour_of(fn: types.FunctionType, depth: int) -> tuple[object, ...]:
    def each(values: Any) -> tuple[object, ...]:
        return tuple(_as_data(value, depth) for value in values)

    keyword_defaults = sorted((fn.__kwdefaults__ or {}).items())
    return (
        _code_as_data(fn.__code__),
        each(fn.__defaults__ or ()),
        tuple((name, _as_data(value, depth)) for name, value in keyword_defaults),
        each(cell_value(cell) for cell in fn.__closure__ or ()),
    )


def cell_value(cell: types.CellType) -> Any:
    """What a closure's cell holds, None where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _name_of(value: Any) -> tuple[str, str]:
    return (
        str(getattr(value, "__module__", None)),
        str(getattr(value, "__qualname__", getattr(value, "__name__", ""))),
    )


def says_all(value: object) -> bool:
    """Whether the fingerprint of ``value`` covers all that decides how it behaves, and does not
    pass over the state of some object that it leads to."""
    return not _passes_over(_as_data(value, 0))


def reach_fingerprint(fn: types.FunctionType) -> str | None:
    """The fingerprint of a function and of all that it finds in globals, as if these were its
    arguments; None if something there has a state that no fingerprint covers."""
    data = _reach_as_data(fn, set())
    return None if _passes_over(data) else _digest(data)


def _reach_as_data(fn: types.FunctionType, seen: set[int]) -> object:
    if id(fn) in seen or is_pinned(fn.__module__):
        return _name_of(fn)
    seen.add(id(fn))
    found: list[object] = [_as_data(fn, 0)]
    scope = fn.__globals__
    names = {name: scope[name] for name in _names_used(fn.__code__) & scope.keys()}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        names[name] = cell_value(cell)
    for name, value in sorted(names.items()):
        is_function = isinstance(value, types.FunctionType)
        found.append((name, _reach_as_data(value, seen) if is_function else _as_data(value, 0)))
    return tuple(found)


def _passes_over(data: object) -> bool:
    if isinstance(data, dict):
        return any(map(_passes_over, data.values()))
    if not isinstance(data, tuple):
        return False
    return (len(data) >= 3 and data[0] == "instance") or any(map(_passes_over, data))
