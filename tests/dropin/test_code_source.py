"""A handle names a code object, and leads back to that very object in another process."""

from __future__ import annotations

import types
from typing import Any

import pytest
from _entries import code_entry
from torch._dynamo.exc import PackageError

SUBJECT = """\
import functools


def plain(x):
    return x


def outer(x):
    def middle(y):
        def inner(z):
            return x + y + z

        return inner

    return middle


def keeps(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


@keeps
def decorated(x):
    return x + 1


@keeps
@keeps
def decorated_twice(x):
    return x + 2


def forgets(f):
    def wrapper(*args):
        return f(*args)

    return wrapper


@forgets
def undisguised(x):
    return x + 3


@keeps
def decorated_outer(x):
    return [(lambda y: y + x)(z) for z in range(3)]


def gen(xs):
    return sum(x * 2 for x in xs)


class Thing:
    def method(self, x):
        return x

    @classmethod
    def of_class(cls, x):
        return x

    @staticmethod
    def static(x):
        return x

    @keeps
    def decorated_method(self, x):
        return x

    class Inner:
        def method(self, x):
            return x


class Child(Thing):
    pass


thing = Thing()


def nested(code, *names):
    for name in names:
        code = next(c for c in below(code) if c.co_name == name)
    return code


def below(code):
    for c in code.co_consts:
        if hasattr(c, "co_name"):
            yield c
            yield from below(c)


def hidden(wrapper):
    while wrapper.__closure__:
        wrapper = wrapper.__closure__[0].cell_contents
    return wrapper


CASES = {
    "plain": lambda: (plain.__code__, ("plain", "__code__")),
    "nested": lambda: (nested(outer.__code__, "middle"), None),
    "nested twice": lambda: (nested(outer.__code__, "middle", "inner"), None),
    "nested, from a live closure": lambda: (outer(1)(2).__code__, None),
    "generator expression": lambda: (nested(gen.__code__, "<genexpr>"), None),
    "decorated": lambda: (
        hidden(decorated).__code__,
        ("decorated", "__closure__[0].cell_contents.__code__"),
    ),
    "decorated twice": lambda: (
        hidden(decorated_twice).__code__,
        (
            "decorated_twice",
            "__closure__[0].cell_contents.__closure__[0].cell_contents.__code__",
        ),
    ),
    "lambda in decorated": lambda: (nested(hidden(decorated_outer).__code__, "<lambda>"), None),
    "undisguised wrapper": lambda: (hidden(undisguised).__code__, None),
    "method": lambda: (Thing.method.__code__, ("Thing.method", "__code__")),
    "bound method": lambda: (thing.method.__func__.__code__, ("Thing.method", "__code__")),
    "inherited method": lambda: (Child.method.__code__, ("Thing.method", "__code__")),
    "method of an inner class": lambda: (
        Thing.Inner.method.__code__,
        ("Thing.Inner.method", "__code__"),
    ),
    "classmethod": lambda: (
        Thing.of_class.__func__.__code__,
        ("Thing.of_class", "__func__.__code__"),
    ),
    "staticmethod": lambda: (Thing.static.__code__, ("Thing.static", "__code__")),
    "decorated method": lambda: (
        hidden(Thing.decorated_method).__code__,
        ("Thing.decorated_method", "__closure__[0].cell_contents.__code__"),
    ),
}
"""

NAMES = [line.split('"')[1] for line in SUBJECT.splitlines() if line.startswith('    "')]


@pytest.mark.parametrize("case", NAMES)
def test_handle_leads_back(impl: Any, program: Any, case: str, torch_fails: Any) -> None:
    if case == "undisguised wrapper":
        torch_fails("names the wrapper 'forgets.<locals>.wrapper', which leads nowhere")
    module = program(SUBJECT)
    code, handle = module.CASES[case]()
    name, source = impl._get_code_source(code)
    if handle is not None:
        assert (name, source) == handle
    entry = code_entry(
        impl, python_module=module.__name__, function_names=[name], code_source=source
    )
    assert impl._lookup_code(entry) is code

    # The same handle in a process that imported the module anew.
    later = program.restart()
    again = impl._lookup_code(entry)
    assert again is not code
    assert again is later.CASES[case]()[0]


@pytest.mark.parametrize(
    ("source", "pick"),
    [
        pytest.param("f = lambda x: x", "f", id="lambda"),
        pytest.param("def f(x): return x\n\ng = f\nf = None", "g", id="name taken by another"),
        pytest.param("def f(x): return x\n\ng = f\ndel f", "g", id="name deleted"),
        pytest.param(
            "def f(x): return x\n\ng = f\n\ndef f(x): return x + 1", "g", id="defined twice"
        ),
    ],
)
def test_code_that_no_name_leads_to(impl: Any, program: Any, source: str, pick: str) -> None:
    module = program(source)
    with pytest.raises(PackageError, match="Cannot resolve a fully qualified name for"):
        impl._get_code_source(getattr(module, pick).__code__)


def test_code_of_no_module(impl: Any) -> None:
    code = compile("def f(x): return x", "<nowhere>", "exec").co_consts[0]
    assert isinstance(code, types.CodeType)
    with pytest.raises(PackageError, match="Cannot find module for code"):
        impl._get_code_source(code)


def test_handle_without_a_path(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    entry = code_entry(
        impl, python_module=module.__name__, function_names=["plain"], code_source=None
    )
    with pytest.raises(PackageError, match="Cannot find source for code entry"):
        impl._lookup_code(entry)


def test_handle_to_something_that_is_gone(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    entry = code_entry(
        impl,
        python_module=module.__name__,
        function_names=["plain"],
        code_source="__closure__[0].cell_contents.__code__",
    )
    with pytest.raises(PackageError, match="Cannot find source for code entry"):
        impl._lookup_code(entry)


@pytest.mark.parametrize("names", [[], ["plain", "gen"]])
def test_handle_needs_exactly_one_name(impl: Any, program: Any, names: list[str]) -> None:
    module = program(SUBJECT)
    entry = code_entry(impl, python_module=module.__name__, function_names=names)
    with pytest.raises(AssertionError, match="exactly one function name"):
        impl._lookup_code(entry)


def test_handle_to_something_else_than_code(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    entry = code_entry(
        impl, python_module=module.__name__, function_names=["plain"], code_source="__globals__"
    )
    with pytest.raises(AssertionError, match="Expected CodeType"):
        impl._lookup_code(entry)
