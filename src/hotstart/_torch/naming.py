"""Names that Dynamo puts into a module's globals. Checked on torch 2.13.0.

Dynamo numbers such names (``__resume_at_14_2``, ``__builtins_dict___0``) with a counter that starts
at zero in every process, so names from two saving processes, or from a saved package and a compile
in the loading process, are the same string for different things. Names made while a package is
recorded therefore carry a token that no other process has.
"""

from __future__ import annotations

import contextlib
import re
import types
import uuid
from collections.abc import Iterable, Iterator

from torch._dynamo import bytecode_transformation
from torch._dynamo.utils import CleanupHook, CleanupManager

_TOKEN = uuid.uuid4().hex[:12]

# `<prefix>_<id(value)>_c<compile id>`: a global that Dynamo keyed by an address of this process.
_BY_ADDRESS = re.compile(r"_\d{6,}_c\d+(_\d+)*$")


class _OwnNumbers:
    """Stands in for Dynamo's counter and yields `hs<token>_<n>`."""

    def __init__(self) -> None:
        self._next = 0

    def __next__(self) -> str:
        self._next += 1
        return f"hs{_TOKEN}_{self._next}"


_numbers = _OwnNumbers()


@contextlib.contextmanager
def own_names() -> Iterator[None]:
    """While open, names that Dynamo makes are unique across processes.

    Dynamo compiles under one lock, so no other compile can see the counter that stands in.
    """
    before = bytecode_transformation._unique_id_counter
    bytecode_transformation._unique_id_counter = _numbers
    try:
        yield
    finally:
        bytecode_transformation._unique_id_counter = before


def names_by_address(code: types.CodeType) -> list[str]:
    """The globals used by ``code`` whose name holds an address, hence cannot be made again."""
    found = [name for name in code.co_names if _BY_ADDRESS.search(name)]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found += names_by_address(const)
    return found


def forget_cleanups(scope: dict[str, object], names: Iterable[str]) -> None:
    """Take back Dynamo's promise to delete ``names`` from ``scope``.

    A compile in this process may have made the same names and still wait for its code to die; its
    hook would then delete what a package has installed since.
    """
    wanted = set(names)
    for hooks in CleanupManager.instance.values.values():
        hooks[:] = [h for h in hooks if not _removes(h, scope, wanted)]


def _removes(hook: object, scope: dict[str, object], names: set[str]) -> bool:
    return isinstance(hook, CleanupHook) and hook.scope is scope and hook.name in names
