"""torch's guard trees: which calls build one, watching them, and a quick way to make them again.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C._dynamo import guards as native
from torch._dynamo import config as dynamo_config
from torch._dynamo import guards as dynamo_guards

from hotstart._torch.tape import Call, Tape

# What each call takes: a value (v), a node (n), a list of nodes (N), messages (m), a stack (u).
LEAVES = {
    "add_complex_is_nan_guard": "mu",
    "add_default_device_guard": "mu",
    "add_dict_contains_guard": "vvmu",
    "add_dict_length_check_guard": "vmu",
    "add_dict_version_guard": "vmu",
    "add_dimension_marking_guard": "vvvmu",
    "add_dispatch_key_set_guard": "vmu",
    "add_dual_level_match_guard": "vmu",
    "add_epilogue_lambda_guard": "vmu",
    "add_equals_match_guard": "vmu",
    "add_fake_script_type_match_guard": "vvmu",
    "add_false_match_guard": "mu",
    "add_float_is_nan_guard": "mu",
    "add_global_state_guard": "vmu",
    "add_id_match_guard": "vmu",
    "add_lambda_guard": "vmu",
    "add_length_check_guard": "vmu",
    "add_mapping_keys_guard": "vmu",
    "add_no_hasattr_guard": "vmu",
    "add_none_match_guard": "mu",
    "add_not_none_guard": "mu",
    "add_range_iterator_match_guard": "vvvvmu",
    "add_set_contains_guard": "vvmu",
    "add_tensor_match_guard": "vvvvmuvv",
    "add_torch_function_mode_stack_guard": "vmu",
    "add_true_match_guard": "mu",
    "add_tuple_iterator_length_guard": "vvmu",
    "add_type_match_guard": "vmu",
}
if "arg2" in (native.GuardManager.add_float_is_nan_guard.__doc__ or ""):  # 2.15
    LEAVES |= {
        "add_complex_is_nan_guard": "vmu",
        "add_float_is_nan_guard": "vmu",
        "add_tensor_match_guard": "vvvvmuvvv",
    }
FUNCTIONS = {
    "install_no_tensor_aliasing_guard": "Nvmu",
    "install_object_aliasing_guard": "nnmu",
    "install_storage_overlapping_guard": "NNmu",
}

_CLASSES = (native.RootGuardManager, native.GuardManager, native.DictGuardManager)
MANAGER = dynamo_guards.GuardManagerType.GUARD_MANAGER
DICT_MANAGER = dynamo_guards.GuardManagerType.DICT_GUARD_MANAGER

# Calls that make or change no guard.
_READERS = frozenset({"clone_manager"})


@contextlib.contextmanager
def watching(tape: Tape) -> Iterator[None]:
    """While open, what this thread calls to build guard trees goes into ``tape``."""
    undo: list[tuple[Any, str, Any]] = []
    thread = threading.get_ident()

    def replace(
        owner: Any, name: str, wrap: Callable[..., Any], called: Callable[..., Any]
    ) -> None:
        undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, wrap(tape, thread, name, called))

    try:
        for cls in _CLASSES:
            for name in list(vars(cls)):
                if wrap := _wrapper_for(name):
                    replace(cls, name, wrap, getattr(cls, name))
        for name in list(vars(dynamo_guards)):
            if name.startswith("install_") and hasattr(native, name):
                replace(dynamo_guards, name, _watch_function, getattr(native, name))
        manager = dynamo_guards.CheckFunctionManager
        replace(manager, "id_ref", _watch_id, manager.id_ref)
        yield
    finally:
        for owner, name, before in reversed(undo):
            setattr(owner, name, before)


def _wrapper_for(name: str) -> Callable[..., Any] | None:
    if name.endswith("_manager") and name not in _READERS:
        return _watch_accessor
    if name.startswith("add_"):
        return _watch_leaf
    if name.startswith("mark_"):
        return _watch_mark
    return _watch_flag if name == "set_compile_on_one_rank" else None


def _watch_accessor(tape: Tape, thread: int, name: str, called: Any) -> Any:
    @functools.wraps(called)
    def accessor(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = called(self, *args, **kwargs)
        if threading.get_ident() == thread:
            tape.calls.append(Call(name, self, args, kwargs, made))
        return made

    return accessor


def _watch_leaf(tape: Tape, thread: int, name: str, called: Any) -> Any:
    count = _epilogues if name == "add_epilogue_lambda_guard" else _leaves

    @functools.wraps(called)
    def leaf(self: Any, *args: Any) -> None:
        before = count(self)
        called(self, *args)
        # C++ leaves out a guard that is there already, and some that a class has no use for.
        if count(self) != before and threading.get_ident() == thread:
            tape.calls.append(Call(name, self, args))

    return leaf


def _leaves(manager: Any) -> int:
    return len(manager.get_leaf_guards())


def _epilogues(root: Any) -> int:
    return len(root.get_epilogue_lambda_guards())


def _watch_mark(tape: Tape, thread: int, name: str, called: Any) -> Any:
    @functools.wraps(called)
    def mark(self: Any) -> None:
        called(self)
        if threading.get_ident() == thread:
            tape.calls.append(Call(name, self, ()))

    return mark


def _watch_flag(tape: Tape, thread: int, name: str, called: Any) -> Any:
    @functools.wraps(called)
    def set_flag(self: Any, on: bool) -> None:
        called(self, on)
        if on and threading.get_ident() == thread:
            tape.calls.append(Call(name, self, (on,)))

    return set_flag


def _watch_function(tape: Tape, thread: int, name: str, called: Any) -> Any:
    @functools.wraps(called)
    def function(*args: Any) -> None:
        called(*args)
        if threading.get_ident() == thread:
            tape.calls.append(Call(name, None, args))

    return function


def _watch_id(tape: Tape, thread: int, name: str, called: Any) -> Any:
    @functools.wraps(called)
    def id_ref(self: Any, obj: object, obj_str: str) -> int:
        if threading.get_ident() == thread:
            tape.objects[id(obj)] = obj
        return called(self, obj, obj_str)  # type: ignore[no-any-return]

    return id_ref


def is_dict_manager(kind: Any) -> bool:
    return bool(kind == DICT_MANAGER)


def face() -> tuple[Any, ...]:
    """What `hotstart._core.replay_guards` calls."""
    return (
        native.RootGuardManager,
        native.GuardManager,
        native.DictGuardManager,
        native,
        MANAGER,
        DICT_MANAGER,
        _scalar(),
    )


@functools.cache
def _scalar() -> torch.Tensor:
    return torch.empty((), dtype=torch.float32, device="cpu")


class _QuickConfig(types.ModuleType):
    """Stands for `torch._dynamo.config`, of which C++ reads two flags for each node it makes, at
    the price of four microseconds. Whoever else looks sees the real one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(dynamo_config, name)


