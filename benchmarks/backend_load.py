"""How long it takes to bring a compiled graph to life: torch's own package against hotstart's.

    python benchmarks/backend_load.py [--layers 24] [--rounds 7]

Each side compiles the GPT of `hotstart.examples` in a process of its own. Then fresh processes, the
sides taking turns, import the compiler, read the package, and time what torch calls
`after_deserialization`, once and cold: from the artifact to a function that can be called. torch's
side keeps its inductor cache, so it compiles nothing; hotstart's side starts with an empty one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIDES = ("torch", "hotstart")


def child(side: str, phase: str, layers: int) -> dict[str, Any]:
    """One process: compiles and saves, or loads. The times are in milliseconds."""
    import torch
    import torch._inductor.compile_fx
    from torch._dynamo import convert_frame  # noqa: F401

    import hotstart
    from hotstart.examples.gpt import GPTConfig, build, example_ids

    if side == "torch":
        torch._dynamo.config.caching_precompile = True
    else:
        hotstart.enable()
    spent = _timed(side)
    config = GPTConfig(layers=layers)
    model, ids = build(config).eval(), example_ids(config)
    with torch.no_grad():
        output = torch.compile(model)(ids)
        close = torch.allclose(output, model(ids), atol=1e-4)
    if phase == "save" and side == "torch":
        from torch._dynamo.precompile_context import PrecompileContext

        PrecompileContext.save_to_dynamo_cache()
    elif phase == "save":
        hotstart.save()
    graphs = torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)
    return {"ms": sum(spent), "backends": len(spent), "graphs": graphs, "right": close}


def _timed(side: str) -> list[float]:
    """Where the milliseconds of each backend brought to life go to."""
    from torch._dynamo.precompile_context import BackendCacheArtifact
    from torch._functorch._aot_autograd.aot_autograd_result import BundledAOTAutogradCacheArtifact

    from hotstart.store.artifact import StoredArtifact

    spent: list[float] = []
    cls: type[BackendCacheArtifact[Any]]
    cls = BundledAOTAutogradCacheArtifact if side == "torch" else StoredArtifact
    original = cls.after_deserialization

    def after_deserialization(self: Any) -> Any:
        start = time.perf_counter()
        made = original(self)
        spent.append((time.perf_counter() - start) * 1e3)
        return made

    cls.after_deserialization = after_deserialization  # type: ignore[method-assign]
    return spent


def run(side: str, phase: str, layers: int, folder: Path) -> dict[str, Any]:
    inductor = folder / f"{side}-inductor"
    if side == "hotstart" and phase == "load":
        inductor = Path(tempfile.mkdtemp(dir=folder))
    env = dict(
        os.environ,
        TORCHINDUCTOR_CACHE_DIR=str(inductor),
        HOTSTART_DIR=str(folder / "hotstart"),
        OMP_NUM_THREADS="1",
    )
    command = [sys.executable, __file__, "--child", side, phase, "--layers", str(layers)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"PROBLEM: {side} {phase}:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not result["right"] or (phase == "load" and (result["graphs"] or not result["backends"])):
        sys.exit(f"PROBLEM: {side} {phase}: {result}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        side, phase = options.child
        print(json.dumps(child(side, phase, options.layers)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side in SIDES:
            run(side, "save", options.layers, folder)
        times: dict[str, list[float]] = {side: [] for side in SIDES}
        for number in range(options.rounds + 1):
            for side in SIDES if number % 2 else reversed(SIDES):
                milliseconds = run(side, "load", options.layers, folder)["ms"]
                if number:  # The first round fills the file cache.
                    times[side].append(milliseconds)
    medians = {side: statistics.median(values) for side, values in times.items()}
    print("| | ms, median | least | most |\n|---|---|---|---|")
    for side, values in times.items():
        print(f"| {side} | {medians[side]:,.1f} | {min(values):,.1f} | {max(values):,.1f} |")
    print(f"\ntorch takes {medians['torch'] / medians['hotstart']:.0f} times as long")


if __name__ == "__main__":
    main()
