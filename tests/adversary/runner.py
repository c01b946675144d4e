"""Runs in a process of its own: compiles each program named on the command line, calls it, compares
it with eager, and prints one JSON line for each."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from typing import Any

import torch
from torch._dynamo.utils import counters

import hotstart


def main(names: list[str]) -> None:
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logging.getLogger("hotstart").addHandler(Keep())
    hotstart.enable()
    for name in names:
        messages.clear()
        counters.clear()
        result: dict[str, Any] = {"name": name, "crash": None}
        try:
            result["wrong"] = _run(importlib.import_module(f"s_{name}"))
        except Exception as e:
            result["crash"] = f"{type(e).__name__}: {e}"
        result["graphs"] = counters["stats"]["unique_graphs"]
        result["messages"] = list(messages)
        print(json.dumps(result), flush=True)
    messages.clear()
    print(json.dumps({"name": None, "saved": hotstart.save(), "messages": messages}), flush=True)


def _run(module: Any) -> str | None:
    """How the compiled program differs from eager, None where it does not."""
    make = getattr(module, "args", lambda: (torch.ones(4),))
    compiled = torch.compile(module.fn)
    for _ in range(2):
        expected_args, args = make(), make()
        expected, got = module.fn(*expected_args), compiled(*args)
        if hasattr(module, "GRAD"):
            expected.sum().backward()
            got.sum().backward()
            expected, got = expected_args[0].grad, args[0].grad
        same = expected.dtype == got.dtype and torch.equal(expected.signbit(), got.signbit())
        if not (same and torch.equal(expected.nan_to_num(7.0), got.nan_to_num(7.0))):
            return f"{got.tolist()} instead of {expected.tolist()}"
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
