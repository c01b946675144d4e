"""How long a loaded package takes to bring its guards back: torch's own package against hotstart's.

    python benchmarks/guard_load.py [--layers 12 24 48 96] [--rounds 7]

For each number of layers, each side compiles the GPT of `hotstart.examples` in a process of its own
and saves a package. The backend runs the graph as it is: guards do not depend on it. Then fresh
processes, the sides taking turns, load that package for a first call, and time
`load_guards_state` and `load_guard_manager` in it, once and cold. "torch, built once" is torch's
own with the second of its two builds of all guards turned off.

``--smoke`` is the smallest run there is, for continuous integration: it shows that the benchmark
works, its figures mean nothing.
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
from collections import Counter
from pathlib import Path
from typing import Any

SIDES = ("torch", "torch, built once", "hotstart")
SAVED_BY = {"torch": "torch", "torch, built once": "torch", "hotstart": "hotstart"}
LOADERS = ("load_guards_state", "load_guard_manager")

# Layers to the sides' processes, each with what `child` found.
Results = dict[int, dict[str, list[dict[str, Any]]]]


def child(side: str, phase: str, layers: int) -> dict[str, Any]:
    """One process: compiles and saves, or loads. The times are in milliseconds."""
    import torch
    import torch._dynamo.package
    from torch._dynamo import convert_frame  # noqa: F401  (what a first compile imports)
    from torch._dynamo.precompile_context import PrecompileContext

    import hotstart
    from hotstart.examples.gpt import GPTConfig, build, example_ids

    spent: Counter[str] = Counter()
    built: list[Any] = []
    if side == "hotstart":
        hotstart.enable()
        _time_hotstart(spent, built)
    else:
        torch._dynamo.config.caching_precompile = True
        _time_torch(spent, built, once=side != "torch")
    config = GPTConfig(layers=layers)
    model, ids = build(config).eval(), example_ids(config)
    with torch.no_grad():
        compiled = torch.compile(model, backend=kept_eager)
        expected, actual = model(ids), compiled(ids)
    graphs = torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)
    with torch.no_grad(), torch.compiler.set_stance("fail_on_recompile"):
        again = compiled(ids)
        model.blocks[-1].norm_feed.eps *= 2
        try:
            compiled(ids)
        except RuntimeError as error:
            checked = str(error).startswith("Detected recompile")
        else:
            checked = False
    if phase == "save" and side == "hotstart":
        hotstart.save()
    elif phase == "save":
        PrecompileContext.save_to_dynamo_cache()
    return {
        "ms": sum(spent[name] for name in LOADERS),
        "parts": dict(spent),
        "managers": len(built),
        "nodes": sum(str(manager).count("Manager: source=") for manager in built),
        "graphs": graphs,
        "right": torch.equal(expected, actual) and torch.equal(expected, again),
        "checked": checked,
    }


def kept_eager(graph: Any, _: Any) -> Any:
    """A backend that runs the graph as it is, and keeps it for the package."""
    from torch._dynamo.precompile_context import EagerCacheArtifact, PrecompileContext

    PrecompileContext.record_artifact(EagerCacheArtifact(graph._backend_id, graph))
    return graph


def _time_torch(spent: Counter[str], built: list[Any], *, once: bool) -> None:
    """Has the loaders' milliseconds added to ``spent``, and what they build to ``built``."""
    import torch

    package = torch._dynamo.package
    _time(package, "load_guards_state", spent)
    if once:
        single = torch._dynamo.config.patch(caching_precompile=False)
        package.load_guard_manager = single(package.load_guard_manager)  # type: ignore[attr-defined]
    _time(package, "load_guard_manager", spent, built)


def _time_hotstart(spent: Counter[str], built: list[Any]) -> None:
    """The same for hotstart's loaders, and what their time goes to."""
    from hotstart.dropin import installation
    from hotstart.guards import load

    _time(installation, "load_guards_state", spent)
    _time(installation, "load_guard_manager", spent, built)
    _time(load.Plan, "__init__", spent, part="decoding")
    _time(load, "resolve_values", spent, part="finding values")
    _time(load.ReplayedGuards, "__init__", spent, part="replaying")


