"""torch's guard state: made while Dynamo compiles, turned back into guards at load.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import pickle
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._device
import torch.utils._traceback
from torch._dynamo import guards as dynamo_guards
from torch._dynamo import package as torch_package
from torch._dynamo.output_graph import OutputGraphCommon, get_builtins_dict

CheckFunctionManager = dynamo_guards.CheckFunctionManager

# What torch pickles guard states with, as far as it keeps that in its package module: 2.15 does.
PICKLING = {
    name: getattr(torch_package, name)
    for name in ("FunctionPicklerBase", "_GuardsStateUnpickler", "_Missing", "_PRUNED_VALUE_PID")
    if hasattr(torch_package, name)
}

# 2.15 marks what it leaves out of a guard state in a way that pickle does not know.
_Unpickler = PICKLING.get("_GuardsStateUnpickler", pickle.Unpickler)

# Guards on an object's address. torch drops them from what it saves; here the object is found again
# by name at load and proven to be the same.
IDENTITY_GUARDS = frozenset(
    {
        "BUILTIN_MATCH",
        "CLASS_MATCH",
        "CLOSURE_MATCH",
        "FUNCTION_MATCH",
        "ID_MATCH",
        "MODULE_MATCH",
        "NN_MODULE",
    }
)

# Guards on an object's class, of which the text gives the name only.
TYPE_GUARDS = frozenset({"TYPE_MATCH", "FAKE_SCRIPT_TYPE_MATCH"})

# Guards on a value that leave no text.
VALUE_GUARDS = frozenset({"CONSTANT_SUBCLASS_MATCH", "DISPATCH_KEY_SET_MATCH"})

# Guards on tensors, which read attributes that torch's pickle of a tensor leaves out.
TENSOR_GUARDS = frozenset({"TENSOR_MATCH"})

# Guards whose meaning does not outlive the process that made them.
PROCESS_BOUND_GUARDS = frozenset({"DICT_VERSION", "WEAKREF_ALIVE"})


def unpickle(state: bytes) -> Any:
    """The guard state in ``state``. This runs what the pickle says, as loading a package does."""
    with _fsdp_modules_left_alone(), _no_guards_installed():
        return _Unpickler(io.BytesIO(state)).load()


def _no_guards_installed() -> contextlib.AbstractContextManager[Any]:
    """The source of an imported module adds a guard to the ongoing trace when it is made, and fails
    where there is none, as when it comes out of a pickle."""
    context = torch._guards.TracingContext(None)
    context.guards_context.skip_install = True
    return torch._guards.tracing(context)  # type: ignore[no-any-return]


def _fsdp_modules_left_alone() -> contextlib.AbstractContextManager[Any]:
    """FSDP gives its module classes a `__new__` that must not run while unpickling.

    Importing FSDP takes a quarter of a second, and only a process that uses it has such classes.
    """
    fully_shard = sys.modules.get("torch.distributed.fsdp._fully_shard._fully_shard")
    if fully_shard is None:
        return contextlib.nullcontext()
    return fully_shard.disable_fsdp_module_new_init()  # type: ignore[no-any-return]


def build(state: Any, code: types.CodeType, global_scope: dict[str, Any]) -> Any:
    """The guard manager that checks frames of ``code`` for what ``state`` says."""
    for guard in state.output_graph.guards:
        # Building appends to these.
        guard.code_list = guard.guard_types = None
    # From 2.15 on, the dispatch keys that were included and excluded when the guards were saved.
    local_state = getattr(state, "local_state", None)
    keys = {} if local_state is None else {"guard_build_local_state": local_state}
    with all_guards_kept(), hooks_guarded(), _quiet(), _file_names_remembered():
        manager = CheckFunctionManager(
            code,
            OutputGraphCommon(state.output_graph),
            shape_code_parts=state.shape_code_parts,
            runtime_global_scope=global_scope,
            **keys,
        )
    return manager.guard_manager


@contextlib.contextmanager
def all_guards_kept() -> Iterator[None]:
    """While open, this thread builds guards without the flags that drop some of them.

    Under `caching_precompile` torch drops the guards on identities, and builds everything twice to
    do so.
    """
    # config.patch() would leave a value of this thread's own behind, where there was none.
    switch_back = torch._dynamo.config._make_closure_patcher(caching_precompile=False)()
    try:
        yield
    finally:
        switch_back()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch prints a page when a guard cannot be built. What comes of it is ours to say."""
    log = logging.getLogger("torch._guards")
    thread = threading.get_ident()

    def is_another_thread(_: logging.LogRecord) -> bool:
        return threading.get_ident() != thread

    log.addFilter(is_another_thread)
    try:
        yield
    finally:
        log.removeFilter(is_another_thread)


@contextlib.contextmanager
def _file_names_remembered() -> Iterator[None]:
    """Every guard's message names the user's line, and torch shortens its file name anew for each:
    half of the time that a build takes."""
    shorten = torch.utils._traceback.shorten_filename
    torch.utils._traceback.shorten_filename = functools.cache(shorten)
    try:
        yield
    finally:
        torch.utils._traceback.shorten_filename = shorten


def keep_hooks(builder: Any, guards: list[Any]) -> None:
    """Has torch's serialiser keep the hook dictionaries of modules, which it takes as unguarded."""
    for guard in guards:
        if guard.create_fn_name() == "EMPTY_NN_MODULE_HOOKS_DICT":
            hooks = builder.get(guard)
            builder.guard_tree_values[id(hooks)] = hooks