_READ_BY_NATIVE = (
    "skip_tensor_guards_with_matching_dict_tags",
    "max_saved_pointers_for_recursive_dict_tags_check",
)

# C++ imports three modules for each node: from here, it finds them where they are without Python's
# import system. `chain` takes any arguments and does nothing with them.
_quickly = eval(
    "lambda function, *arguments: function(*arguments)",
    {"__builtins__": {"__import__": __import__("itertools").chain}},
)


def building_quickly(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, a native function that makes guard managers, in half the time.

    The caller holds Dynamo's compile lock.
    """
    name = dynamo_config.__name__
    config = _QuickConfig(name)
    for flag in _READ_BY_NATIVE:
        if hasattr(dynamo_config, flag):
            setattr(config, flag, getattr(dynamo_config, flag))
    sys.modules[name] = config
    try:
        return _quickly(function, *arguments)
    finally:
        sys.modules[name] = dynamo_config


class _Explained(dynamo_guards.GuardManagerWrapper):
    """torch's guard manager around a tree with texts, printing classes as they were recorded."""

    def __init__(self, nodes: list[Any], types_of_nodes: tuple[str, ...], scope: Any) -> None:
        super().__init__(nodes[0])
        # Holds the nodes, so that each keeps its Python object.
        self._types = {id(node): text for node, text in zip(nodes, types_of_nodes, strict=True)}
        self._nodes = nodes
        self.global_scope = scope
        self.closure_vars = dynamo_guards._get_closure_vars()
        self.verbose_code_parts: list[str] | None = []
        self.populate_code_parts_for_debugging()

    def get_manager_line(self, guard_manager: Any, accessor_str: str | None = None) -> str:
        line: str = super().get_manager_line(guard_manager, accessor_str)
        stands_in = f", type={guard_manager.get_type_of_guarded_value()}, tag_safe="
        recorded = self._types.get(id(guard_manager))
        return (
            line if recorded is None else line.replace(stands_in, f", type={recorded}, tag_safe=")
        )


def explained(nodes: list[Any], types_of_nodes: tuple[str, ...], scope: Any) -> Any:
    """A guard manager of torch's own around the tree of ``nodes``, the root first."""
    return _Explained(nodes, types_of_nodes, scope)
