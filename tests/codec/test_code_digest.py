"""The digest of a code object: every field that decides what it does counts, and nothing else."""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

import pytest
from codec_samples import MODULES, module_code, nan, nested_codes
from hypothesis import given
from hypothesis import strategies as st

from hotstart._core import code_digest
from hotstart.errors import UnsupportedValueError


def compiled(source: str, filename: str = "here.py") -> types.CodeType:
    """The code of the first function in ``source``."""
    whole = compile(textwrap.dedent(source), filename, "exec")
    return next(const for const in whole.co_consts if isinstance(const, types.CodeType))


SOURCE = """
def work(a, /, b, *, c=1):
    def inner(x):
        nonlocal b
        b += x
        return b
    try:
        return inner(a.field) + c
    except ValueError:
        return None
"""
WORK = compiled(SOURCE)
INNER = next(const for const in WORK.co_consts if isinstance(const, types.CodeType))


def with_consts(*consts: Any) -> types.CodeType:
    return WORK.replace(co_consts=consts)


def test_it_is_a_digest_and_the_same_every_time() -> None:
    assert len(code_digest(WORK)) == hashlib.sha256().digest_size
    assert code_digest(WORK) == code_digest(compiled(SOURCE))


# -- What counts

CHANGES: dict[str, Callable[[types.CodeType], dict[str, Any]]] = {
    "name": lambda c: {"co_name": c.co_name + "_"},
    "argcount": lambda c: {"co_argcount": c.co_argcount - 1},
    "posonlyargcount": lambda c: {"co_posonlyargcount": c.co_posonlyargcount + 1},
    "kwonlyargcount": lambda c: {"co_kwonlyargcount": c.co_kwonlyargcount - 1},
    "flags": lambda c: {"co_flags": c.co_flags ^ 0x20000},
    "instructions": lambda c: {"co_code": c.co_code[2:] + c.co_code[:2]},
    "consts": lambda c: {"co_consts": (*c.co_consts, None)},
    "order of consts": lambda c: {"co_consts": c.co_consts[::-1]},
    "names": lambda c: {"co_names": (*c.co_names, "more")},
    "order of names": lambda c: {"co_names": c.co_names[::-1]},
    "varnames": lambda c: {"co_varnames": (*c.co_varnames[:-1], "other")},
    "cellvars": lambda c: {"co_cellvars": ("other",)},
    "freevars": lambda c: {"co_freevars": ("other",)},
}
if sys.version_info >= (3, 11):
    CHANGES["exception table"] = lambda c: {"co_exceptiontable": c.co_exceptiontable[:-1]}


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_code_is_made_of_counts(change: str) -> None:
    # A function without cells: a change of names must not be one of how they are stored.
    plain = compiled("def f(a, /, b, *, c=1):\n try: return a.x + b.y\n except E: return 1, 'two'")
    code = INNER if change == "freevars" else WORK if change == "cellvars" else plain
    assert code_digest(code.replace(**CHANGES[change](code))) != code_digest(code)


def test_which_names_are_of_which_kind_counts() -> None:
    code = compiled("def f(a): return a.b")
    assert code_digest(code.replace(co_names=("b", "c"))) != code_digest(
        code.replace(co_varnames=("a", "b"), co_names=("c",), co_nlocals=2)
    )


def test_where_one_name_ends_counts() -> None:
    assert code_digest(WORK.replace(co_names=("ab", "c"))) != code_digest(
        WORK.replace(co_names=("a", "bc"))
    )


def test_code_inside_counts() -> None:
    changed = compiled(SOURCE.replace("b += x", "b -= x"))
    assert changed.co_code == WORK.co_code
    assert code_digest(changed) != code_digest(WORK)