@contextlib.contextmanager
def hooks_guarded() -> Iterator[None]:
    """While open, this thread builds the guards that a module has no hooks.

    torch leaves them out, trusting that nobody adds a hook after the compile. For a loaded package
    that was in another process.
    """
    switch_back = torch._dynamo.config._make_closure_patcher(skip_nnmodule_hook_guards=False)()
    try:
        yield
    finally:
        switch_back()


def about_tensor(value: Any) -> tuple[str, ...]:
    """What a guard checks of a tensor besides sizes and strides, which are saved as numbers."""
    keys = getattr(value, "dispatch_keys", None) or torch._C._dispatch_keys(value)
    kind = getattr(value, "pytype", None) or type(value)
    facts = (kind, value.dtype, value.requires_grad, value.dim(), keys.raw_repr())
    return tuple(str(fact) for fact in facts)


def guards_of(state: Any) -> list[Any]:
    """The guards in ``state``, in no order."""
    return list(state.output_graph.guards)


def value_reader(state: Any) -> Callable[[Any], Any]:
    """A function from a guard of ``state`` to the object that the guard's source leads to."""
    scope = {"L": state.output_graph.local_scope, "G": state.output_graph.global_scope}
    helpers = dynamo_guards._get_closure_vars()
    seen: dict[Any, Any] = {}
    return lambda guard: guard.originating_source.get_value(scope, helpers, seen)


def builtins_name(state: Any) -> str | None:
    """Under which name the frame's globals must hold the builtins, if the guards look there."""
    name: str | None = state.output_graph.name_of_builtins_dict_key_in_fglobals
    return name or None


def use_live_builtins(state: Any, global_scope: dict[str, Any]) -> None:
    """torch saves only some of the builtins that guards look at; this process has them all."""
    name = builtins_name(state)
    if name:
        state.output_graph.global_scope[name] = builtins_of(global_scope)


def builtins_of(global_scope: dict[str, Any]) -> Any:
    return get_builtins_dict(global_scope)


@contextlib.contextmanager
def identity_guards_allowed() -> Iterator[None]:
    """torch's serialiser refuses guards on addresses; the caller answers for them instead."""
    before = CheckFunctionManager.UNSUPPORTED_SERIALIZATION_GUARD_TYPES
    CheckFunctionManager.UNSUPPORTED_SERIALIZATION_GUARD_TYPES = ()
    try:
        yield
    finally:
        CheckFunctionManager.UNSUPPORTED_SERIALIZATION_GUARD_TYPES = before


def failing_guard(manager: Any, local_scope: dict[str, Any]) -> str:
    """The text of the guard of ``manager`` that refuses ``local_scope``."""
    result = manager.check_verbose(local_scope)
    return "; ".join(str(part) for part in result.verbose_code_parts) or "an unnamed guard"


def ambient() -> dict[str, Any]:
    """The state of this thread that torch's guard builder silently reads, as plain data.

    Tensor guards hold dispatch keys as the thread's include and exclude sets leave them, and
    whether gradients are required as the grad mode leaves it; default-device guards hold the
    device that is current when they are built.
    """
    device = torch.utils._device.CURRENT_DEVICE
    return {
        "include": torch._C._dispatch_tls_local_include_set().raw_repr(),
        "exclude": torch._C._dispatch_tls_local_exclude_set().raw_repr(),
        "grad": torch.is_grad_enabled(),
        "device": None if device is None else str(device),
        "hooks": has_global_hooks(),
    }


def names_traced(output_graph: Any, code: types.CodeType) -> set[str]:
    """The names that ``code`` and the functions inlined into it use."""
    names: set[str] = set()
    for traced in (code, *output_graph.traced_code):
        names.update(traced.co_names)
    return names


def has_global_hooks() -> bool:
    """Whether there are hooks that run for every module."""
    return bool(torch.nn.modules.module._has_any_global_hook())


@contextlib.contextmanager
def ambient_restored(saved: dict[str, Any]) -> Iterator[None]:
    """While open, this thread is in the state that `ambient` returned as ``saved``."""
    keys = torch._C.DispatchKeySet.from_raw_repr
    device_before = torch.utils._device.CURRENT_DEVICE
    saved_device = saved["device"]
    torch.utils._device.CURRENT_DEVICE = (
        None if saved_device is None else torch.device(saved_device)
    )
    try:
        with (
            torch.set_grad_enabled(saved["grad"]),
            torch._C._ForceDispatchKeyGuard(keys(saved["include"]), keys(saved["exclude"])),
        ):
            yield
    finally:
        torch.utils._device.CURRENT_DEVICE = device_before


def add_globals_guard(
    manager: Any, scope: dict[str, Any], check: Callable[[object], bool], text: str
) -> None:
    """Adds ``check`` to the guards. It is called with the frame's globals, which costs nothing,
    where a guard on the frame itself would have its locals copied into a dict first."""
    globals_manager = manager.root.globals_dict_manager(
        f_globals=scope,
        source="G",
        example_value=scope,
        guard_manager_enum=dynamo_guards.GuardManagerType.GUARD_MANAGER,
    )
    globals_manager.add_lambda_guard(check, [text], None)
