"""From the guards that Dynamo just built to bytes that mean the same in another process.

Whatever is saved has been loaded once, here, and has accepted the frame it was made for: what
cannot be found again by name, or loses its meaning in the pickle, shows now and not at a user's
start. A variant whose guards do not come through is not saved, and says why.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

from hotstart._torch import guard_state
from hotstart._torch.tape import Tape
from hotstart.errors import UnsupportedValueError
from hotstart.guards.envelope import Envelope, Refusal
from hotstart.guards.load import build_as_saved, load_guard_manager, load_guards_state
from hotstart.guards.plan import Header
from hotstart.guards.record import NoIdentityError, record
from hotstart.identity import code_fingerprint, is_plain
from hotstart.log import logger, one_line


def save_guards(
    put_globals: dict[str, Any],
    tape: Tape,
    serialize: Callable[..., bytes],
    builder: Any,
    sorted_guards: list[Any],
    output_graph: Any,
) -> bytes:
    """A guard plan, as bytes; where the tree cannot be recorded an `Envelope` with torch's own
    guard state; a `Refusal` where neither comes through. Never raises.

    ``put_globals`` is what Dynamo put into the frame's globals, as far as records do not list it;
    ``tape`` is what was called while the tree was built; ``serialize(builder, guards,
    output_graph)`` is torch's own serialiser.
    """
    kinds = dict(Counter(guard.create_fn_name() for guard in sorted_guards))
    try:
        return _plan(put_globals, tape, builder, output_graph, kinds)
    except NoIdentityError as e:
        return Refusal(str(e), kinds).to_bytes()
    except Exception as e:
        logger.debug("no guard plan: %s", one_line(e), exc_info=True)
        why_no_plan = one_line(e)
    try:
        reason = _process_bound(sorted_guards)
        if reason is not None:
            return Refusal(reason, kinds).to_bytes()
        guard_state.keep_hooks(builder, sorted_guards)
        with guard_state.identity_guards_allowed():
            torch_state = serialize(builder, sorted_guards, output_graph)
        attributes = _tensor_attributes(builder, sorted_guards)
        draft = Envelope(torch_state, {}, attributes, guard_state.ambient(), kinds)
        manager, facts = _trial(draft, builder)
        if not manager.check(output_graph.local_scope):
            failing = guard_state.failing_guard(manager, output_graph.local_scope)
            return Refusal(f"no portable form of the guard {failing}", kinds).to_bytes()
        return dataclasses.replace(draft, facts=facts).to_bytes()
    except Exception as e:
        logger.debug("guards cannot be saved", exc_info=True)
        reason = f"guards cannot be saved: {why_no_plan}; {one_line(e)}"
        return Refusal(reason, kinds).to_bytes()


def _plan(
    put_globals: dict[str, Any],
    tape: Tape,
    builder: Any,
    output_graph: Any,
    kinds: dict[str, int],
) -> bytes:
    """The plan of the guards, which has been replayed and has accepted the frame."""
    scope = builder.runtime_global_scope
    header = Header(
        ambient=guard_state.ambient(),
        frame=code_fingerprint(builder.f_code),
        builtins=output_graph.name_of_builtins_dict_key_in_fglobals,
        globals={},
        kinds=kinds,
    )
    # torch folds torch.get_num_threads() into the graph, and its guard is the number itself.
    any_threads = "get_num_threads" not in guard_state.names_traced(output_graph, builder.f_code)
    data = record(tape, builder.guard_manager.root, scope, header, put_globals, any_threads)
    manager = load_guard_manager(load_guards_state(data), builder.f_code, scope)
    if not manager.check(output_graph.local_scope):
        failing = guard_state.failing_guard(manager, output_graph.local_scope)
        raise UnsupportedValueError(f"no portable form of the guard {failing}")
    return data


def _process_bound(guards: list[Any]) -> str | None:
    for guard in guards:
        kinds = {guard.create_fn_name(), *(guard.guard_types or ())}
        if bound := kinds & guard_state.PROCESS_BOUND_GUARDS:
            return f"{min(bound)} guard on {guard.name} holds for one process only"
    return None


def _tensor_attributes(builder: Any, guards: list[Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for guard in guards:
        if guard.create_fn_name() in guard_state.TENSOR_GUARDS:
            value = builder.get(guard)
            attributes = {k: v for k, v in vars(value).items() if is_plain(v)}
            if attributes:
                found[guard.name] = attributes
    return found


def _trial(draft: Envelope, builder: Any) -> tuple[Any, dict[str, int]]:
    """The guards as another process would build them, and what they say."""
    state = load_guards_state(draft.to_bytes())
    return build_as_saved(draft, state, builder.f_code, builder.runtime_global_scope)
