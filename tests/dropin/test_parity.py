"""Every name that the installed torch's ``torch._dynamo.package`` defines, on ours as well.

Nothing here is a list: names, signatures, fields and members are read from the installed torch,
so that another version of it shows its differences by itself.
"""

from __future__ import annotations

import abc
import ast
import dataclasses
import functools
import inspect
import types
import typing
from typing import Any

import pytest
import torch._dynamo.package as reference

# Where a module's own names live; anything else in it was imported.
_HOME = reference.__name__


def defined_names() -> list[str]:
    """Top-level classes, functions and assigned names of torch's file, in order."""
    names: list[str] = []
    for node in ast.parse(inspect.getsource(reference)).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [t.id for t in node.targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    introspected = [
        n for n, v in vars(reference).items() if getattr(v, "__module__", None) == _HOME
    ]
    return list(dict.fromkeys([*names, *introspected]))


NAMES = defined_names()
CLASSES = [n for n in NAMES if isinstance(getattr(reference, n), type)]
DATACLASSES = [n for n in CLASSES if dataclasses.is_dataclass(getattr(reference, n))]


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults; annotations are each implementation's own business."""
    return [
        (p.name, p.kind.name, p.default) for p in inspect.signature(function).parameters.values()
    ]


def takes_all_calls(ours: Any, theirs: Any) -> bool:
    """Whether what torch's function can be called with, ours can: it may take more keywords."""
    known = {name for name, _, _ in parameters(theirs)}
    required = [
        (name, how, default)
        for name, how, default in parameters(ours)
        if name in known or how != "KEYWORD_ONLY" or default is inspect.Parameter.empty
    ]
    return required == parameters(theirs)


def kind(member: Any) -> str:
    """How a class attribute behaves when it is looked up."""
    for known in (staticmethod, classmethod, property, functools.cached_property):
        if isinstance(member, known):
            return known.__name__
    if callable(member):
        return "function"
    return "value"


def members(cls: type) -> dict[str, Any]:
    """What a class body of torch's file adds: its methods, properties and constants."""
    fields = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    return {
        name: value
        for name, value in vars(cls).items()
        if name not in fields and (not _is_dunder(name) or name in ("__init__", "__call__"))
    }


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def describe_fields(cls: type) -> list[tuple[Any, ...]]:
    """Everything of a dataclass's fields that callers can see."""

    def factory(value: Any) -> Any:
        return getattr(value, "__qualname__", value)

    return [
        (
            f.name,
            f.default,
            factory(f.default_factory),
            f.init,
            f.repr,
            f.compare,
            f.hash,
            f.kw_only,
        )
        for f in dataclasses.fields(cls)
    ]


def shape(value: Any) -> str:
    """The kind of thing a module-level name is bound to."""
    if isinstance(value, type):
        return "class"
    if isinstance(value, typing.NewType):
        return "newtype"
    if typing.get_origin(value) is not None:
        return "alias"
    if callable(value):
        return "function"
    return "instance"


def problems(name: str, theirs: Any, ours: Any) -> list[str]:
    """What a caller of ``name`` could tell apart."""
    if shape(ours) != shape(theirs):
        return [f"{name} is a {shape(ours)}, torch's is a {shape(theirs)}"]
    match shape(theirs):
        case "class":
            return class_problems(name, theirs, ours)
        case "function" if not takes_all_calls(ours, theirs):
            return [f"{name}{inspect.signature(ours)}, torch's {inspect.signature(theirs)}"]
        case "newtype":
            want, got = theirs.__supertype__, ours.__supertype__
            return [] if (want, theirs.__name__) == (got, ours.__name__) else [f"{name}: {got}"]
        case "alias" if str(typing.get_origin(theirs)) != str(typing.get_origin(ours)):
            return [f"{name} is an alias of {ours}, torch's of {theirs}"]
        case "instance" if type(theirs).__module__ == _HOME:
            same = type(theirs).__name__ in [c.__name__ for c in type(ours).__mro__]
            return [] if same else [f"{name} is a {type(ours)}, torch's a {type(theirs)}"]
    return []


def class_problems(name: str, theirs: type, ours: type) -> list[str]:
    found: list[str] = []
    lineage = [c.__name__ for c in ours.__mro__]
    found += [
        f"{name} does not derive from {base.__name__}"
        for base in theirs.__mro__[1:]
        if (base.__name__ not in lineage if base.__module__ == _HOME else base not in ours.__mro__)
        and base is not abc.ABC
    ]
    if inspect.isabstract(theirs) != inspect.isabstract(ours):
        found.append(f"{name}: abstract {inspect.isabstract(ours)}")
    abstract = [getattr(c, "__abstractmethods__", frozenset()) for c in (theirs, ours)]
    if abstract[0] != abstract[1]:
        found.append(
            f"{name}: abstract methods {sorted(abstract[1])}, torch's {sorted(abstract[0])}"
        )
    if dataclasses.is_dataclass(theirs):
        if not dataclasses.is_dataclass(ours):
            return [*found, f"{name} is not a dataclass"]
        if describe_fields(theirs) != describe_fields(ours):
            found.append(
                f"{name}: fields {describe_fields(ours)}, torch's {describe_fields(theirs)}"
            )
        for flag in ("init", "repr", "eq", "order", "unsafe_hash", "frozen"):
            values = [getattr(c.__dataclass_params__, flag) for c in (theirs, ours)]  # type: ignore[attr-defined]
            if values[0] != values[1]:
                found.append(f"{name}: dataclass {flag}={values[1]}, torch's {values[0]}")
    for member, value in members(theirs).items():
        found += member_problems(f"{name}.{member}", member, value, ours)
    return found


def member_problems(where: str, member: str, value: Any, ours: type) -> list[str]:
    try:
        mine = inspect.getattr_static(ours, member)
    except AttributeError:
        return [f"{where} is missing"]
    if member == "_abc_impl":
        return []
    properties = {"property", "cached_property"}
    if kind(mine) != kind(value) and not {kind(mine), kind(value)} <= properties:
        return [f"{where} is a {kind(mine)}, torch's is a {kind(value)}"]
    match kind(value):
        case "function":
            same = takes_all_calls(mine, value)
        case "staticmethod" | "classmethod":
            same = takes_all_calls(mine.__func__, value.__func__)
        case "value":
            same = value == mine
        case _:
            same = True
    return [] if same else [f"{where}: {mine}, torch's {value}"]


@pytest.mark.parametrize("name", NAMES)
def test_same_as_torch(impl: Any, name: str) -> None:
    assert hasattr(impl.package, name), f"{name} is missing"
    assert problems(name, getattr(reference, name), getattr(impl.package, name)) == []


def test_the_enumeration_sees_every_kind_of_name() -> None:
    kinds = {shape(getattr(reference, n)) for n in NAMES}
    assert kinds == {"class", "newtype", "alias", "function", "instance"}
    assert {"CompilePackage", "DynamoCache", "_BackendId", "_Backends", "_lookup_code"} <= set(
        NAMES
    )
    assert len(CLASSES) >= 14
    assert len(DATACLASSES) >= 8
    assert not {"torch", "inspect", "PackageError", "counters"} & set(NAMES)


class _Doctored:
    """Changes to torch's own classes that the comparison has to notice."""

    @staticmethod
    def thawed() -> type:
        fields = [(f.name, f.type) for f in dataclasses.fields(reference.InlinedSource)]
        return dataclasses.make_dataclass("InlinedSource", fields, frozen=False)

    @staticmethod
    def reordered() -> type:
        fields = [(f.name, f.type) for f in dataclasses.fields(reference.InlinedSource)]
        return dataclasses.make_dataclass("InlinedSource", fields[::-1], frozen=True)

    @staticmethod
    def renamed_parameter() -> type:
        def install(self: Any, artefacts: Any) -> None: ...

        return type("CompilePackage", (reference.CompilePackage,), {"install": install})

    @staticmethod
    def lost_member() -> type:
        body = dict(vars(reference.CompilePackage))
        del body["validate"]
        return type("CompilePackage", (), body)

    @staticmethod
    def changed_kind() -> type:
        body = {"source_id_from_fn": classmethod(lambda cls, fn: "")}
        return type("CompilePackage", (reference.CompilePackage,), body)

    @staticmethod
    def concrete() -> type:
        body = {n: lambda self: None for n in reference.DynamoStore.__abstractmethods__}
        return type("DynamoStore", (reference.DynamoStore,), body)


@pytest.mark.parametrize("change", [n for n in vars(_Doctored) if not n.startswith("_")])
def test_the_comparison_notices(change: str) -> None:
    doctored: type = getattr(_Doctored, change)()
    assert isinstance(doctored, type)
    assert problems(doctored.__name__, getattr(reference, doctored.__name__), doctored)


def test_the_comparison_notices_a_default() -> None:
    def load_guards_state(guards_state: bytes = b"") -> Any: ...

    assert isinstance(load_guards_state, types.FunctionType)
    assert problems("load_guards_state", reference.load_guards_state, load_guards_state)
