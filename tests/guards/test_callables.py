"""The guards that C++ adds to torch's: objects known at first sight, and modules without hooks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from hotstart._core import FirstSight, NoHooks, SeenDicts


class Thing:
    def __init__(self, name: str) -> None:
        self.name = name


class TestFirstSight:
    @pytest.fixture
    def asked(self) -> list[str]:
        return []

    @pytest.fixture
    def verify(self, asked: list[str]) -> Callable[[Thing], bool]:
        def verify(thing: Thing) -> bool:
            asked.append(thing.name)
            return thing.name.startswith("good")

        return verify

    def test_the_first_that_is_good_is_the_one(self, verify: Any, asked: list[str]) -> None:
        guard = FirstSight(verify)
        bad, good, other = Thing("bad"), Thing("good"), Thing("good too")
        assert not guard(bad)
        assert guard(good)
        assert guard(good)
        assert not guard(other), "only one object is the one"
        assert asked == ["bad", "good"]

    def test_the_last_refused_is_not_asked_about_again(self, verify: Any, asked: list[str]) -> None:
        guard, bad = FirstSight(verify), Thing("bad")
        assert [guard(bad) for _ in range(3)] == [False] * 3
        assert asked == ["bad"]

    def test_it_keeps_nothing_alive(self, verify: Any) -> None:
        guard, good = FirstSight(verify), Thing("good")
        assert guard(good)
        gone = weakref.ref(good)
        del good
        gc.collect()
        assert gone() is None
        # Its address may be used again: what comes next is not taken for it.
        assert not any(guard(Thing("good")) for _ in range(100))

    def test_of_a_type(self) -> None:
        guard = FirstSight(lambda cls: cls is Thing, of_type=True)
        assert guard(Thing("a"))
        assert guard(Thing("b"))
        assert not guard(3)

    def test_it_never_raises(self) -> None:
        def verify(_: object) -> bool:
            raise KeyError

        assert not FirstSight(verify)(Thing("good"))

    def test_a_cycle_through_it_is_collected(self) -> None:
        class Holder:
            guard: Any

            def verify(self, _: object) -> bool:
                return True

        holder = Holder()
        holder.guard = FirstSight(holder.verify)
        gone = weakref.ref(holder)
        del holder
        gc.collect()
        assert gone() is None


class TestNoHooks:
    def test_dicts_that_are_empty(self) -> None:
        guard = NoHooks(("before", "after"), SeenDicts())
        assert guard({"before": {}, "after": {}, "other": {1: 1}})
        assert not guard({"before": {}, "after": {1: 1}})
        assert not guard({"before": {1: 1}, "after": {}})

    @pytest.mark.parametrize("attributes", [{}, {"before": None}, {"before": []}, None, 3])
    def test_what_is_no_dict_of_hooks(self, attributes: Any) -> None:
        assert not NoHooks(("before",), SeenDicts())(attributes)

    def test_a_hook_that_is_added_later(self) -> None:
        seen = SeenDicts()
        one: dict[int, int] = {}
        other: dict[int, int] = {}
        assert NoHooks(("a",), seen)({"a": one})
        assert NoHooks(("a",), seen)({"a": other})
        assert seen("anything")
        other[0] = 1
        assert not seen("anything")
        del other[0]
        assert seen("anything")

    def test_nothing_seen(self) -> None:
        assert SeenDicts()(None)
