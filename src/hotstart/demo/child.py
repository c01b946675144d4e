"""The process that is measured: from a built model to its first compiled output.

Run as a script and never as a part of the package, so that a process which measures torch's own
package does not import hotstart. The same clock, the same import hook and the same wrappers run on
both sides. Each moment of the measured stretch belongs to exactly one phase, the innermost one, so
the phases add up to the total.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import logging
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

REST = "other"
IMPORT_HOTSTART = "import hotstart"
IMPORT_COMPILER = "import compiler"
FIRST_CALL = "first call"

TIMED = {
    "torch._dynamo.package": {
        "DiskDynamoCache.load": "read",
        "CompilePackage.initialize": "check",
        "CompilePackage.install": "install",
        "load_guards_state": "guards",
        "load_guard_manager": "guards",
    },
    "torch._functorch._aot_autograd.aot_autograd_result": {
        "BundledAOTAutogradCacheArtifact.after_deserialization": "backends",
    },
    "torch._inductor.cpu_vec_isa": {"pick_vec_isa": "probe CPU"},
    "torch._inductor.codecache": {"_precompile_header": "precompile header"},
    "hotstart.store.artifact": {"StoredArtifact.after_deserialization": "backends"},
}
"""What is timed from outside, by module: a function and the phase that it is."""


class PhaseClock:
    """Charges every moment between `start` and `stop` to one phase."""

    def __init__(self) -> None:
        self.ns: dict[str, int] = {}
        self._open: list[str] = []
        self._last = 0
        self._thread = threading.get_ident()

    def start(self) -> None:
        self._open = [REST]
        self._last = time.perf_counter_ns()

    def stop(self) -> None:
        self._charge()
        self._open = []

    def innermost(self) -> str | None:
        """The phase that time is charged to now; None outside the stretch and in other threads."""
        if not self._open or threading.get_ident() != self._thread:
            return None
        return self._open[-1]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        if self.innermost() is None:
            yield
            return
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.phase(name):
                return function(*args, **kwargs)

        return wrapper

    def _charge(self) -> None:
        now = time.perf_counter_ns()
        name = self._open[-1]
        self.ns[name] = self.ns.get(name, 0) + now - self._last
        self._last = now


class ImportWatch:
    """Times the execution of modules, and wraps functions of some as soon as they are there.

    It sits in the loader of source files rather than in ``sys.meta_path``: that costs one call for
    each module, and torch's side imports 1,500 of them.
    """

    def __init__(self, clock: PhaseClock) -> None:
        self.clock = clock
        self.missing: list[str] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        loader: Any = SourceFileLoader
        execute = loader.exec_module

        def exec_module(self_: Any, module: ModuleType) -> None:
            with self.clock.phase(self._phase_of(module.__name__)):
                execute(self_, module)
                self._wrap(module)

        loader.exec_module = exec_module
        try:
            yield
        finally:
            loader.exec_module = execute

    def _phase_of(self, name: str) -> str:
        """Whose import it is; what neither torch nor we own belongs to whoever imports it."""
        top = name.partition(".")[0]
        if top == "hotstart":
            return IMPORT_HOTSTART
        outer = self.clock.innermost()
        if top != "torch" and outer == IMPORT_HOTSTART:
            return IMPORT_HOTSTART
        return IMPORT_COMPILER

    def _wrap(self, module: ModuleType) -> None:
        for path, phase in TIMED.get(module.__name__, {}).items():
            *parents, last = path.split(".")
            owner: Any = module
            for parent in parents:
                owner = getattr(owner, parent, None)
            function = getattr(owner, last, None)
            if function is None:
                self.missing.append(f"{module.__name__}.{path}")
            else:
                setattr(owner, last, self.clock.timed(function, phase))
        if module.__name__ == "hotstart.report":
            _time_rows(module, self.clock)


def _time_rows(report: Any, clock: PhaseClock) -> None:
    """The phases that hotstart names for itself are phases of the clock as well."""
    original = report.Row.phase

    @contextmanager
    def phase(row: Any, name: str) -> Iterator[None]:
        with clock.phase(name), original(row, name):
            yield

    report.Row.phase = phase


def main() -> None:
    args = _arguments()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    sys.path[0] = str(Path(__file__).resolve().parent.parent / "examples")

    begin = time.perf_counter_ns()
    import torch

    import_torch_ms = (time.perf_counter_ns() - begin) / 1e6
    gpt: Any = importlib.import_module("gpt")
    config = gpt.GPTConfig(layers=args.layers)
    model = gpt.build(config).eval()
    ids = gpt.example_ids(config)
    clock = PhaseClock()
    watch = ImportWatch(clock)

    with torch.no_grad(), watch.installed():
        clock.start()
        if args.side == "hotstart":
            importlib.import_module("hotstart").enable()
        compiled = torch.compile(model)
        with clock.phase(FIRST_CALL):
            output = compiled(ids)
        clock.stop()
        peak_rss_mb = _peak_rss_mb()
        frames = _compiled_frames()
        again = time.perf_counter_ns()
        compiled(ids)
        second_call_ms = (time.perf_counter_ns() - again) / 1e6
        eager = model(ids)

    if args.mode == "save":
        _save(args.side)
    result = {
        "import_torch_ms": import_torch_ms,
        "phases_ms": {name: ns / 1e6 for name, ns in clock.ns.items()},
        "total_ms": sum(clock.ns.values()) / 1e6,
        "second_call_ms": second_call_ms,
        "peak_rss_mb": peak_rss_mb,
        "compiled_frames": frames,
        "served": _served(args.side),
        "not_timed": watch.missing,
        "output": _compare(output, eager, args.reference),
    }
    args.result.write_text(json.dumps(result))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", choices=("torch", "hotstart"), required=True)
    parser.add_argument("--mode", choices=("save", "load"), required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    return parser.parse_args()


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _compiled_frames() -> int:
    """How many frames Dynamo has compiled here. None of it was imported: none."""
    utils = sys.modules.get("torch._dynamo.utils")
    return int(utils.counters["frames"]["total"]) if utils else 0


def _served(side: str) -> bool:
    """Whether a package was found, by what each side says of itself."""
    if side == "hotstart":
        rows = importlib.import_module("hotstart").explain().rows
        return any(row.outcome.value == "hit" for row in rows)
    from torch._dynamo.utils import counters

    return bool(counters["dynamo_cache"]["dynamo_cache_hit"])


def _save(side: str) -> None:
    if side == "hotstart":
        importlib.import_module("hotstart").save()
        return
    from torch._dynamo.precompile_context import PrecompileContext

    PrecompileContext.save_to_dynamo_cache()


def _compare(output: Any, eager: Any, reference: Path) -> dict[str, Any]:
    """How far the output is from eager, here and in the process that wrote ``reference``."""
    import torch

    if not reference.exists():
        torch.save(eager, reference)
    elsewhere = torch.load(reference, weights_only=True)
    close = functools.partial(torch.allclose, rtol=1e-4, atol=1e-4)
    return {
        "agrees": close(output, eager) and close(output, elsewhere),
        "max_difference": max(
            (output - eager).abs().max().item(), (output - elsewhere).abs().max().item()
        ),
        "sha256": hashlib.sha256(bytes(output.contiguous().untyped_storage())).hexdigest(),
    }


if __name__ == "__main__":
    main()
