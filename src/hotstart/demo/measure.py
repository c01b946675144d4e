"""Starts the measured processes and collects what they say.

Each side compiles once, in folders of its own. Then fresh processes load what was saved, one at a
time, the sides taking turns and swapping the order each round, so that whatever else the machine
does meets both alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from hotstart.errors import HotstartError

TORCH = "torch"
HOTSTART = "hotstart"
SIDES = (TORCH, HOTSTART)

_CHILD = Path(__file__).with_name("child.py")
_WARNING = "WARNING hotstart"
"""How the child prints what hotstart logs."""
_SECONDS_PER_PROCESS = 900
_ENVIRONMENT_PREFIXES = ("TORCH", "HOTSTART", "PYTHONPATH", "TRITON", "OMP_", "MKL_")


class MeasurementFailed(HotstartError):
    """A measured process failed, or what it did is not what was to be measured."""


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    layers: int = 24
    rounds: int = 5
    warmups: int = 1
    sides: tuple[str, ...] = SIDES


@dataclass(frozen=True)
class Run:
    """What one process said. ``said`` is what it printed."""

    import_torch_ms: float
    phases_ms: dict[str, float]
    total_ms: float
    second_call_ms: float
    peak_rss_mb: float
    compiled_frames: int
    served: bool
    not_timed: list[str]
    output: dict[str, Any]
    said: str = ""


@dataclass
class SideResult:
    """One side: the process that compiled, and those that loaded."""

    cold: Run
    loads: list[Run] = field(default_factory=list)

    def phases(self) -> list[str]:
        return list(dict.fromkeys(name for run in self.loads for name in run.phases_ms))

    def phase_ms(self, name: str) -> float | None:
        """The median of a phase; None if it never ran."""
        times = [run.phases_ms.get(name, 0.0) for run in self.loads]
        return median(times) if any(times) else None

    def total_ms(self) -> float:
        return median(run.total_ms for run in self.loads)

    def total_mad_ms(self) -> float:
        """The median absolute deviation of the total."""
        middle = self.total_ms()
        return median(abs(run.total_ms - middle) for run in self.loads)

    def median_of(self, read: Callable[[Run], float]) -> float:
        return median(map(read, self.loads))

    def problems(self) -> list[str]:
        """What makes the figures unfit for comparison."""
        found = []
        if not all(run.served for run in self.loads):
            found.append("a process that should have loaded the package did not find it")
        if frames := max(run.compiled_frames for run in self.loads):
            found.append(f"a process that should have loaded the package compiled {frames} frames")
        if not all(run.output["agrees"] for run in (self.cold, *self.loads)):
            found.append("an output differs from eager")
        return found

    def warnings(self) -> list[str]:
        """What hotstart warned of, in any of the processes."""
        lines = [line for run in (self.cold, *self.loads) for line in run.said.splitlines()]
        return list(dict.fromkeys(line for line in lines if line.startswith(_WARNING)))

    def to_dict(self) -> dict[str, Any]:
        return {
            "median_ms": {
                "total": self.total_ms(),
                "total_mad": self.total_mad_ms(),
                "import_torch": self.median_of(lambda run: run.import_torch_ms),
                "phases": {name: self.phase_ms(name) for name in self.phases()},
            },
            "peak_rss_mb": self.median_of(lambda run: run.peak_rss_mb),
            "problems": self.problems(),
            "cold": vars(self.cold),
            "loads": [vars(run) for run in self.loads],
        }


@dataclass
class Result:
    """A finished measurement."""

    plan: Plan
    sides: dict[str, SideResult]

    def ratio(self) -> float | None:
        """How many times faster hotstart is; None unless both sides were measured."""
        if not set(SIDES) <= set(self.sides):
            return None
        return self.sides[TORCH].total_ms() / self.sides[HOTSTART].total_ms()

    def problems(self) -> list[str]:
        return [f"{name}: {p}" for name, side in self.sides.items() for p in side.problems()]

    def to_dict(self) -> dict[str, Any]:
        return {
            "layers": self.plan.layers,
            "rounds": self.plan.rounds,
            "warmups": self.plan.warmups,
            "ratio": self.ratio(),
            "problems": self.problems(),
            "sides": {name: side.to_dict() for name, side in self.sides.items()},
        }


def measure(plan: Plan, progress: Callable[[str], None]) -> Result:
    """Runs the whole plan in a temporary folder. Raises MeasurementFailed."""
    with tempfile.TemporaryDirectory(prefix="hotstart-demo-") as folder:
        bench = _Bench(Path(folder), plan.layers)
        sides: dict[str, SideResult] = {}
        for side in plan.sides:
            progress(f"{side}: compiling {plan.layers} layers in one process, and saving")
            sides[side] = SideResult(cold=bench.run(side, "save"))
        for number in range(-plan.warmups, plan.rounds):
            for side in plan.sides if number % 2 == 0 else reversed(plan.sides):
                run = bench.run(side, "load")
                if number >= 0:
                    sides[side].loads.append(run)
                label = f"round {number + 1} of {plan.rounds}" if number >= 0 else "warm-up"
                progress(f"{side}: {label}: {run.total_ms:.0f} ms in a fresh process")
    return Result(plan, sides)


class _Bench:
    """The folders of one measurement."""

    def __init__(self, folder: Path, layers: int) -> None:
        self.folder = folder
        self.layers = layers

    def run(self, side: str, mode: str) -> Run:
        result = self.folder / "result.json"
        command = [
            sys.executable,
            str(_CHILD),
            f"--side={side}",
            f"--mode={mode}",
            f"--layers={self.layers}",
            f"--reference={self.folder / 'eager.pt'}",
            f"--result={result}",
        ]
        process = subprocess.run(
            command,
            env=self._environment(side),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS_PER_PROCESS,
            check=False,
        )
        if process.returncode != 0:
            last = "\n".join(process.stdout.splitlines()[-15:])
            raise MeasurementFailed(
                f"the {side} process that should {mode} failed with {process.returncode}:\n{last}"
            )
        said = json.loads(result.read_text())
        result.unlink()
        return Run(**said, said=process.stdout)

    def _environment(self, side: str) -> dict[str, str]:
        """The user's, without what would change the measurement; one thread, because two OpenMP
        threads on a busy machine can hold up a single call for seconds."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_ENVIRONMENT_PREFIXES)}
        own = {
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / side / "inductor"),
            "HOTSTART_DIR": str(self.folder / side / "hotstart"),
        }
        if side == TORCH:
            own["TORCH_CACHING_PRECOMPILE"] = "1"
        return kept | own


def phase_order(sides: Iterable[SideResult]) -> list[str]:
    """Every phase that ran on any side, in the order in which a load goes through them."""
    known = [
        "import hotstart",
        "import compiler",
        "read",
        "check",
        "guards",
        "backends",
        "probe CPU",
        "precompile header",
        "install",
        "first call",
    ]
    ran = dict.fromkeys(name for side in sides for name in side.phases())
    unknown = [name for name in ran if name not in known and name != "other"]
    return [name for name in (*known, *unknown, "other") if name in ran]
