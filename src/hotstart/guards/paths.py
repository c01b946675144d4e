"""The way from a frame's globals, or from a class that has a name, to a guarded object, in steps.

It reads the same attributes and items that the guards on the way read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hotstart.guards.names import find, name_of

Step = tuple[Any, ...]
Path = tuple[Step, ...]

# Accessors of a guard tree, as steps: ("attribute", name), ("item", key), ...
_ATTRIBUTES = {
    "closure_manager": "__closure__",
    "code_manager": "__code__",
    "func_defaults_manager": "__defaults__",
    "func_kwdefaults_manager": "__kwdefaults__",
    "get_generic_dict_manager": "__dict__",
    "type_dict_manager": "__dict__",
    "type_mro_manager": "__mro__",
}
_ITEMS = {
    "dict_getitem_manager",
    "getitem_manager",
    "list_getitem_manager",
    "tuple_getitem_manager",
}


def step_of(accessor: str, key: Any) -> Step | None:
    """What ``accessor`` does with ``key``; None where it cannot be done again."""
    if accessor in _ATTRIBUTES:
        return ("attribute", _ATTRIBUTES[accessor])
    if accessor in ("getattr_manager", "generic_getattr_manager"):
        return ("attribute", key)
    if accessor in _ITEMS:
        return ("item", key)
    if accessor in ("get_key_manager", "get_value_manager"):
        return (accessor.split("_")[1], key)
    return ("type",) if accessor == "type_manager" else None


def path_from_class(cls: type) -> Path | None:
    """The path to a class by its name, wherever the object came from of which it is the class."""
    name = name_of(cls)
    return None if name is None else (("named", *name),)


def describe(path: Path) -> str:
    """``path`` as a message shows it."""
    kind, *argument = path[0]
    start = ".".join(argument) if kind == "named" else f"G[{argument[0]!r}]"
    return start + "".join(f".{step[-1]}" for step in path[1:])


def follow(path: Path, scope: dict[str, Any]) -> Any:
    """What ``path`` leads to, None where a step leads nowhere."""
    found: Any = scope
    for name, *argument in path:
        try:
            found = _TAKE[name](found, *argument)
        except Exception:  # A guard that went this way would fail, too.
            return None
    return found


def _value(found: Any, index: int) -> Any:
    return list(dict.values(found))[index]


_TAKE: dict[str, Callable[..., Any]] = {
    "attribute": getattr,
    "item": lambda found, key: found[key],
    "named": lambda _, module, qualname: find(module, qualname),
    "key": lambda found, index: list(dict.keys(found))[index],
    "type": type,
    "value": _value,
}
