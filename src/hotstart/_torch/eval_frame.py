"""The eval frame: where compiled code hangs on code objects.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch._dynamo
from torch._C._dynamo.eval_frame import (
    _FrameAction as FrameAction,
)
from torch._C._dynamo.eval_frame import (
    _FrameExecStrategy as FrameExecStrategy,
)
from torch._C._dynamo.eval_frame import (
    _load_precompile_entry,
    _reset_precompile_entries,
    set_code_exec_strategy,
)
from torch._dynamo import convert_frame
from torch._dynamo.eval_frame import innermost_fn as _innermost_fn
from torch._dynamo.eval_frame import skip_code as _skip_code

# Dynamo holds this while it compiles; whoever changes what Dynamo serves holds it too.
compile_lock = convert_frame.compile_lock


def innermost_fn(fn: Callable[..., Any]) -> Any:
    """The user's function below any number of ``torch.compile`` wrappers."""
    return _innermost_fn(fn)


def add_entry(code: types.CodeType, guard_manager: Any, dynamo_code: types.CodeType) -> None:
    """Serve ``dynamo_code`` for ``code`` wherever ``guard_manager`` accepts the frame's locals."""
    # torch._dynamo.reset() clears the code objects that Dynamo has seen; one that only ever hits
    # would otherwise keep its entries after a reset.
    convert_frame.input_codes.add(code)
    _load_precompile_entry(code, guard_manager, dynamo_code)


def remove_entries(code: types.CodeType) -> None:
    """Drop every precompiled entry of ``code``; what Dynamo compiled here itself stays."""
    _reset_precompile_entries(code)


def skip(code: types.CodeType) -> None:
    """Run ``code`` as it is, as Dynamo does with a frame in which it found nothing to compile."""
    convert_frame.input_codes.add(code)
    _skip_code(code)


def unskip(code: types.CodeType) -> None:
    """Takes `skip` back."""
    set_code_exec_strategy(code, FrameExecStrategy(FrameAction.DEFAULT, FrameAction.DEFAULT))


def disabled(fn: Callable[..., Any]) -> Any:
    """``fn`` with Dynamo switched off inside it."""
    return torch._dynamo.disable(fn)
