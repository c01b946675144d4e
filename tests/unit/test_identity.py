"""What a fingerprint tells apart, and what it leaves out."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import types
from collections.abc import Callable
from typing import Any

import pytest

from hotstart.identity import code_fingerprint, fingerprint, says_all


def made(source: str, name: str = "it", **space: Any) -> Any:
    """What ``source`` calls ``name``, as if it stood in a user's module."""
    space["__name__"] = "users"
    exec(compile(source, "users.py", "exec"), space)
    return space[name]


def test_a_fingerprint_is_the_same_for_what_is_written_twice() -> None:
    for source in ("def it(a, b=1, *, c=(2,)): return a", "class it:\n def f(self): return 1"):
        one, other = made(source), made("\n\n" + source)
        assert one is not other
        assert fingerprint(one) == fingerprint(other)


def test_the_fingerprint_of_code_is_that_of_what_it_does() -> None:
    one, other = made("def it(a): return a").__code__, made("\ndef it(a): return a").__code__
    assert code_fingerprint(one) == code_fingerprint(other)
    assert code_fingerprint(one) != code_fingerprint(made("def it(a): return -a").__code__)
    assert len(bytes.fromhex(code_fingerprint(one))) == 32


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Number(enum.IntEnum):
    ONE = 1


class Small(int):
    pass


class Meta(type):
    """Makes classes that cannot be looked up in a dict and that say they are equal to any."""

    def __eq__(cls, other: object) -> bool:
        return True


class Odd(metaclass=Meta):
    pass


