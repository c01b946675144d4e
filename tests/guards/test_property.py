"""On any nested data, a replayed plan says what the guards say that it was recorded from."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from guards import _cases  # noqa: E402

import hotstart  # noqa: E402
from hotstart.dropin import compile_package  # noqa: E402
from hotstart.guards.load import load_guard_manager, load_guards_state  # noqa: E402
from hotstart.guards.plan import is_plan  # noqa: E402
from hotstart.package import InMemoryDynamoStore  # noqa: E402

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.0, 1.0, math.inf, math.nan, "", "a", "é", b"a"]),
    st.sampled_from([torch.float32, torch.int64]).map(lambda dtype: torch.ones(2, dtype=dtype)),
    st.sampled_from([*_cases.Colour, *_cases.Size]),
)
KEYS = st.one_of(st.sampled_from(["a", "b", "é"]), st.integers(0, 3))
DATA = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=6,
)


def reads(t: Any, data: Any) -> Any:
    """Everything in ``data``, and of which types it is."""
    if isinstance(data, dict):
        for key, value in data.items():
            t = reads(t + len(str(key)), value)
        return t
    if isinstance(data, (list, tuple)):
        for item in data:
            t = reads(t * 2, item)
        return t
    if isinstance(data, torch.Tensor):
        return t + data.sum()
    if isinstance(data, (str, bytes)):
        return t + len(data)
    if data is None or isinstance(data, _cases.Colour):
        return t - 1
    return t + data


def calls_reads(t: Any, data: Any) -> Any:
    return reads(t, data) + 1


@st.composite
def changed(draw: st.DrawFn, data: Any) -> Any:
    """``data`` with something else in one place, or one more or one fewer."""
    place = draw(st.integers(0, 3))
    if place == 0 or not isinstance(data, (dict, list, tuple)):
        return draw(DATA)
    keys = list(data) if isinstance(data, dict) else list(range(len(data)))
    items: Any = dict(data) if isinstance(data, dict) else list(data)
    if place == 1 and keys:
        key = draw(st.sampled_from(keys))
        items[key] = draw(changed(items[key]))
    elif place == 2 and keys:
        del items[draw(st.sampled_from(keys))]
    elif isinstance(items, dict):
        items[draw(KEYS)] = draw(LEAVES)
    else:
        items.insert(draw(st.integers(0, len(items))), draw(LEAVES))
    return tuple(items) if isinstance(data, tuple) else items


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    yield
    hotstart.disable()
    torch._dynamo.reset()


def compiled_for(data: Any) -> tuple[Any, bytes]:
    """The guards of a compile for ``data``, and their plan."""
    made: list[tuple[Any, bytes]] = []
    save = compile_package.save_guards

    def save_guards(*args: Any) -> bytes:
        plan = save(*args)
        made.append((args[3].guard_manager, plan))
        return plan

    hotstart.disable()
    torch._dynamo.reset()
    hotstart.enable(InMemoryDynamoStore())
    with mock.patch.object(compile_package, "save_guards", save_guards):
        torch.compile(calls_reads, backend=_cases.kept_eager, dynamic=False, fullgraph=True)(
            torch.ones(2), data
        )
    [(manager, plan)] = made
    return manager, plan


VERDICTS: set[bool] = set()


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_the_verdicts_are_the_same(drawn: Any) -> None:
    data = drawn.draw(DATA)
    manager, plan = compiled_for(data)
    assert is_plan(plan)
    replayed = load_guard_manager(load_guards_state(plan), calls_reads.__code__, globals())
    assert replayed.check({"t": torch.zeros(2), "data": copy.deepcopy(data)})
    for _ in range(12):
        other = drawn.draw(changed(data))
        frame = {"t": torch.zeros(2), "data": other}
        verdict = manager.check(frame)
        assert replayed.check(frame) == verdict, other
        VERDICTS.add(verdict)


def test_both_verdicts_were_met() -> None:
    assert {True, False} == VERDICTS
