"""What proves that an operator of the dispatcher is the one that was compiled.

torch's own operators are settled by its version. Of a program's own, a compile has used the schema,
the fake implementation and the formulas for gradients; the kernels themselves are called, not
compiled. Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import types
from typing import Any

import torch
import torch.library
from torch._library import custom_ops, simple_registry
from torch._ops import OpOverload, OpOverloadPacket

from hotstart._core import dumps, xxh64
from hotstart.errors import UnsupportedValueError
from hotstart.identity import reach_fingerprint

_OWN = frozenset(
    {"_c10d_functional", "aten", "c10d", "higher_order", "inductor", "mkldnn", "prim", "prims"}
    | {"quantized", "quantized_decomposed", "rngprims"}
)
# Of what `torch.library.custom_op` is given, what a compile bakes in.
_BAKED_IN = ("_abstract_fn", "_setup_context_fn", "_backward_fn", "_vmap_fn", "_autocast_dtype")


def is_operator(value: Any) -> bool:
    return isinstance(value, (OpOverload, OpOverloadPacket))


def operator_proof(value: Any) -> int:
    """A checksum of what a compile bakes in of an operator.

    Raises UnsupportedValueError where that depends on more than can be told.
    """
    overloads = [value]
    if isinstance(value, OpOverloadPacket):
        overloads = [getattr(value, name) for name in value.overloads()]
    return xxh64(dumps(tuple(_of_overload(overload) for overload in overloads)))


def _of_overload(op: Any) -> object:
    schema = str(op._schema)
    if op.namespace in _OWN:
        return schema
    name = op._schema.name
    definition = custom_ops.OPDEFS.get(name)
    if definition is not None:
        parts = [getattr(definition, part, None) for part in _BAKED_IN]
    else:
        _refuse_hidden(name)
        entry = simple_registry.singleton.find(name)
        parts = [getattr(entry.fake_impl.kernel, "func", None)]
    return (schema, *(_part(name, part) for part in parts))


def _part(name: str, part: Any) -> str | None:
    part = getattr(part, "__wrapped__", part)
    if not callable(part):
        return str(part)  # Nothing, or dtypes.
    said = reach_fingerprint(part) if isinstance(part, types.FunctionType) else None
    if said is None:
        raise UnsupportedValueError(f"the operator {name} depends on more than its code")
    return said


def _refuse_hidden(name: str) -> None:
    """A Python function that was registered for tracing or gradients cannot be looked at."""
    prefix = name.replace("::", "/") + "/"
    for registered in torch.library._impls:
        key = registered.removeprefix(prefix)
        if key != registered and key.startswith(("Autograd", "Composite", "Meta")):
            raise UnsupportedValueError(f"the operator {name} has a registered {key} function")
