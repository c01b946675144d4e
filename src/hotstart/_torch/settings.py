"""What of torch's settings decides what a compile makes. Checked on torch 2.13.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch._dynamo.eval_frame import innermost_backend


def cpu_capabilities() -> dict[str, Any]:
    """The CPU's architecture and instruction sets, without counts and names."""
    found = torch.cpu.get_capabilities()
    return {k: v for k, v in sorted(found.items()) if isinstance(v, bool) or k == "architecture"}


def accelerator() -> str:
    """The name of the GPU that tensors can be on, "cpu" where there is none."""
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None:
        return "cpu"
    return f"{device.type} {getattr(torch, device.type).get_device_name()}"


def configs() -> dict[str, dict[str, Any]]:
    """The settings that take part in compiling, by module; what is no plain value is named.

    torch's own ``get_hash()`` will not do: it hashes the order of sets, which is another one in
    each process, and the inductor's folders.
    """
    inductor = torch._inductor.config.save_config_portable(ignore_private_configs=False)
    for name in _CUSTOM_PASSES:
        inductor[name] = _plain(getattr(torch._inductor.config, name, None))
    return {
        "dynamo": _that_count(torch._dynamo.config),
        "functorch": _that_count(torch._functorch.config),
        "inductor": {name: _plain(value) for name, value in inductor.items()},
    }


# Passes of the user's own, which the inductor leaves out of its portable settings.
_CUSTOM_PASSES = (
    "joint_custom_post_pass",
    "joint_custom_pre_pass",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
    "pre_grad_custom_pass",
)


def _that_count(config: Any) -> dict[str, Any]:
    ignored = list(config._compile_ignored_keys)
    return {name: _plain(value) for name, value in config._get_dict(ignored_keys=ignored).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(str(_plain(item)) for item in value))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return _name_of(value)


def torch_version() -> str:
    return f"{torch.__version__} {torch.version.git_version}"


def backend_of(context: Any) -> Callable[..., Any]:
    """The backend function that an optimize context compiles with."""
    backend: Callable[..., Any] = innermost_backend(context.callback)
    return backend


def compile_options(context: Any) -> dict[str, str]:
    """What of an optimize context, besides the function, decides what it makes."""
    backend = backend_of(context)
    return {
        "backend": _name_of(backend),
        "config": repr(sorted(getattr(backend, "config", {}).items())),
        "compiler_name": str(getattr(backend, "compiler_name", "")),
        "region": str(getattr(backend, "name", "")),
        "dynamic": str(context._dynamic),
        "fullgraph": str(context.fullgraph),
        "error_on_graph_break": str(context.error_on_graph_break),
        "shapes": repr(context._shapes_spec),
        "guard_filter": _filter_name(context),
    }


def _filter_name(context: Any) -> str:
    chosen = getattr(context._hooks, "guard_filter_fn", None)
    return "" if chosen is None else _name_of(chosen)


def _name_of(fn: Any) -> str:
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"


def are_defaults(options: dict[str, str]) -> bool:
    """Whether ``options`` are those of a bare ``torch.compile(fn)``."""
    return options["compiler_name"] == "inductor" and all(
        options[name] in ("", "None", "False", "[]")
        for name in options.keys() - {"backend", "compiler_name"}
    )


def has_a_name(backend: Any) -> bool:
    """Whether another process can tell that it uses the same ``backend``."""
    return "<" not in _name_of(backend)
