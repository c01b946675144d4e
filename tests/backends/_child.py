"""One process of a test of kernels: `_child.py PHASE PROGRAM...`, one JSON object on stdout.
PHASE is "save", "load", or "load on a lesser CPU".

Runs each program through hotstart beside eager, and says what became of it; and what the process
started and wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import _audit
import torch

_audit.listen()  # From here on: builds of torch for GPUs start a process when they are imported.

import hotstart  # noqa: E402

_REPORTED = torch.cpu.get_capabilities()
TABLE = torch.tensor([1.0, 2.0, 3.0, 4.0])
Program = Callable[[str, Callable[..., Any]], list[torch.Tensor]]
PROGRAMS: dict[str, tuple[Callable[..., Any], Program]] = {}


def program(fn: Callable[..., Any]) -> Callable[[Program], Program]:
    """Names what runs ``fn``, which is compiled, under that of the decorated function."""

    def register(run: Program) -> Program:
        PROGRAMS[run.__name__] = fn, run
        return run

    return register


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 7


@program(lambda x, y: torch.softmax(x @ y, -1).sum(0))
def several_kernels(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    return [f(numbers(4, 8), numbers(8, 5))]


@program(lambda x: x.sin() * x.shape[0])
def dynamic_shape(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    sizes = (6, 9) if phase == "save" else (9, 17, 23)
    outputs = []
    for size in sizes:
        x = numbers(size)
        torch._dynamo.mark_dynamic(x, 0)
        outputs.append(f(x))
    return outputs


@program(lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + 0.5)
def constant_in_graph(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    return [f(numbers(3, 4))]


@program(lambda x: x * TABLE)
def constant_in_global(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    return [f(numbers(3, 4))]


def _mutating(x: torch.Tensor) -> torch.Tensor:
    x.add_(1).mul_(3)
    return x.sum()


@program(_mutating)
def mutation(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    x = numbers(8)
    return [f(x), x]


@program(lambda x: (x[1:], x.view(-1).sin(), x))
def outputs_that_alias(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    x = numbers(3, 4)
    part, computed, same = f(x)
    part.add_(100)  # Goes through to x, in eager as in compiled code.
    return [part, computed, same, x]


def _breaking(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() + x


@program(_breaking)
def graph_break(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    return [f(numbers(8))]


@program(lambda x: x.sin().exp().sum())
def backward(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    x = numbers(8).requires_grad_()
    y = f(x)
    y.backward()
    assert x.grad is not None
    return [y.detach(), x.grad]


@program(lambda x: x.cos().exp().sum())
def backward_only_later(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    """The process that saves never asks for gradients, the one that loads does."""
    x = numbers(8).requires_grad_()
    y = f(x)
    if phase == "save":
        return [y.detach()]
    y.backward()
    assert x.grad is not None
    return [y.detach(), x.grad]


@program(lambda x: (x.to(torch.bfloat16) @ x.to(torch.bfloat16).T).float().relu())
def bfloat16(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    return [f(numbers(4, 4))]


@program(lambda x: torch.nonzero(x > 1).shape[0] + x.sum())
def no_kernel_for_a_part(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    return [f(numbers(16))]


@program(lambda x: x.view(2, -1).t())
def no_kernel(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
    return [f(numbers(4))]


def _shared(number: int) -> Callable[..., Any]:
    """Functions of different code with one and the same kernel."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(f"def shared_{number}(x):\n    'Number {number}.'\n    return (x + 1).sin()", scope)
    fn = globals()[f"shared_{number}"] = scope[f"shared_{number}"]
    return fn  # type: ignore[no-any-return]


for _number in range(10):

    def _run(phase: str, f: Callable[..., Any]) -> list[torch.Tensor]:
        return [f(numbers(8))]

    PROGRAMS[f"shared_{_number}"] = _shared(_number), _run


def _lesser_cpu() -> dict[str, Any]:
    """What a CPU would report that lacks every instruction set of this one's."""
    return {k: False if isinstance(v, bool) else v for k, v in _REPORTED.items()}


def main(phase: str, names: list[str]) -> dict[str, Any]:
    if phase == "load on a lesser CPU":
        torch.cpu.get_capabilities = _lesser_cpu
    said: dict[str, Any] = {"programs": {}}
    with hotstart.enable():
        for name in names:
            said["programs"][name] = _of(phase, name)
        said["saved"] = hotstart.save()
        rows = hotstart.explain().to_dict()["functions"]
    for name, row in zip(names, rows, strict=True):
        said["programs"][name].update(row)
    return {**said, "started": _audit.started, "wrote": _audit.wrote}


def _of(phase: str, name: str) -> dict[str, Any]:
    fn, run = PROGRAMS[name]
    stats = torch._dynamo.utils.counters["stats"]
    before = stats["unique_graphs"]
    expected = run(phase, fn)
    try:
        actual = run(phase, torch.compile(fn))
    except Exception as e:
        return {"error": " ".join(f"{type(e).__name__}: {e}".split())[:500]}
    agree = [
        a.dtype == e.dtype and torch.allclose(a, e, rtol=1e-5, atol=1e-6)
        for a, e in zip(actual, expected, strict=True)
    ]
    return {"error": None, "right": all(agree), "graphs": stats["unique_graphs"] - before}


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(main(sys.argv[1], sys.argv[2:])), file=out)
