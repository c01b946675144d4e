"""Why a call missed what was loaded, said where torch says it of what it compiled itself.

torch explains recompiles from the entries that it compiled; those that were loaded are in another
list. Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

from torch._dynamo.convert_frame import ConvertFrameAssert
from torch._dynamo.guards import get_and_maybe_log_recompilation_reasons
from torch._dynamo.utils import orig_code_map

__all__ = ["ConvertFrameAssert", "tell_reasons", "telling_of_misses"]

# Stands where torch names the compile that an entry came from.
_LOADED = "loaded"


def tell_reasons(
    frame: Any,
    entries: Iterable[tuple[Any, types.CodeType]],
    tell: Callable[[list[str]], None],
) -> None:
    """Calls ``tell`` with the guards that refused ``frame``, one text for each entry ``(guard
    manager, bytecode)``.

    Then logs them as `TORCH_LOGS=recompiles` asks for, and raises torch's RecompileError where
    `error_on_recompile` does.
    """
    shown = []
    for manager, code in entries:
        orig_code_map[code] = frame.f_code
        shown.append(types.SimpleNamespace(guard_manager=manager, code=code, compile_id=_LOADED))
    tell(get_and_maybe_log_recompilation_reasons(shown, frame, None, skip_logging=True))
    get_and_maybe_log_recompilation_reasons(shown, frame, None)


def telling_of_misses(convert: Callable[..., Any], missed: Callable[[Any, Any], None]) -> Any:
    """``ConvertFrameAssert.__call__`` that calls ``missed(package, frame)`` first, where its
    compiles are recorded in a package."""

    @functools.wraps(convert)
    def __call__(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        package = getattr(self, "_package", None)
        if package is not None:
            missed(package, frame)
        return convert(self, frame, *args, **kwargs)

    return __call__
