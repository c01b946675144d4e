"""Code objects as plain data, and the handles by which another process finds them again."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from torch._dynamo.exc import PackageError
from torch.utils.weak import WeakIdKeyDictionary

from hotstart.identity import cell_value, resolve

if TYPE_CHECKING:
    from hotstart.dropin.records import _DynamoCodeCacheEntry

_CODE_CACHE = WeakIdKeyDictionary()

# What the name of a compiled graph in a frame's globals begins with.
COMPILED_FN = "__compiled_fn_"
# What the name of a module begins with that Dynamo imported for guards or bytecode.
IMPORT_ALIAS = "__import_"

# The arguments of `types.CodeType`, in order, as attributes of a code object.
_CODE_FIELDS: tuple[str, ...] = (
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_nlocals",
    "co_stacksize",
    "co_flags",
    "co_code",
    "co_consts",
    "co_names",
    "co_varnames",
    "co_filename",
    "co_name",
    *(("co_qualname",) if sys.version_info >= (3, 11) else ()),
    "co_firstlineno",
    "co_linetable",
    *(("co_exceptiontable",) if sys.version_info >= (3, 11) else ()),
    "co_freevars",
    "co_cellvars",
)


def _code_cache(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers by identity what ``fn`` made of its argument, for as long as that lives."""

    def cached(cls: type[Any], code: Any) -> Any:
        found = _CODE_CACHE.get(code)
        if found is None:
            found = fn(cls, code)
            _CODE_CACHE[code] = found
        return found

    return cached


@dataclasses.dataclass(frozen=True)
class SerializedCode:
    """Every field of a code object; nested code objects in ``co_consts`` are of this class too.

    Both directions are cached by identity: a code object has one record, and a record one code
    object.
    """

    co_argcount: int
    co_posonlyargcount: int
    co_kwonlyargcount: int
    co_nlocals: int
    co_stacksize: int
    co_flags: int
    co_code: bytes
    co_consts: tuple[Any, ...]
    co_names: tuple[str, ...]
    co_varnames: tuple[str, ...]
    co_filename: str
    co_name: str
    co_firstlineno: int
    co_cellvars: tuple[str, ...]
    co_freevars: tuple[str, ...]
    co_linetable: bytes | None = None
    co_qualname: str | None = None
    co_exceptiontable: bytes | None = None
    co_lnotab: str | None = None

    @classmethod
    @_code_cache
    def from_code_object(cls, code: types.CodeType) -> SerializedCode:
        fields = {name: getattr(code, name) for name in _CODE_FIELDS}
        fields["co_consts"] = tuple(
            cls.from_code_object(const) if isinstance(const, types.CodeType) else const
            for const in code.co_consts
        )
        return cls(**fields)

    @classmethod
    @_code_cache
    def to_code_object(cls, serialized_code: SerializedCode) -> types.CodeType:
        fields = {name: getattr(serialized_code, name) for name in _CODE_FIELDS}
        fields["co_consts"] = tuple(
            cls.to_code_object(const) if isinstance(const, SerializedCode) else const
            for const in serialized_code.co_consts
        )
        return types.CodeType(*fields.values())


def _lookup_code(entry: _DynamoCodeCacheEntry) -> types.CodeType:
    """The code object that an entry's ``(module, function name, code source)`` names.

    Raises PackageError where the entry has no code source or a step of it leads nowhere.
    """
    if len(entry.function_names) != 1:
        raise AssertionError(f"Expected exactly one function name, got {len(entry.function_names)}")
    if not entry.code_source:
        raise PackageError(f"Cannot find source for code entry {entry}")
    found = follow(entry.python_module, entry.function_names[0], entry.code_source)
    if found is None:
        raise PackageError(f"Cannot find source for code entry {entry}")
    if not isinstance(found, types.CodeType):
        raise AssertionError(f"Expected CodeType, got {type(found)} for code entry {entry}")
    return found


def follow(module: str, qualname: str, code_source: str) -> Any:
    """What the handle ``(module, qualname, code_source)`` names in this process, None if nothing.

    ``code_source`` is a path of attributes, each with an optional index:
    ``__closure__[0].cell_contents.__code__``.
    """
    found = resolve(module, qualname)
    for step in code_source.split("."):
        name, _, index = step.partition("[")
        found = getattr(found, name, None)
        if index and found is not None:
            position = ast.literal_eval(index.removesuffix("]"))
            found = found[position] if position < len(found) else None
    return found


def _raise_resolution_error(code: types.CodeType, scope: Any) -> NoReturn:
    raise PackageError(f"Cannot resolve a fully qualified name for {code}. Lookup scope: {scope}")


def _get_code_source(code: types.CodeType) -> tuple[str, str]:
    """The handle ``(qualified name, code source)`` under which `_lookup_code` finds ``code``.

    A function's own code is ``("f", "__code__")``. Where a decorator hides the function in its
    closure, or a function makes another, the code source says how to get from the object that the
    module holds to the code. Raises PackageError where there is no such way.
    """
    module = inspect.getmodule(code)
    if module is None:
        raise PackageError(f"Cannot find module for code {code}")
    return handle_in(module, code)


