"""The guard manager of a loaded variant: a tree that only answers, and its twin that explains."""

from __future__ import annotations

import traceback
import types
from collections.abc import Callable
from typing import Any

from hotstart._core import replay_guards
from hotstart._torch import guard_tree
from hotstart._torch.guard_state import ambient_restored
from hotstart.guards.plan import Cold, Plan

_AddGuard = Callable[[Any], None]


class ReplayedGuards:
    """What `_load_precompile_entry` takes: ``root`` is checked by C++ at each call.

    The tree that is checked has no texts. The first time that somebody asks what failed, or for the
    tree, a twin is made of the same plan and the same values, with the texts that the compiling
    process would show. Attributes that torch reads from a guard manager of its own when it
    explains a failure are there, too.
    """

    def __init__(
        self, plan: Plan, values: tuple[Any, ...], scope: dict[str, Any], code: types.CodeType
    ) -> None:
        self._plan = plan
        self._values = values
        self._added: list[_AddGuard] = []
        self._twin: Any = None
        self.root = self._build(None)[0]
        # For torch's explanations, see guard_tree.Explained.
        self.code = code
        self.global_scope = {"G": scope}

    def globals(self) -> dict[str, Any]:
        """What the bytecode and the guards expect among the frame's globals, by name."""
        return {name: self._values[number] for name, number in self._plan.header.globals.items()}

    def add_guard(self, add: _AddGuard) -> None:
        """Has ``add(manager)`` add a guard of this process to the tree, which plans do not have."""
        self._added.append(add)
        add(self)

    def check(self, f_locals: dict[str, Any]) -> bool:
        return bool(self.root.check(f_locals))

    def check_verbose(self, f_locals: dict[str, Any]) -> Any:
        """torch's `GuardDebugInfo`: the result and the texts of the guard that failed."""
        return self.explained().check_verbose(f_locals)

    def __str__(self) -> str:
        return str(self.explained())

    def explained(self) -> Any:
        """The twin, as a guard manager of torch's own."""
        if self._twin is None:
            cold = self._plan.cold()
            nodes = self._build(_texts(cold))
            twin = guard_tree.explained(nodes, cold.types, self.global_scope)
            for add in self._added:
                add(twin)
            self._twin = twin
        return self._twin

    def _build(self, texts: tuple[Any, ...] | None) -> list[Any]:
        face = guard_tree.face()  # Its tensor is made once and must not have this plan's state.
        with ambient_restored(self._plan.header.ambient):
            return guard_tree.building_quickly(  # type: ignore[no-any-return]
                replay_guards, self._plan.data, self._values, texts, face
            )


def _texts(cold: Cold) -> tuple[Any, ...]:
    stacks = [
        traceback.StackSummary.from_list(
            [
                traceback.FrameSummary(file, line, name, line=text)
                for file, line, name, text in stack
            ]
        )
        for stack in cold.stacks
    ]
    return tuple(
        (list(messages), None if number < 0 else stacks[number]) for messages, number in cold.texts
    )