# Sorted by what they may be mistaken for.
DIFFERENT = [
    (0, False, 0.0, -0.0, 0j, complex(-0.0, 0.0), complex(0.0, -0.0)),
    (1, True, 1.0, "1", b"1", -1, (1,), frozenset({1})),
    (None, ..., "None", "", b"", (), frozenset()),
    (nan(0x7FF8000000000000), nan(0xFFF8000000000000), nan(0x7FF8000000000001)),
    (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64),
    ("ab", ("a", "b"), ("ab",), (("a", "b"),), ("b", "a"), b"ab"),
    ((1, (2, 3)), ((1, 2), 3), (1, 2, 3), ((1,), 2, 3)),
    ("\xe9", "e\u0301", "\u0100", "\x00\x01", "\ud800", "\U0001f600"),
    (frozenset({1, 2}), frozenset({1, 2.5}), frozenset({(1, 2)}), (1, 2)),
    (slice(1, 2), slice(1, 2, 1), slice(None, 1, 2), (1, 2, None)),
]


@pytest.mark.parametrize("values", DIFFERENT, ids=str)
def test_different_constants(values: tuple[Any, ...]) -> None:
    for one, other in itertools.combinations(values, 2):
        assert code_digest(with_consts(one)) != code_digest(with_consts(other))
        assert code_digest(with_consts((one,))) != code_digest(with_consts((other,)))


def test_constants_that_stand_together_are_told_apart() -> None:
    assert code_digest(with_consts(1, (2,))) != code_digest(with_consts(1, 2))
    assert code_digest(with_consts((1,), 2)) != code_digest(with_consts((1, 2)))
    assert code_digest(with_consts(INNER)) != code_digest(with_consts((INNER,)))


# -- What does not


@pytest.mark.parametrize("name", ["co_filename", "co_firstlineno", "co_stacksize", "co_qualname"])
def test_where_it_was_written_does_not_count(name: str) -> None:
    if not hasattr(WORK, name):
        pytest.skip("not in this Python")
    old = getattr(WORK, name)
    new = old + "x" if isinstance(old, str) else old + 7
    inner = INNER.replace(**{name: getattr(INNER, name) + ("x" if isinstance(old, str) else 3)})
    consts = tuple(inner if const is INNER else const for const in WORK.co_consts)
    assert code_digest(WORK.replace(**{name: new, "co_consts": consts})) == code_digest(WORK)
    assert code_digest(with_consts((inner,))) == code_digest(with_consts((INNER,)))


def test_lines_do_not_count() -> None:
    moved = compiled(
        "\n\n# a comment\n" + SOURCE.replace("    try:", "\n    # one more\n\n    try:")
    )
    assert [*moved.co_lines()] != [*WORK.co_lines()]
    assert code_digest(moved) == code_digest(WORK)


def test_a_nan_equals_itself() -> None:
    assert code_digest(with_consts(nan(0x7FF8000000000001))) == code_digest(
        with_consts(nan(0x7FF8000000000001))
    )


def test_the_order_of_a_set_does_not_count() -> None:
    one, other = frozenset([0, 8, "a", (1, "b")]), frozenset([(1, "b"), "a", 8, 0])
    assert [*one] != [*other]
    assert code_digest(with_consts(one)) == code_digest(with_consts(other))
    assert code_digest(with_consts(frozenset([one, 1]))) == code_digest(
        with_consts(frozenset([1, other]))
    )


def test_what_has_run_is_what_was_compiled() -> None:
    """Python writes into code that runs: shortcuts for the types that it met."""
    source = "def f(xs):\n    t = 0\n    for x in xs:\n        t += x * x\n    return t"
    space: dict[str, Any] = {}
    exec(source, space)
    for _ in range(50):
        space["f"](range(50))
    assert code_digest(space["f"].__code__) == code_digest(compiled(source))


SHOW = """
from codec_samples import module_code
from hotstart._core import code_digest
print(code_digest(module_code("tarfile")).hex())
"""


def test_it_is_the_same_in_another_process() -> None:
    for seed in "12":
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        shown = subprocess.check_output([sys.executable, "-c", SHOW], env=environment, text=True)
        assert shown.strip() == code_digest(module_code("tarfile")).hex()


@pytest.mark.parametrize("name", MODULES[:12])
def test_the_standard_library(name: str) -> None:
    """As many digests as there are code objects that differ in a field that counts."""
    codes = [*nested_codes(module_code(name))]
    assert len(set(map(code_digest, codes))) == len({repr(told(code)) for code in codes})


def told(code: types.CodeType) -> tuple[object, ...]:
    """Plainly what counts, the digest's twin."""
    consts = [told(c) if isinstance(c, types.CodeType) else ordered(c) for c in code.co_consts]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    table = getattr(code, "co_exceptiontable", b"")
    return (code.co_name, counts, code.co_code, consts, names, table)