def handle_in(module: types.ModuleType, code: types.CodeType) -> tuple[str, str]:
    """`_get_code_source` for code that ``module`` is known to hold."""
    for qualname, anchor in _anchors(code, module):
        path = _path_to(code, anchor, set())
        if path is not None:
            return qualname, path
    _raise_resolution_error(code, module)


def _anchors(code: types.CodeType, module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Objects that ``module`` holds by a dotted name and that may lead to ``code``."""
    if sys.version_info >= (3, 11):
        yield _anchor_by_qualname(code, module)
    else:
        yield from _anchors_by_search(module)


def _anchor_by_qualname(code: types.CodeType, module: types.ModuleType) -> tuple[str, Any]:
    scope: Any = module
    walked: list[str] = []
    for name in code.co_qualname.split("."):
        if not hasattr(scope, name):
            _raise_resolution_error(code, scope)
        scope = getattr(scope, name)
        walked.append(name)
        if inspect.isfunction(scope) or inspect.ismethod(scope):
            break
    return ".".join(walked), scope


def _anchors_by_search(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Before Python 3.11 code has no qualified name: all functions and classes are candidates."""
    pending: list[tuple[str, Any]] = list(vars(module).items())
    seen: set[int] = set()
    while pending:
        qualname, value = pending.pop(0)
        if id(value) in seen or getattr(value, "__module__", None) != module.__name__:
            continue
        seen.add(id(value))
        if inspect.isclass(value):
            pending += [(f"{qualname}.{name}", getattr(value, name, None)) for name in dir(value)]
        elif inspect.isfunction(value) or inspect.ismethod(value):
            yield qualname, value


def _path_to(code: types.CodeType, obj: Any, seen: set[int]) -> str | None:
    """The attribute path from ``obj`` to ``code``; an empty one where they are the same."""
    if obj is code:
        return ""
    if id(obj) in seen:
        return None
    seen.add(id(obj))
    for step, value in _steps_from(obj):
        rest = _path_to(code, value, seen)
        if rest is not None:
            return f"{step}.{rest}" if rest else step
    return None


def _steps_from(obj: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, types.CodeType):
        for i, const in enumerate(obj.co_consts):
            if isinstance(const, types.CodeType):
                yield f"co_consts[{i}]", const
    elif inspect.ismethod(obj):
        yield "__func__", obj.__func__
    elif inspect.isfunction(obj):
        yield "__code__", obj.__code__
        for i, cell in enumerate(obj.__closure__ or ()):
            value = cell_value(cell)
            if isinstance(value, (types.FunctionType, types.MethodType, types.CodeType)):
                yield f"__closure__[{i}].cell_contents", value
    elif isinstance(obj, property):
        for name in ("fget", "fset", "fdel"):
            if inspect.isfunction(accessor := getattr(obj, name)):
                yield name, accessor
    elif inspect.isfunction(wrapped := getattr(obj, "__wrapped__", None)):
        yield "__wrapped__", wrapped


@dataclasses.dataclass(frozen=True)
class GlobalsOf:
    """Stands in constants for the globals of ``module``.

    Where a nested function breaks the graph, the bytecode that Dynamo makes holds the dict itself.
    A copy of it would be the globals of nothing.
    """

    module: str


def with_globals_named(code: types.CodeType) -> types.CodeType:
    """``code`` with modules' globals among its constants named. Any other dict stays."""

    def named(const: Any) -> Any:
        module = sys.modules.get(const.get("__name__", "")) if type(const) is dict else None
        return GlobalsOf(module.__name__) if module and vars(module) is const else const

    return _with_constants(code, named)


def holds_a_dict(code: types.CodeType) -> bool:
    """Whether there is a dict among the constants. Python's own compiler puts none there."""
    return any(
        isinstance(const, dict) or (isinstance(const, types.CodeType) and holds_a_dict(const))
        for const in code.co_consts
    )


def with_globals_of(code: types.CodeType, scope_of: Callable[[str], Any]) -> types.CodeType:
    """The inverse; ``scope_of`` gives the globals of a module."""
    return _with_constants(
        code, lambda const: scope_of(const.module) if isinstance(const, GlobalsOf) else const
    )


def _with_constants(code: types.CodeType, new: Callable[[Any], Any]) -> types.CodeType:
    consts = tuple(
        _with_constants(const, new) if isinstance(const, types.CodeType) else new(const)
        for const in code.co_consts
    )
    same = all(before is after for before, after in zip(code.co_consts, consts, strict=True))
    return code if same else code.replace(co_consts=consts)


def _backend_ids_from_code(code: types.CodeType) -> Iterator[str]:
    """The ids of the compiled graphs that ``code``, made by Dynamo, calls."""
    yield from (name for name in code.co_names if name.startswith(COMPILED_FN))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _backend_ids_from_code(const)


def backends_used(code: types.CodeType) -> set[str]:
    """The same, as a set."""
    return set(_backend_ids_from_code(code))
