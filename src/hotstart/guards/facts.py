"""What each guard says, in a form that can be compared between processes.

torch rebuilds a guard from the object that its source leads to *in the loading process*. Where that
is found by name (a module, a class, a function, and everything behind them), a constant that has
changed since would make a guard that accepts what was compiled for the old one. So a package keeps
a checksum of what each guard said when it was saved, and a load compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from hotstart._core import dumps, xxh64
from hotstart._torch import guard_state
from hotstart.identity import fingerprint, lineage

# Addresses in the text of a guard. Everything else in it has to be the same.
_ADDRESS = re.compile(
    r"(?<=___check_obj_id\()(.*?), \d+|(?<=___check_type_id\()(.*?), \d+|0x[0-9a-f]+"
)


def facts_of(guards: Iterable[Any], value_of: Callable[[Any], Any]) -> dict[str, int]:
    """The checksum of what the guards of each kind on each source say, by "kind source".

    ``guards`` have just been built, which is when they get their text; ``value_of`` gives the
    object that a guard's source leads to.
    """
    facts: dict[str, int] = {}
    for guard in guards:
        name = f"{guard.create_fn_name()} {guard.name}"
        said = xxh64(dumps((without_addresses(guard.code_list), _about_value(guard, value_of))))
        # Several guards of one kind on one source, in any order.
        facts[name] = (facts.get(name, 0) + said) % 2**64
    return facts


def without_addresses(code_list: Iterable[str] | None) -> str:
    """What a guard checks, as source, without addresses."""
    return _ADDRESS.sub(r"\1\2", "\n".join(code_list or ()))


def _about_value(guard: Any, value_of: Callable[[Any], Any]) -> str:
    """What the text leaves open of the guarded object."""
    kinds = {guard.create_fn_name(), *(guard.guard_types or ())}
    if kinds & guard_state.IDENTITY_GUARDS:
        return fingerprint(value_of(guard))
    if kinds & guard_state.TENSOR_GUARDS:
        return repr(guard_state.about_tensor(value_of(guard)))
    if kinds & guard_state.TYPE_GUARDS:
        return repr(lineage(type(value_of(guard))))
    if kinds & guard_state.VALUE_GUARDS:
        return fingerprint(value_of(guard))
    return ""
