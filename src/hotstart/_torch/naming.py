"""Names that Dynamo puts into a module's globals. Checked on torch 2.13.0, 2.14.1 and 2.15.0."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator

from torch._dynamo import convert_frame
from torch._dynamo.utils import CleanupHook, CleanupManager

# What Dynamo puts into globals under names that begin so, a package keeps by itself: compiled
# graphs, resume functions, imported modules, the builtins.
_KEPT_BY_PACKAGES = ("__compiled_fn", "__resume_at", "__import_", "__builtins_dict__")


def is_kept_by_packages(name: str) -> bool:
    return name.startswith(_KEPT_BY_PACKAGES)


def names_used(code: types.CodeType) -> Iterator[str]:
    """The globals and attributes that ``code`` and the functions inside it name."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from names_used(const)


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
