"""The values that guards are made with, as data; `hotstart.guards.resolve` goes back.

A value is plain, or it is ``(kind, data, parts)``, where ``parts`` are numbers of other values.
Whatever fits no kind has no meaning outside this process.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from hotstart._core import NoHooks, SeenDicts, dumps
from hotstart._torch import guard_values as torch_values
from hotstart.errors import UnsupportedValueError
from hotstart.guards.names import IDENTITY, LINEAGE, name_of, proof_for, proof_of
from hotstart.identity import cell_value, code_fingerprint, fingerprint, is_plain, says_all

Special = tuple[str, object, tuple[int, ...]]

_CONTAINERS: dict[type, str] = {tuple: "tuple", list: "list", set: "set", frozenset: "frozenset"}
_DICT_KEYS: Any = type({}.keys())

# Objects of which a process has one, whose address therefore stands for the value.
_SINGLETONS = (type(None), bool, type(...), type(NotImplemented))


class Values:
    """Every value that a plan needs, each once, numbered in the order in which they came up.

    ``scope`` is the globals of the guarded frame; with ``any_threads`` the number of threads is
    taken from the loading process. Each method returns the number of a value, and
    raises UnsupportedValueError, which names it, for one that another process could not make.
    """

    def __init__(self, scope: dict[str, Any], any_threads: bool = False) -> None:
        self._scope = scope
        self._any_threads = any_threads
        self._numbers: dict[bytes, int] = {}
        self._items: list[tuple[bool, Any]] = []

    def tables(self) -> tuple[tuple[Any, ...], tuple[Special, ...], list[int]]:
        """Plain values, other values, and for each number its place in the two tables as one."""
        plain = [number for number, (is_special, _) in enumerate(self._items) if not is_special]
        special = [number for number, (is_special, _) in enumerate(self._items) if is_special]
        places = [0] * len(self._items)
        for place, number in enumerate((*plain, *special)):
            places[number] = place
        moved = []
        for number in special:
            kind, data, parts = self._items[number][1]
            moved.append((kind, data, tuple(places[part] for part in parts)))
        return tuple(self._items[number][1] for number in plain), tuple(moved), places

    def add(self, value: Any) -> int:
        """Any value that a guard compares with or is made with."""
        if value is self._scope:
            return self._special("globals")
        if is_plain(value):
            return self._intern(False, value)
        kind = _CONTAINERS.get(type(value))
        if kind is not None:
            items = value if kind in ("tuple", "list") else sorted(value, key=repr)
            return self._special(kind, None, map(self.add, items))
        if type(value) is dict:
            return self._special("dict", None, map(self.add, (*value.keys(), *value.values())))
        for matches, add in self._kinds():
            if matches(value):
                return add(value)
        return self._named(value, IDENTITY)

    def _kinds(self) -> tuple[tuple[Callable[[Any], bool], Callable[[Any], int]], ...]:
        return (
            (torch_values.has_portable_form, self._of_torch),
            (lambda v: isinstance(v, enum.Enum), self._member),
            (lambda v: isinstance(v, type), lambda v: self.cls(v)),
            (lambda v: isinstance(v, slice), self._slice),
            (lambda v: isinstance(v, range), self._range),
            (lambda v: type(v) is _DICT_KEYS, self._dict_keys),
            (lambda v: isinstance(v, types.MappingProxyType), self._mapping),
            (_is_numpy_scalar, self._numpy_scalar),
            (lambda v: isinstance(v, types.FunctionType), self._function),
            (lambda v: isinstance(v, NoHooks), self._no_hooks),
            (lambda v: isinstance(v, SeenDicts), lambda v: self._special("seen dicts")),
            (_is_record_of_torch, self._record),
        )

    def cls(self, value: type, how: str = LINEAGE) -> int:
        """A class; ``how`` is a proof of `hotstart.guards.names`."""
        return self._named(value, how)

    def address(self, value: Any, how: str) -> int:
        """The address of ``value`` in the loading process, if it can be found there by name."""
        if _is_singleton(value):
            return self._special("address", None, (self.add(value),))
        return self._special("address", None, (self._named(value, how),))

    def address_at(self, path: tuple[Any, ...], value: Any) -> int:
        """The same, for what ``path`` leads to from the frame's globals."""
        if not is_plain(path):
            raise UnsupportedValueError(f"{_called(value)} has no place that can be named")
        how = proof_for(value, IDENTITY)
        found = self._special("at", (path, how, proof_of(value, how)))
        return self._special("address", None, (found,))

    def first_sight(self, value: Any, of_type: bool) -> int:
        """A check that takes the first object that is like ``value`` for it."""
        if isinstance(value, types.CodeType):
            return self._special("first sight", ("code", code_fingerprint(value), of_type))
        if isinstance(value, (types.FunctionType, type)) and says_all(value):
            return self._special("first sight", ("identity", fingerprint(value), of_type))
        raise UnsupportedValueError(f"{_called(value)} is known by its address only")

    def example_dict(self, value: Any) -> int:
        """A dict, or the keys of one, of the size and the class of ``value``."""
        if type(value) is _DICT_KEYS:
            return self._special("sized keys", len(value))
        return self._special("sized dict", len(value), (self._named(type(value), LINEAGE),))

    def tensor(self, value: Any) -> int:
        """A tensor that a guard takes dtype, device and requires_grad from."""
        return self._special("tensor", torch_values.tensor_to_data(value))

    def modes(self, value: list[Any]) -> int:
        """A stack of modes, of which a guard compares the classes."""
        classes = [self.cls(type(mode)) for mode in value]
        return self._special("instances", None, classes)

    def watched_dict(self, value: Any) -> int:
        """The very dict, if it is a module's and holds what it held."""
        named = torch_values.name_of_dict(value)
        if named is None:
            raise UnsupportedValueError("the version of a dict holds for one process only")
        return self._special("dict by name", (*named, torch_values.dict_proof(value)))

    def _named(self, value: Any, how: str) -> int:
        name = name_of(value)
        if name is None:
            raise UnsupportedValueError(f"{_called(value)} has no name in its module")
        how = proof_for(value, how)
        return self._special("named", (*name, how, proof_of(value, how)))

    def _of_torch(self, value: Any) -> int:
        if self._any_threads and torch_values.is_global_state(value):
            return self._special("torch", torch_values.state_of_any_threads(value))
        return self._special("torch", torch_values.to_data(value))

    def _member(self, value: enum.Enum) -> int:
        if not is_plain(value.value):
            raise UnsupportedValueError(f"{value!r} has a value that is not plain")
        return self._special("member", (value.name, value.value), (self.cls(type(value)),))

    def _slice(self, value: slice) -> int:
        parts = map(self.add, (value.start, value.stop, value.step))
        return self._special("slice", None, parts)

    def _range(self, value: range) -> int:
        return self._special("range", (value.start, value.stop, value.step))

    def _dict_keys(self, value: Any) -> int:
        return self._special("keys", None, map(self.add, value))

    def _mapping(self, value: Any) -> int:
        return self._special("mapping", None, map(self.add, value))

    def _numpy_scalar(self, value: Any) -> int:
        return self._special("numpy", (value.dtype.str, value.tobytes()))

    def _record(self, value: Any) -> int:
        names = tuple(field.name for field in dataclasses.fields(value))
        parts = [self.cls(type(value)), *(self.add(getattr(value, name)) for name in names)]
        return self._special("record", names, parts)

    def _function(self, value: types.FunctionType) -> int:
        """A function by its name, or the code and the closure of one that torch made."""
        if name_of(value) is not None:
            return self._named(value, IDENTITY)
        module = self._home_of(value)
        closure = [self.add(cell_value(cell)) for cell in value.__closure__ or ()]
        defaults = [self.add(default) for default in value.__defaults__ or ()]
        data = (value.__code__, module, len(closure))
        return self._special("function", data, (*closure, *defaults))

    def _home_of(self, value: types.FunctionType) -> str | None:
        """The module whose globals a function has; None for the guarded frame's under ``G``."""
        scope = value.__globals__
        if scope.keys() <= {"G", "__builtins__"} and scope.get("G", self._scope) is self._scope:
            return None
        module = sys.modules.get(scope.get("__name__", ""))
        if module is None or vars(module) is not scope or not module.__name__.startswith("torch."):
            raise UnsupportedValueError(f"{_called(value)} has no name in its module")
        return module.__name__

    def _no_hooks(self, value: NoHooks) -> int:
        return self._special("no hooks", value.names, (self.add(value.seen),))

    def _special(self, kind: str, data: object = None, parts: Iterable[int] = ()) -> int:
        return self._intern(True, (kind, data, tuple(parts)))

    def _intern(self, is_special: bool, value: Any) -> int:
        # By the bytes, not by equality: 1, True and 1.0 are three values.
        key = dumps((is_special, value))
        number = self._numbers.setdefault(key, len(self._items))
        if number == len(self._items):
            self._items.append((is_special, value))
        return number


def has_name(value: Any) -> bool:
    """Whether `Values.address` finds ``value`` in another process."""
    return _is_singleton(value) or name_of(value) is not None


def _is_singleton(value: Any) -> bool:
    return isinstance(value, (enum.Enum, *_SINGLETONS)) or torch_values.is_singleton(value)


def _called(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or f"an object of {type(value).__qualname__}"
    return str(name)


def _is_numpy_scalar(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject


def _is_record_of_torch(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and type(value).__module__.startswith("torch.")