def _time(
    owner: Any,
    name: str,
    spent: Counter[str],
    results: list[Any] | None = None,
    part: str | None = None,
) -> None:
    """Has the milliseconds in ``owner.name`` added to ``spent[part]``, and what it returns put into
    ``results``."""
    original = getattr(owner, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = original(*args, **kwargs)
        spent[part or name] += (time.perf_counter() - start) * 1e3
        if results is not None:
            results.append(result)
        return result

    setattr(owner, name, timed)


def run(side: str, phase: str, layers: int, folder: Path) -> dict[str, Any]:
    saved_by = SAVED_BY[side]
    env = dict(
        os.environ,
        TORCHINDUCTOR_CACHE_DIR=str(folder / f"{saved_by}-inductor"),
        HOTSTART_DIR=str(folder / "hotstart"),
        OMP_NUM_THREADS="1",
    )
    command = [sys.executable, __file__, "--child", side, phase, "--layers", str(layers)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"PROBLEM: {side} {phase}:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    loaded = phase == "save" or (result["managers"] == 1 and not result["graphs"])
    if not (result["right"] and result["checked"] and loaded):
        sys.exit(f"PROBLEM: {side} {phase}: {result}")
    return result


def measure(layers: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side in sorted(set(SAVED_BY.values())):
            run(side, "save", layers, folder)
        for number in range(rounds + 1):
            for side in SIDES if number % 2 else reversed(SIDES):
                result = run(side, "load", layers, folder)
                if number:  # The first round fills the file cache.
                    found[side].append(result)
            print(f"{layers} layers: round {number} of {rounds}", file=sys.stderr, flush=True)
    return found


def median(runs: list[dict[str, Any]], part: str | None = None) -> float:
    return statistics.median(run["parts"][part] if part else run["ms"] for run in runs)


def markdown(results: Results) -> str:
    """The sides by layers, then what hotstart's time goes to."""
    lines = [
        "| layers | nodes | torch, ms | torch, built once, ms | hotstart, ms (least to most) "
        "| a layer, ms | torch / hotstart | built once / hotstart |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for layers, sides in results.items():
        torch_ms, once_ms, ours = (median(sides[side]) for side in SIDES)
        each = [run["ms"] for run in sides["hotstart"]]
        lines.append(
            f"| {layers} | {sides['hotstart'][0]['nodes']:,} | {torch_ms:,.0f} | {once_ms:,.0f} "
            f"| {ours:.1f} ({min(each):.1f} to {max(each):.1f}) | {ours / layers:.2f} "
            f"| {torch_ms / ours:.0f} | {once_ms / ours:.0f} |"
        )
    lines += [
        "",
        "| layers | decoding, ms | finding values, ms | replaying, ms | replaying a node, us |",
        "|--:|--:|--:|--:|--:|",
    ]
    for layers, sides in results.items():
        runs = sides["hotstart"]
        decoding, finding, replaying = (
            median(runs, part) for part in ("decoding", "finding values", "replaying")
        )
        lines.append(
            f"| {layers} | {decoding:.2f} | {finding:.2f} | {replaying:.2f} "
            f"| {replaying / runs[0]['nodes'] * 1e3:.1f} |"
        )
    return "\n".join(lines)


def plot(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "hotstart"  # The same figures give the same file.
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for side in SIDES:
        axes.plot(
            list(results), [median(sides[side]) for sides in results.values()], "o-", label=side
        )
    axes.set(xscale="log", yscale="log", xlabel="layers", ylabel="guard load, ms, median")
    axes.set_xticks(list(results), [str(layers) for layers in results], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 24, 48, 96])
    parser.add_argument("--rounds", type=int, default=7, help="fresh processes a side")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    parser.add_argument("--plot", type=Path, metavar="SVG", help="needs requirements-bench.txt")
    parser.add_argument("--smoke", action="store_true", help="2 layers, 1 round")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        side, phase = options.child
        print(json.dumps(child(side, phase, options.layers[0])))
        return
    if options.smoke:
        options.layers, options.rounds = [2], 1
    results = {layers: measure(layers, options.rounds) for layers in options.layers}
    print(markdown(results))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1))
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
