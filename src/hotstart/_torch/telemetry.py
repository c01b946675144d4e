"""torch's own accounts of what happens: timers, counters, structured traces.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import json
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.convert_frame import get_compile_id, log_dynamo_start
from torch._dynamo.utils import counters, dynamo_timed, increment_frame
from torch._guards import CompileContext, compile_context

__all__ = ["count", "dynamo_timed", "frame_context", "trace_artifact"]


def count(event: str) -> None:
    """Adds one to ``torch._dynamo.utils.counters["dynamo_cache"][event]``."""
    counters["dynamo_cache"][event] += 1


def trace_artifact(name: str, payload: Callable[[], dict[str, Any]]) -> None:
    """Writes a JSON artifact to torch's structured trace, where one is being taken."""
    torch._logging.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=lambda: json.dumps(payload()),
        expect_trace_id=False,
    )


@contextlib.contextmanager
def frame_context(code: types.CodeType) -> Iterator[None]:
    """What a compile of ``code`` would do to frame counters and compile ids, without compiling.

    Recompiles of a frame share one package entry, so a load counts each frame once: a cold start's
    0/0, 0/1, 1/0 are 0/0, 1/0 on a warm one.
    """
    increment_frame()
    compile_id = get_compile_id(frame_state={})
    metadata = {
        "frame_key": str(torch._dynamo.utils.curr_frame),
        "co_name": code.co_name,
        "co_filename": code.co_filename,
        "co_firstlineno": code.co_firstlineno,
    }
    with (
        compile_context(CompileContext(compile_id)),
        dynamo_timed(
            "_compile.compile_inner",
            phase_name="entire_frame_compile",
            dynamo_compile_column_us="dynamo_cumulative_compile_time_us",
            metadata=metadata,
        ),
    ):
        log_dynamo_start(code)
        yield
