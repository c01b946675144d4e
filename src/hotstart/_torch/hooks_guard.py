"""Guards that modules have no hooks, which torch leaves out of the trees it builds.

torch trusts that nobody adds a hook after the compile (`skip_nnmodule_hook_guards`). A package is
loaded into programs where somebody has. torch's own guards for it would be half of all nodes of a
tree, so there is one leaf for a module instead. Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo.guards import CheckFunctionManager, GuardBuilder, GuardManagerType

from hotstart._core import NoHooks, SeenDicts

_Wanted = dict[str, tuple[Any, list[str]]]


@contextlib.contextmanager
def hooks_guarded() -> Iterator[None]:
    """While open, the guard trees that are built hold that modules have no hooks."""
    guard_hooks = GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT
    finish = CheckFunctionManager.compile_check_fn

    @functools.wraps(guard_hooks)
    def note_hooks(self: Any, guard: Any) -> None:
        source = guard.originating_source
        module = self.get(getattr(source, "base", source))
        if not isinstance(module, torch.nn.Module):
            self.SEQUENCE_LENGTH(guard)
            return
        wanted: _Wanted = vars(self).setdefault("_hotstart_hooks", {})
        wanted.setdefault(source.base.name, (source.base, []))[1].append(source.member)

    @functools.wraps(finish)
    def compile_check_fn(self: Any, builder: Any, *args: Any) -> None:
        _add_guards(builder, vars(builder).get("_hotstart_hooks", {}))
        finish(self, builder, *args)

    GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT = note_hooks
    CheckFunctionManager.compile_check_fn = compile_check_fn
    try:
        yield
    finally:
        GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT = guard_hooks
        CheckFunctionManager.compile_check_fn = finish


def _add_guards(builder: Any, wanted: _Wanted) -> None:
    if not wanted:
        return
    seen = SeenDicts()
    checks: dict[tuple[str, ...], NoHooks] = {}
    for source, names in wanted.values():
        key = tuple(dict.fromkeys(names))
        check = checks.setdefault(key, NoHooks(key, seen))
        attributes = builder.get_guard_manager_from_source(source).get_generic_dict_manager(
            source=f"{source.name}.__dict__",
            example_value=vars(builder.get(source)),
            guard_manager_enum=GuardManagerType.GUARD_MANAGER,
        )
        attributes.add_lambda_guard(check, [f"not {source.name}.{name}" for name in key], None)
    text = "no hook was added to a module since it was first seen"
    builder.get_global_guard_manager().add_lambda_guard(seen, [text], None)
