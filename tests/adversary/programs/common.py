"""For programs that are run in processes of their own: scenarios, and how each came out.

``V`` is 1 in the process that saves and 2 in the one that loads, ``K`` 2.0 and 3.0.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves

import hotstart

V = int(os.environ["W"])
K = 2.0 if V == 1 else 3.0
x4 = torch.ones(4)

messages: list[str] = []
_scenarios: list[Callable[[], None]] = []


class _Keep(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        messages.append(record.getMessage())


logging.getLogger("hotstart").addHandler(_Keep())


def scenario(fn: Callable[[], None]) -> Callable[[], None]:
    _scenarios.append(fn)
    return fn


def same(got: Any, expected: Any, what: str = "") -> None:
    ours, eager = tree_leaves(got), tree_leaves(expected)
    assert len(ours) == len(eager), f"wrong: {got}, not {expected} {what}"
    for a, b in zip(ours, eager, strict=True):
        if isinstance(b, torch.Tensor):
            alike = (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
            close = alike and torch.allclose(a, b, equal_nan=True)
            assert close, f"wrong: {got}, not {expected} {what}"
        else:
            assert a == b, f"wrong: {a}, not {b} {what}"


def same_error(ours: Callable[[], Any], eager: Callable[[], Any]) -> None:
    assert _error_of(ours) == _error_of(eager)


def _error_of(fn: Callable[[], Any]) -> type[Exception] | None:
    try:
        fn()
    except Exception as e:
        return type(e)
    return None


def graphs() -> int:
    """How many graphs were compiled since the scenario began."""
    return int(counters["stats"]["unique_graphs"])


def main() -> None:
    if os.environ.get("WITHOUT_HOTSTART") != "1":
        hotstart.enable()
    chosen = sys.argv[1:]
    for fn in _scenarios:
        if chosen and fn.__name__ not in chosen:
            continue
        messages.clear()
        counters.clear()
        problem = None
        try:
            fn()
        except Exception as e:
            traceback.print_exc()
            problem = f"{type(e).__name__}: {e}"
        _tell(name=fn.__name__, problem=problem, graphs=graphs())
    messages.clear()
    _tell(name="save", problem=None, saved=hotstart.save())


def _tell(**facts: Any) -> None:
    print(json.dumps({**facts, "messages": list(messages)}), flush=True)
