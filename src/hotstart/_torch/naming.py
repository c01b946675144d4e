"""Names that Dynamo puts into a module's globals. Checked on torch 2.13.0 and 2.14.1."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable

from torch._dynamo import convert_frame
from torch._dynamo.utils import CleanupHook, CleanupManager

# `<prefix>_<id(value)>_c<compile id>`: a global that Dynamo keyed by an address of this process.
_BY_ADDRESS = re.compile(r"_\d{6,}_c\d+(_\d+)*$")


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


def dynamo_has_compiled() -> bool:
    """Whether code that Dynamo made in this process may be alive and use names it found there."""
    return bool(convert_frame.output_codes.seen)
