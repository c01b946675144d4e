"""torch's own values in guards, as data. Checked on torch 2.13.0, 2.14.1 and 2.15.0."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._C._dynamo.guards import GlobalStateGuard

from hotstart._core import dumps, xxh64
from hotstart.identity import fingerprint

# Modules in which objects are found whose own `__module__` does not say where they are.
HOMES = ("torch", "torch.nn.functional", "torch._C", "torch._C._nn", "builtins", "operator", "math")

# To data and back, by class.
_FORMS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    torch.dtype: ("dtype", lambda v: str(v).removeprefix("torch."), lambda d: getattr(torch, d)),
    torch.device: ("device", str, torch.device),
    torch.layout: ("layout", lambda v: str(v).removeprefix("torch."), lambda d: getattr(torch, d)),
    torch.memory_format: (
        "memory_format",
        lambda v: str(v).removeprefix("torch."),
        lambda d: getattr(torch, d),
    ),
    torch.Size: ("size", lambda v: tuple(int(n) for n in v), torch.Size),
    torch._C.DispatchKeySet: (
        "dispatch_keys",
        lambda v: v.raw_repr(),
        torch._C.DispatchKeySet.from_raw_repr,
    ),
    GlobalStateGuard: ("global_state", lambda v: v.__getstate__(), lambda d: _global_state(d)),
}
_BACK = {name: back for name, _, back in _FORMS.values()}

# Of these a process has one for each value.
_SINGLETONS = (torch.dtype, torch.layout, torch.memory_format)


def has_portable_form(value: Any) -> bool:
    return type(value) in _FORMS


def is_singleton(value: Any) -> bool:
    return isinstance(value, _SINGLETONS)


def to_data(value: Any) -> tuple[str, Any]:
    name, to, _ = _FORMS[type(value)]
    return name, to(value)


def from_data(data: tuple[str, Any]) -> Any:
    name, content = data
    return _BACK[name](content)


def _global_state(state: str) -> Any:
    guard: Any = GlobalStateGuard()
    fields = json.loads(state)
    fields.setdefault("num_threads", torch.get_num_threads())
    guard.__setstate__(json.dumps(fields))
    return guard


def is_global_state(value: Any) -> bool:
    return isinstance(value, GlobalStateGuard)


def state_of_any_threads(value: Any) -> tuple[str, Any]:
    """`to_data` of a `GlobalStateGuard`, which is then for the loading process's number of threads.

    What was compiled computes the same with any; and hosts differ in it.
    """
    fields = json.loads(value.__getstate__())
    del fields["num_threads"]
    return "global_state", json.dumps(fields)


def tensor_to_data(value: Any) -> tuple[str, str, bool]:
    """What a guard reads of its example: dtype, device and whether it requires a gradient."""
    return str(value.dtype).removeprefix("torch."), str(value.device), value.requires_grad


def tensor_from_data(data: tuple[str, str, bool]) -> torch.Tensor:
    dtype, device, requires_grad = data
    return torch.empty((), dtype=getattr(torch, dtype), device=device, requires_grad=requires_grad)


def name_of_dict(value: Any) -> tuple[str, str] | None:
    """Under which name a dict whose version torch guards on is found."""
    return (pytree.__name__, "SUPPORTED_NODES") if value is pytree.SUPPORTED_NODES else None


def dict_proof(value: dict[type, Any]) -> int:
    """A checksum of the classes that are registered, and of what takes them apart."""
    said = sorted(
        f"{cls.__module__} {cls.__qualname__} {fingerprint(node.flatten_fn)}"
        for cls, node in value.items()
    )
    return xxh64(dumps(tuple(said)))