def ordered(const: object) -> object:
    return sorted(map(repr, const)) if isinstance(const, frozenset) else const


# -- A digest is kept with its code


def test_a_kept_digest_is_that_of_its_code_alone() -> None:
    """Code objects come and go at the same addresses."""
    fresh = [code_digest(with_consts(i)) for i in range(500)]
    kept = [with_consts(i) for i in range(500)]
    assert [code_digest(code) for code in kept] == fresh
    assert [code_digest(code) for code in kept] == fresh
    assert code_digest(kept[0].replace(co_name="other")) != fresh[0]


@pytest.mark.parametrize("wrap", [lambda c: c, lambda c: (c,), lambda c: with_consts(c)])
def test_a_constant_that_changes_is_looked_at_again(wrap: Callable[[Any], Any]) -> None:
    changing: list[Any] = [[1], {1: 1}, {1}]
    code = with_consts(*map(wrap, changing))
    seen = {code_digest(code)}
    for change in (changing[0].clear, changing[1].clear, changing[2].clear):
        change()
        seen.add(code_digest(code))
    assert len(seen) == 4


# -- What cannot be told


@pytest.mark.parametrize("const", [types, object(), print, type("Text", (str,), {})("a")])
def test_a_constant_of_another_kind_is_refused(const: object) -> None:
    for code in (with_consts(1, const), with_consts(WORK.replace(co_consts=(const,)))):
        with pytest.raises(UnsupportedValueError, match=r"co_consts.*cannot encode"):
            code_digest(code)


def test_plain_containers_are_told() -> None:
    """No compiler writes them, but Dynamo does."""
    digests = {
        code_digest(with_consts(c)) for c in ([1], {1}, {1: 1}, {1: 2}, (1,), frozenset({1}))
    }
    assert len(digests) == 6


def test_a_container_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnsupportedValueError, match="contains itself"):
        code_digest(with_consts(loop))


@pytest.mark.parametrize("value", [None, "code", test_plain_containers_are_told])
def test_only_code(value: Any) -> None:
    with pytest.raises(TypeError, match="code object"):
        code_digest(value)


# -- Anything

atoms = st.one_of(
    st.none(), st.booleans(), st.just(...), st.integers(), st.floats(), st.complex_numbers(),
    st.text(st.characters(codec=None, categories=None)), st.binary(),
)  # fmt: skip
constants = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple), st.frozensets(inner, max_size=4)
    ),
    max_leaves=8,
)
names = st.lists(st.text("abc_", min_size=1, max_size=3), max_size=4).map(tuple)


@given(names, names)
def test_names_are_equal_where_their_digests_are(one: Any, other: Any) -> None:
    digests = [code_digest(WORK.replace(co_names=value)) for value in (one, other)]
    assert (digests[0] == digests[1]) == (one == other)


@given(st.lists(constants, max_size=3), st.lists(constants, max_size=3))
def test_constants_are_equal_where_their_digests_are(one: Any, other: Any) -> None:
    digests = [code_digest(with_consts(*value)) for value in (one, other)]
    assert (digests[0] == digests[1]) == (spelled(tuple(one)) == spelled(tuple(other)))


def spelled(value: Any) -> str:
    """Like ``repr``, but with sets in order and floats by their bits."""
    if isinstance(value, (tuple, frozenset)):
        items = [*map(spelled, value)]
        return f"{type(value).__name__}({items if type(value) is tuple else sorted(items)})"
    if isinstance(value, complex):
        return f"complex({spelled(value.real)}, {spelled(value.imag)})"
    if isinstance(value, float):
        return value.hex() if value == value else f"nan {struct.pack('<d', value)!r}"
    return repr(value)


@given(st.text(max_size=9), st.integers(1, 10**6), st.integers(0, 9))
def test_file_and_line_never_count(filename: str, line: int, deeper: int) -> None:
    moved = WORK.replace(
        co_filename=filename, co_firstlineno=line, co_stacksize=WORK.co_stacksize + deeper
    )
    assert code_digest(moved) == code_digest(WORK)
