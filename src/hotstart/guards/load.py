"""From saved bytes to a guard manager in this process."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from torch._dynamo.exc import PackageError

from hotstart._torch import guard_state
from hotstart.guards.envelope import Envelope, Refusal
from hotstart.identity import fingerprint
from hotstart.log import one_line


def load_guards_state(guards_state: bytes) -> Any:
    """The guards in ``guards_state``, torch's own or hotstart's, ready for `load_guard_manager`.

    Raises PackageError for bytes that say why the guards were not saved.
    """
    if (refusal := Refusal.from_bytes(guards_state)) is not None:
        raise PackageError(refusal.reason)
    envelope = Envelope.from_bytes(guards_state)
    if envelope is None:
        return guard_state.unpickle(guards_state)
    state = guard_state.unpickle(envelope.torch_state)
    state.hotstart_envelope = envelope
    return state


def load_guard_manager(
    guards_state: Any, target_code: types.CodeType, runtime_global_scope: Any
) -> Any:
    """Builds the guards for frames of ``target_code`` whose globals are ``runtime_global_scope``.

    Raises PackageError where an object that a guard names is not what it was when saved.
    """
    envelope: Envelope | None = getattr(guards_state, "hotstart_envelope", None)
    if envelope is None:
        return guard_state.build(guards_state, target_code, runtime_global_scope)
    guard_state.use_live_builtins(guards_state, runtime_global_scope)
    _restore(guards_state, envelope)
    with guard_state.ambient_restored(envelope.ambient):
        return guard_state.build(guards_state, target_code, runtime_global_scope)


def _restore(state: Any, envelope: Envelope) -> None:
    """Raises PackageError where a guarded object is missing or has another fingerprint; puts back
    what torch's pickle leaves out of tensors."""
    value_of = guard_state.value_reader(state)
    for guard in guard_state.guards_of(state):
        expected = envelope.identities.get(guard.name)
        if expected is not None:
            _check_identity(guard, value_of, expected)
        for name, value in envelope.tensor_attributes.get(guard.name, {}).items():
            setattr(value_of(guard), name, value)


def _check_identity(guard: Any, value_of: Callable[[Any], Any], expected: str) -> None:
    try:
        found = fingerprint(value_of(guard))
    except Exception as e:
        raise PackageError(f"{guard.name} cannot be found: {one_line(e)}") from e
    if found != expected:
        raise PackageError(f"{guard.name} is no longer what it was when compiled")


def install_builtins(state: Any, global_scope: dict[str, Any]) -> str | None:
    """Puts the builtins where the guards look for them in the frame's globals.

    Returns the name if it was not there before.
    """
    name = guard_state.builtins_name(state)
    if not name:
        return None
    builtins = guard_state.builtins_of(global_scope)
    if name not in global_scope:
        global_scope[name] = builtins
        return name
    if global_scope[name] is not builtins:
        raise AssertionError(f"Builtins dict mismatch for key '{name}'")
    return None
