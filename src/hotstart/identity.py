"""What proves that something in this process is what it was in another one.

A fingerprint leaves out what may differ without consequence: addresses, line numbers, file paths.
It keeps everything that decides how the thing behaves, as far as that can be said in plain data.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeAlias

from hotstart._core import code_digest, dumps, sha256_hex

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
    return code_digest(code).hex()


def fingerprint(value: object) -> str:
    """The SHA-256 of ``value``'s identity: how it is named and, for functions, what it does."""
    return _digest(_Telling().tell(value, 0))


def _digest(data: object) -> str:
    return sha256_hex(dumps(data))


class _Telling:
    """One value, and what it leads to, in plain data.

    Each method takes the value and how many steps it is away from the one that was asked for.
    """

    def __init__(self) -> None:
        self._names: dict[int, object] = {}  # of what is in a class's body, by the class's id

    def tell(self, value: object, depth: int) -> object:
        # By id: a metaclass may have left the class without a hash, or equal to another one.
        told_by = _TOLD_BY.get(id(type(value))) or _told_by(value)
        return told_by(self, value, depth)

    def _each(self, values: Iterable[object], depth: int) -> tuple[object, ...]:
        return tuple([self.tell(value, depth) for value in values])

    def enum(self, value: Any, depth: int) -> object:
        return ("enum", *_name_of(type(value)), value.name, self.tell(value.value, depth + 1))

    def plain(self, value: Any, _: int) -> object:
        return ("plain", value)

    def module(self, value: Any, _: int) -> object:
        return ("module", value.__name__)

    def cls(self, value: Any, depth: int) -> object:
        return ("class", *[self._one_class(base, depth + 1) for base in value.__mro__])

    def code(self, value: Any, _: int) -> object:
        return ("code", code_digest(value))

    def function(self, value: Any, depth: int) -> object:
        if depth >= _MAX_DEPTH:
            return self.instance(value, depth)
        defaults, keywords, cells = value.__defaults__, value.__kwdefaults__, value.__closure__
        return (
            "function",
            str(value.__module__),
            value.__qualname__,
            code_digest(value.__code__),
            self._each(defaults, depth + 1) if defaults else (),
            self._each(chain(*sorted(keywords.items())), depth + 1) if keywords else (),
            self._each(map(cell_value, cells), depth + 1) if cells else (),
        )

    def method(self, value: Any, depth: int) -> object:
        if depth >= _MAX_DEPTH:
            return self.instance(value, depth)
        return ("method", *_name_of(type(value.__self__)), self.tell(value.__func__, depth + 1))

    def sequence(self, value: Any, depth: int) -> object:
        if depth >= _MAX_DEPTH:
            return self.instance(value, depth)
        return (type(value).__name__, self._each(value, depth + 1))

    def unordered(self, value: Any, depth: int) -> object:
        if depth >= _MAX_DEPTH:
            return self.instance(value, depth)
        return (type(value).__name__, tuple(sorted(self._each(value, depth + 1), key=repr)))

    def builtin(self, value: Any, _: int) -> object:
        return ("builtin", *_name_of(value))

    def instance(self, value: Any, depth: int) -> object:
        cls = type(value)
        told = ("instance", *_name_of(cls), _plain_part(value), _plain_state(value))
        # A class that a function made has its name in common with others that the function made.
        return (*told, self.cls(cls, depth)) if "<locals>" in cls.__qualname__ else told

    def _one_class(self, cls: type, depth: int) -> object:
        """A class by its name and, if it is a user's, what its body holds: a compile that makes an
        instance or reads an attribute has looked no closer than at the class."""
        if depth > _MAX_DEPTH or is_pinned(cls.__module__):
            return _name_of(cls)
        if depth > 1:
            return self._class_by_names(cls)
        body = {name: self._in_body(value, depth + 1) for name, value in vars(cls).items()}
        return (*_name_of(cls), body)

    def _class_by_names(self, cls: type) -> object:
        """Kept: every method that says ``super()`` leads to its class."""
        if id(cls) not in self._names:
            self._names[id(cls)] = (*_name_of(cls), tuple(sorted(vars(cls))))
        return self._names[id(cls)]

    def _in_body(self, value: Any, depth: int) -> object:
        if type(value) is types.FunctionType:  # as most are
            return self.function(value, depth)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            return (self._in_body(value.fget, depth), self._in_body(value.fset, depth))
        if type(value) in _PLAIN or isinstance(value, types.FunctionType):
            return self.tell(value, depth)
        return ("instance", *_name_of(type(value)))


_ToldBy: TypeAlias = Callable[[_Telling, Any, int], object]

_TOLD_BY: dict[int, _ToldBy] = {
    **{id(kind): _Telling.plain for kind in _PLAIN},
    id(types.ModuleType): _Telling.module,
    id(type): _Telling.cls,
    id(types.CodeType): _Telling.code,
    id(types.FunctionType): _Telling.function,
    id(types.MethodType): _Telling.method,
    id(tuple): _Telling.sequence,
    id(list): _Telling.sequence,
    id(set): _Telling.unordered,
    id(frozenset): _Telling.unordered,
    id(types.BuiltinFunctionType): _Telling.builtin,
    id(types.MethodDescriptorType): _Telling.builtin,
}

# Recognised also in what derives from them, or stands in for them and says that it is one.
_BROAD = (
    types.ModuleType,
    type,
    types.CodeType,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
)


def _told_by(value: object) -> _ToldBy:
    """What tells of a value whose class is none of the usual ones."""
    if isinstance(value, enum.Enum):
        return _Telling.enum
    return next(
        (_TOLD_BY[id(kind)] for kind in _BROAD if isinstance(value, kind)), _Telling.instance
    )


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


def lineage(cls: type) -> tuple[tuple[str, str], ...]:
    """The names of a class and its bases, in the order in which attributes are looked up."""
    return tuple(_name_of(base) for base in cls.__mro__)


def cell_value(cell: types.CellType) -> Any:
    """What a closure's cell holds, None where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _name_of(value: Any) -> tuple[str, str]:
    name = getattr(value, "__qualname__", None)
    return (
        str(getattr(value, "__module__", None)),
        str(getattr(value, "__name__", "") if name is None else name),
    )


def says_all(value: object) -> bool:
    """Whether the fingerprint of ``value`` covers all that decides how it behaves, and does not
    pass over the state of some object that it leads to."""
    return not _passes_over(_Telling().tell(value, 0))


def reach_fingerprint(fn: types.FunctionType) -> str | None:
    """The fingerprint of a function and of all that it finds in globals, as if these were its
    arguments; None if something there has a state that no fingerprint covers."""
    data = _reach_as_data(fn, set())
    return None if _passes_over(data) else _digest(data)


def _reach_as_data(fn: types.FunctionType, seen: set[int]) -> object:
    if id(fn) in seen or is_pinned(fn.__module__):
        return _name_of(fn)
    seen.add(id(fn))
    found: list[object] = [_Telling().tell(fn, 0)]
    scope = fn.__globals__
    names = {name: scope[name] for name in _names_used(fn.__code__) & scope.keys()}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        names[name] = cell_value(cell)
    for name, value in sorted(names.items()):
        is_function = isinstance(value, types.FunctionType)
        told = _reach_as_data(value, seen) if is_function else _Telling().tell(value, 0)
        found.append((name, told))
    return tuple(found)


def _passes_over(data: object) -> bool:
    if isinstance(data, dict):
        return any(map(_passes_over, data.values()))
    if not isinstance(data, tuple):
        return False
    return (len(data) >= 3 and data[0] == "instance") or any(map(_passes_over, data))
