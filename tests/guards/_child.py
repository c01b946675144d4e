"""One process of the matrix: `_child.py save|load FOLDER [CASE...]`, a JSON object on stdout.

For each case: the trees as torch prints them, what each call met, and what hotstart says of it.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import _cases
import torch
import torch.utils._pytree as pytree

import hotstart
from hotstart import report

_ADDRESS = re.compile(r"\b0x[0-9a-f]+|\b\d{9,}\b")


def without_addresses(text: str) -> str:
    return _ADDRESS.sub("ADDRESS", text)


def run(case: _cases.Case, folder: Path) -> dict[str, Any]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    report.clear()
    hotstart.enable(folder)
    try:
        with _collected_trees() as trees:
            eager = case.fn()
            compiled = torch.compile(eager, **{"backend": _cases.kept_eager, **case.options})
            saved = [_met(compiled, eager, make) for make in case.saved]
            hotstart.save()
            graphs = torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)
            calls = {**case.hits, **case.misses}
            with torch.compiler.set_stance("fail_on_recompile"):
                met = {name: _met(compiled, eager, make) for name, make in calls.items()}
            return {
                "saved": saved,
                "graphs": graphs,
                "calls": met,
                "trees": sorted(map(without_addresses, trees)),
                "rows": hotstart.explain().to_dict()["functions"],
            }
    finally:
        hotstart.disable()


@contextmanager
def _collected_trees() -> Iterator[list[str]]:
    """The text of each tree that is saved, or loaded, in here."""
    from hotstart.dropin import compile_package, installation

    trees: list[str] = []

    def saving(save: Callable[..., bytes]) -> Callable[..., bytes]:
        def save_guards(*args: Any) -> bytes:
            trees.append(str(args[3].guard_manager))
            return save(*args)

        return save_guards

    def loading(load: Callable[..., Any]) -> Callable[..., Any]:
        def load_guard_manager(*args: Any) -> Any:
            manager = load(*args)
            trees.append(str(manager))
            return manager

        return load_guard_manager

    save, load = compile_package.save_guards, installation.load_guard_manager
    with (
        mock.patch.object(compile_package, "save_guards", saving(save)),
        mock.patch.object(installation, "load_guard_manager", loading(load)),
    ):
        yield trees


def _met(compiled: Any, eager: Any, make: _cases.Make) -> str:
    """ "hit", "miss", or what went wrong."""
    torch.manual_seed(0)
    try:
        actual = _call(compiled, make)
    except Exception as e:
        text = f"{type(e).__name__}: {e}"
        return "miss" if "Detected recompile" in text else text
    return "hit" if _same(actual, _call(eager, make)) else "another answer than eager"


def _call(fn: Any, make: _cases.Make) -> Any:
    """The answer, the arguments afterwards and their gradients."""
    call = make()
    with call.within:
        result = fn(*call.args, **call.kwargs)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.sum().backward()
    tensors = [leaf for leaf in pytree.tree_leaves(call.args) if isinstance(leaf, torch.Tensor)]
    return result, call.args, [tensor.grad for tensor in tensors if tensor.is_leaf]


def _same(a: Any, b: Any) -> bool:
    """Whether two results, and the arguments afterwards, are the same."""
    pairs = zip(pytree.tree_leaves(a), pytree.tree_leaves(b), strict=True)
    return all(
        torch.equal(x, y) and x.dtype == y.dtype
        for x, y in pairs
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
    )


def main(folder: str, *names: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    chosen = [case for case in _cases.CASES if not names or case.name in names]
    return {case.name: run(case, Path(folder, case.name)) for case in chosen}


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(main(*sys.argv[1:])), file=out)