class Stand:
    """Says that its class is that of what it stands for, as proxies do."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def __class__(self) -> type:
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def closing_over(value: Any) -> Callable[[], Any]:
    return lambda: value


@functools.cache
def values() -> dict[str, Any]:
    """Values of which no two are the same."""
    named: dict[str, Any] = {
        **{f"plain {value!r}": value for value in (None, ..., True, 1, 1.0, 1j, "1", b"1", 2)},
        **{f"zero {value!r}": value for value in (0, False, 0.0, -0.0)},
        **{f"in it {value!r}": value for value in ((), [], (1,), [1], {1}, frozenset({1}), (1.0,))},
        **{f"member {value}": value for value in (*Colour, Number.ONE)},
        **{f"class {value.__name__}": value for value in (Colour, Small, Odd, Stand, int, Meta)},
        **{f"made by {type(value).__name__}": value for value in (Small(1), Small(2), Odd())},
        "module": math,
        "builtin": math.sqrt,
        "other builtin": math.sin,
        "method of a class in C": str.upper,
        "function": made("def it(a): return a"),
        "its code": made("def it(a): return a").__code__,
        "other name": made("def no(a): return a", "no"),
        "other code": made("def it(a): return -a"),
        "bound": made("class C:\n def it(self): ...\nit = C().it"),
        "bound to another": made("class D:\n def it(self): ...\nit = D().it"),
    }
    for default in (0, False, 0.0, None, (0,), [0], "b=0"):
        named[f"default {default!r}"] = made("def it(a=DEFAULT): return a", DEFAULT=default)
        named[f"keyword {default!r}"] = made("def it(*, a=DEFAULT): return a", DEFAULT=default)
        named[f"cell {default!r}"] = closing_over(default)
    named["cell with a function"] = closing_over(made("def it(): return 1"))
    named["cell with another"] = closing_over(made("def it(): return 2"))
    named["two keywords"] = made("def it(*, a=1, b=2): ...")
    named["the other way round"] = made("def it(*, a=2, b=1): ...")
    return named


def test_different_values_have_different_fingerprints() -> None:
    told = {name: fingerprint(value) for name, value in values().items()}
    for one, other in itertools.combinations(told, 2):
        assert told[one] != told[other], f"{one} and {other}"


BODIES = {
    "empty": "pass",
    "method": "def f(self): return 1",
    "other method": "def f(self): return 2",
    "other default": "def f(self, a=1): return 1",
    "property": "f = property(lambda self: 1)",
    "property with a setter": "f = property(lambda self: 1, lambda self, to: None)",
    "other setter": "f = property(lambda self: 1, lambda self, to: 1)",
    "class method": "f = classmethod(lambda cls: 3)",
    "other class method": "f = classmethod(lambda cls: 4)",
    "static method": "f = staticmethod(lambda: 3)",
    "constant": "f = 1",
    "other constant": "f = True",
    "another's instance": "f = object()",
    "of another class": "f = []",
    "other name": "g = 1",
    "super": "def f(self): return super().f()",
}


def test_what_a_class_has_in_its_body_counts() -> None:
    told = {name: fingerprint(made(f"class it:\n {body}")) for name, body in BODIES.items()}
    for one, other in itertools.combinations(told, 2):
        assert told[one] != told[other], f"{one} and {other}"


def test_a_base_counts_with_its_body() -> None:
    told = {
        fingerprint(made(f"class Base:\n {body}\nclass it(Base): pass")) for body in BODIES.values()
    }
    assert len(told) == len(BODIES)


def test_a_class_that_a_function_leads_to_counts_by_its_names() -> None:
    def told(body: str) -> str:
        return fingerprint(closing_over(made(f"class it:\n {body}")))

    assert told("a = 1; b = 2") == told("b = 2; a = 3")
    assert told("a = 1; b = 2") != told("a = 1; c = 2")


def test_a_class_of_python_or_torch_counts_by_its_name() -> None:
    body = "def f(self): return {}\n __module__ = 'torch.nn'"
    one, other = (made("class it:\n " + body.format(i)) for i in (1, 2))
    assert fingerprint(one) == fingerprint(other)


def test_the_same_class_may_be_met_often() -> None:
    """Methods with ``super()`` lead to their class; what is remembered of it is its own."""
    body = "\n".join(f" def f{i}(self): return super().f{i}()" for i in range(3))
    source = "class Base:\n x = 1\n" + body + "\nclass it(Base):\n" + body
    assert fingerprint(made(source)) == fingerprint(made(source))
    assert fingerprint(made(source)) != fingerprint(made(source.replace("x = 1", "y = 1")))


def test_no_defaults_are_none() -> None:
    fn, empty = made("def it(a): return a"), made("def it(a): return a")
    empty.__defaults__, empty.__kwdefaults__ = (), {}
    assert fingerprint(fn) == fingerprint(empty)


def test_the_order_of_keyword_defaults_does_not_count() -> None:
    fn, turned = made("def it(*, a=1, b=2): ..."), made("def it(*, a=1, b=2): ...")
    turned.__kwdefaults__ = {"b": 2, "a": 1}
    assert fingerprint(fn) == fingerprint(turned)


def test_the_order_of_sets_does_not_count() -> None:
    one, other = {0, 8, "a"}, {"a", 8, 0}
    assert fingerprint(one) == fingerprint(other)


def test_what_stands_in_for_a_function_is_told_as_one() -> None:
    one, other = (Stand(made(f"def it(a): return a + {i}")) for i in (1, 2))
    assert fingerprint(one) != fingerprint(other)


def test_a_function_that_leads_to_itself_has_an_end() -> None:
    source = "def make():\n def f(): return f\n return f\nit = make()"
    assert fingerprint(made(source)) == fingerprint(made(source))


def test_derived_from_a_module_is_a_module() -> None:
    class Lazy(types.ModuleType):
        pass

    assert fingerprint(Lazy("math")) == fingerprint(math)


# -- Whether a fingerprint says all

PASSED_OVER = {
    "default": "def it(a=object()): ...",
    "keyword": "def it(*, a=object()): ...",
    "in a tuple": "def it(a=(1, object())): ...",
    "class attribute": "class it:\n x = []",
    "default of a method": "class it:\n def f(self, a=object()): ...",
    "getter's default": "class it:\n f = property(lambda self, a=object(): 1)",
    "base": "class Base:\n x = []\nclass it(Base): pass",
    "cell": "def make(x):\n return lambda: x\nit = make(object())",
}


def test_it_says_all() -> None:
    assert says_all(made("def it(a, b=(1, 'x'), *, c=None): return a"))
    assert says_all(closing_over(made("def it(): ...")))
    assert says_all(int)


@pytest.mark.parametrize("source", PASSED_OVER.values(), ids=PASSED_OVER)
def test_it_says_not_all(source: str) -> None:
    assert not says_all(made(source))


def test_a_word_in_the_code_is_no_instance() -> None:
    assert says_all(made("def it(a): return ('instance', 1, 2), a.instance.x.y"))


def made_by(scale: int) -> Any:
    class Local:
        def __call__(self, t: int) -> int:
            return t * scale

    return Local()


def test_objects_of_a_class_that_a_function_made() -> None:
    """They share the class's name with whatever else the function made."""
    assert fingerprint(made_by(2)) == fingerprint(made_by(2))
    assert fingerprint(made_by(2)) != fingerprint(made_by(3))
