"""Paths lead to the objects that guards are about, from what another process can find."""

from __future__ import annotations

from typing import Any

import pytest

from hotstart.guards.paths import describe, follow, path_from_class, step_of


class Decorated:
    """A method with an object in its closure, as decorators leave it."""

    def __init__(self) -> None:
        self.shift = 3


def _decorate(held: object) -> Any:
    def method(self: object) -> object:
        return held

    return method


HELD = object()
Decorated.method = _decorate(HELD)  # type: ignore[attr-defined]


def test_from_a_class_into_the_closure_of_its_method() -> None:
    start = path_from_class(Decorated)
    assert start is not None
    steps = [
        step_of("type_dict_manager", None),
        step_of("dict_getitem_manager", "method"),
        ("attribute", "__closure__"),
        step_of("getitem_manager", 0),
        ("attribute", "cell_contents"),
    ]
    assert None not in steps
    path = (*start, *steps)
    assert follow(path, {}) is HELD  # type: ignore[arg-type]
    assert describe(path).startswith(f"{__name__}.Decorated.__dict__.method.")  # type: ignore[arg-type]


def test_a_class_that_a_function_made_is_no_start() -> None:
    class Local:
        pass

    assert path_from_class(Local) is None


def test_a_class_that_is_no_longer_there_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    start = path_from_class(Decorated)
    assert start is not None
    monkeypatch.delitem(globals(), "Decorated")
    assert follow((*start, ("attribute", "__dict__")), {}) is None


def test_from_globals() -> None:
    path = (("item", "table"), ("item", 1), ("type",))
    assert follow(path, {"table": [0, HELD]}) is object
    assert follow(path, {}) is None
    assert describe(path) == "G['table'].1.type"
