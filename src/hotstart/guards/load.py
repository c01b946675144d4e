"""From saved bytes to a guard manager in this process."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from torch._dynamo.exc import PackageError

from hotstart._torch import guard_state
from hotstart.guards.envelope import Envelope, Refusal
from hotstart.guards.facts import facts_of, without_addresses
from hotstart.guards.plan import Plan, is_plan
from hotstart.guards.replayed import ReplayedGuards
from hotstart.guards.resolve import resolve_values
from hotstart.identity import code_fingerprint


def load_guards_state(guards_state: bytes) -> Any:
    """The guards in ``guards_state``, a plan, an envelope or torch's own, ready for
    `load_guard_manager`.

    Raises PackageError for bytes that say why the guards were not saved.
    """
    if is_plan(guards_state):
        return Plan(guards_state)
    if (refusal := Refusal.from_bytes(guards_state)) is not None:
        raise PackageError(refusal.reason)
    envelope = Envelope.from_bytes(guards_state)
    if envelope is None:
        return guard_state.unpickle(guards_state)
    state = guard_state.unpickle(envelope.torch_state)
    state.hotstart_envelope = envelope
    return state


def kinds_of(guards_state: bytes) -> dict[str, int]:
    """How many guards of each kind ``guards_state`` holds or refuses; nothing of torch's own."""
    if is_plan(guards_state):
        return Plan(guards_state).header.kinds
    guards = Refusal.from_bytes(guards_state) or Envelope.from_bytes(guards_state)
    return guards.kinds if guards is not None else {}


def globals_of(guards_state: bytes) -> set[str]:
    """Names of the frame's globals that loading ``guards_state`` brings back."""
    return set(Plan(guards_state).header.globals) if is_plan(guards_state) else set()


def load_guard_manager(
    guards_state: Any, target_code: types.CodeType, runtime_global_scope: Any
) -> Any:
    """Builds the guards for frames of ``target_code`` whose globals are ``runtime_global_scope``.

    Raises PackageError where a guard no longer says what it said when it was saved, because
    something that it refers to by name has changed.
    """
    if isinstance(guards_state, Plan):
        return _replay(guards_state, target_code, runtime_global_scope)
    envelope: Envelope | None = getattr(guards_state, "hotstart_envelope", None)
    if envelope is None:
        return guard_state.build(guards_state, target_code, runtime_global_scope)
    _check_hooks(envelope.ambient)
    guards = guard_state.guards_of(guards_state)
    saved_code = {guard.name: guard.code_list for guard in guards}
    manager, facts = build_as_saved(envelope, guards_state, target_code, runtime_global_scope)
    for name, said in envelope.facts.items():
        if facts.get(name) != said:
            source = name.partition(" ")[2]
            text = without_addresses(saved_code.get(source)).replace("\n", " and ")
            raise PackageError(f"{source} is no longer what it was when compiled: {text or name}")
    return manager


def globals_needed(manager: Any) -> dict[str, Any]:
    """What a guard manager and its variant expect among the frame's globals, by name."""
    return manager.globals() if isinstance(manager, ReplayedGuards) else {}


def explained(served: Iterable[tuple[Any, types.CodeType]]) -> list[tuple[Any, types.CodeType]]:
    """The same variants, with guard managers that torch can ask for their texts."""
    return [
        (manager.explained() if isinstance(manager, ReplayedGuards) else manager, code)
        for manager, code in served
    ]


def add_guard(manager: Any, add: Callable[[Any], None]) -> None:
    """Has ``add(manager)`` add a guard that no bytes hold; also to what explains its failures."""
    if isinstance(manager, ReplayedGuards):
        manager.add_guard(add)
    else:
        add(manager)


def _replay(plan: Plan, code: types.CodeType, scope: dict[str, Any]) -> ReplayedGuards:
    _check_hooks(plan.header.ambient)
    if code_fingerprint(code) != plan.header.frame:
        raise PackageError("the guards are those of another code object")
    values = resolve_values(plan.plain, plan.special, scope)
    return ReplayedGuards(plan, values, scope, code)


def _check_hooks(saved: dict[str, Any]) -> None:
    if guard_state.has_global_hooks() != saved["hooks"]:
        raise PackageError("hooks of all modules were added or removed since it was compiled")


def build_as_saved(
    envelope: Envelope, state: Any, target_code: types.CodeType, global_scope: Any
) -> tuple[Any, dict[str, int]]:
    """The guard manager, built in the thread state it was built in when saved, and what its guards
    say now."""
    guard_state.use_live_builtins(state, global_scope)
    guards, value_of = guard_state.guards_of(state), guard_state.value_reader(state)
    for guard in guards:
        for name, value in envelope.tensor_attributes.get(guard.name, {}).items():
            setattr(value_of(guard), name, value)
    with guard_state.ambient_restored(envelope.ambient):
        manager = guard_state.build(state, target_code, global_scope)
    return manager, facts_of(guards, value_of)


def install_builtins(state: Any, global_scope: dict[str, Any]) -> str | None:
    """Puts the builtins where the guards look for them in the frame's globals.

    Returns the name if it was not there before.
    """
    name = state.header.builtins if isinstance(state, Plan) else guard_state.builtins_name(state)
    if not name:
        return None
    builtins = guard_state.builtins_of(global_scope)
    if name not in global_scope:
        global_scope[name] = builtins
        return name
    if global_scope[name] is not builtins:
        raise AssertionError(f"Builtins dict mismatch for key '{name}'")
    return None
