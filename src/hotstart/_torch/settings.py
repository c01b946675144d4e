"""What of torch's settings decides what a compile makes.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import types
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch._dynamo.backends.registry import list_backends, lookup_backend
from torch._dynamo.eval_frame import innermost_backend

from hotstart.identity import fingerprint, resolve


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
    """The settings that take part in compiling, as this thread has them, by module.

    What is no plain value is named; functions count with what they do.

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


# Whether packages are made does not change what is in them.
_ABOUT_PACKAGES = ("caching_precompile", "strict_precompile")


def _that_count(config: Any) -> dict[str, Any]:
    ignored = [*config._compile_ignored_keys, *_ABOUT_PACKAGES]
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
    if isinstance(value, types.FunctionType):
        return f"{_name_of(value)} {fingerprint(value)}"
    return f"{_name_of(value)} {value.uuid() if hasattr(value, 'uuid') else ''}"


def torch_version() -> str:
    return f"{torch.__version__} {torch.version.git_version}"


def backend_name(context: Any) -> str | None:
    """What another process can know the backend of an optimize context by, None if by nothing.

    A backend is known by the name it is registered under, or as a function that its module holds;
    the latter's code counts too. An object made by a call, a closure or a lambda is nobody else's.
    """
    backend: Any = innermost_backend(context.callback)
    if isinstance(backend, torch._TorchCompileInductorWrapper):
        return _name_of(backend)
    compiler = getattr(backend, "compiler_fn", backend)
    registered = str(getattr(backend, "compiler_name", ""))
    if registered in list_backends(None) and lookup_backend(registered) is compiler:
        return f"registered {registered}"
    name = _name_of(compiler)
    if resolve(compiler.__module__, getattr(compiler, "__qualname__", "")) is compiler:
        return f"{name} {fingerprint(compiler)}"
    return None


def compile_options(context: Any) -> dict[str, Any]:
    """What of an optimize context, besides the function, decides what it makes."""
    backend: Any = innermost_backend(context.callback)
    return {
        "backend": backend_name(context),
        "config": _plain(getattr(backend, "config", {})),
        "arguments": _plain(getattr(backend, "kwargs", {})),
        "region": _plain(getattr(backend, "name", None)),
        "dynamic": context._dynamic,
        "fullgraph": context.fullgraph,
        "error_on_graph_break": context.error_on_graph_break,
        "shapes": repr(getattr(context, "_shapes_spec", None)),  # not in 2.14
        "guard_filter": _plain(getattr(context._hooks, "guard_filter_fn", None)),
    }


def are_defaults(options: dict[str, Any]) -> bool:
    """Whether ``options`` are those of a bare ``torch.compile(fn)``."""
    chosen = {name for name, value in options.items() if value not in (None, False, {}, "None")}
    return chosen == {"backend"} and "_TorchCompileInductorWrapper" in options["backend"]


def _name_of(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
