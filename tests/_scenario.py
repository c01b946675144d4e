"""Small programs that are compiled and saved in one process and loaded in another.

A scenario is the source of a module with a generator ``program(phase)``, run with phase "save" in
the first process and "load" in the second. It yields ``label, value`` pairs. Each process runs it
twice: as written, and from a copy in which ``torch.compile`` does nothing; every value must be the
same in both. The number of frames that Dynamo compiled is noted for each label, so that "hit" is
a matter of counting.

The module is imported with two names already in it: ``EAGER`` (true in the copy) and ``LIB`` (the
name of the scenario's second module, if it has one). Many scenarios share a pair of processes, for
starting torch is what costs most; each has cache folders of its own all the same.

Run as a script, this file is the child: a JSON list of jobs on stdin, one JSON line for each on
stdout.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MODES = ("plain", "torch", "hotstart")


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    source: str
    #: What torch's own package does on 2.13, see ``Outcome.verdict``.
    torch: str
    #: Labels that a package should serve without compiling; all of them if not given.
    served: tuple[str, ...] | None = None
    #: Part of the message of an error that the loading process may meet without packages too.
    excuse: str | None = None
    #: Text of the source that changes between the two processes, as (old, new).
    edits: tuple[tuple[str, str], ...] = ()
    #: A second module, imported under the name in ``LIB``.
    library: str = ""
    load_env: tuple[tuple[str, str], ...] = ()
    #: Needs a process of its own, because it changes more than it can put back.
    alone: bool = False
    #: Mode that the loading process finds on the folder of the packages, which is not its own.
    sealed: int | None = None


@dataclasses.dataclass
class Result:
    """One phase of one scenario."""

    frames: dict[str, int] = dataclasses.field(default_factory=dict)
    wrong: dict[str, str] = dataclasses.field(default_factory=dict)
    error: str | None = None
    save_error: str | None = None
    counters: dict[str, Any] = dataclasses.field(default_factory=dict)
    log: list[str] = dataclasses.field(default_factory=list)

    @property
    def correct(self) -> bool:
        return not (self.error or self.save_error or self.wrong)


@dataclasses.dataclass
class Outcome:
    scenario: Scenario
    save: Result
    load: Result

    @property
    def verdict(self) -> str:
        """hit, miss, wrong, crash, "crash at save", "wrong at save"; "right" if none can hit."""
        for result, suffix in ((self.save, " at save"), (self.load, "")):
            if result.error or result.save_error:
                return "crash" + suffix
            if result.wrong:
                return "wrong" + suffix
        if self.scenario.served == ():
            return "right"
        return "miss" if self.missed() else "hit"

    @property
    def excused(self) -> bool:
        """The loading process failed as it may."""
        excuse, error = self.scenario.excuse, self.load.error
        return excuse is not None and error is not None and excuse in error

    def missed(self) -> list[str]:
        """The labels that compiled something although a package should have served them."""
        served = self.scenario.served
        labels = self.load.frames if served is None else served
        return [label for label in labels if self.load.frames.get(label) != 0]

    def __str__(self) -> str:
        return f"{self.scenario.name}: {self.verdict}\n  save {self.save}\n  load {self.load}"


def run(
    scenarios: Iterable[Scenario], mode: str, folder: Path, seed: Path | None = None
) -> dict[str, Outcome]:
    """Save all in one process and load all in another; those marked ``alone`` on their own."""
    scenarios = list(scenarios)
    together = [s for s in scenarios if not s.alone]
    batches = [together] if together else []
    batches += [[s] for s in scenarios if s.alone]
    outcomes: dict[str, Outcome] = {}
    for batch in batches:
        for scenario in batch:
            _prepare(scenario, folder / _module(scenario.name), seed)
        saved = _child(batch, mode, "save", folder)
        for scenario in batch:
            _edit(scenario, folder / _module(scenario.name))
            if scenario.sealed is not None:
                cache = "inductor" if mode == "torch" else "hotstart"
                _seal(folder / _module(scenario.name) / cache, scenario.sealed)
        loaded = _child(batch, mode, "load", folder)
        for scenario in batch:
            name = scenario.name
            outcomes[name] = Outcome(scenario, saved[name], loaded[name])
    return outcomes


def _prepare(scenario: Scenario, folder: Path, seed: Path | None) -> None:
    folder.mkdir(parents=True)
    for name in ("inductor", "hotstart"):
        (folder / name).mkdir(mode=0o700)
    if seed is not None:
        shutil.copytree(seed, folder / "inductor", dirs_exist_ok=True)
    _write(scenario, folder, scenario.source)


def _write(scenario: Scenario, folder: Path, source: str) -> None:
    text = "import torch\n\n" + textwrap.dedent(source)
    for suffix in ("", "_eager"):
        module = folder / f"{_module(scenario.name)}{suffix}.py"
        module.write_text(text)
        module.with_stem(module.stem + "_lib").write_text(textwrap.dedent(scenario.library))


def _edit(scenario: Scenario, folder: Path) -> None:
    if not scenario.edits:
        return
    parts = [scenario.source, scenario.library]
    for old, new in scenario.edits:
        assert any(old in part for part in parts), f"{scenario.name}: nothing to edit: {old!r}"
        parts = [part.replace(old, new) for part in parts]
    _write(dataclasses.replace(scenario, library=parts[1]), folder, parts[0])


NOBODY = 65534


def _seal(folder: Path, mode: int) -> None:
    """Give the folder and all in it to somebody else (if we can) and take rights away."""
    for path in (*folder.rglob("*"), folder):
        path.chmod(mode if path.is_dir() else mode & 0o666)
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)


def _weak_root() -> list[str]:
    """A prefix for commands in which root, too, is held to what files' modes say."""
    if os.getuid() != 0:
        return []
    capabilities = ",".join(f"-{c}" for c in ("dac_override", "dac_read_search", "fowner", "chown"))
    return ["setpriv", f"--bounding-set={capabilities}", "--inh-caps=-all"]


def _module(name: str) -> str:
    return "scenario_" + "".join(c if c.isalnum() else "_" for c in name)


def _child(batch: Sequence[Scenario], mode: str, phase: str, folder: Path) -> dict[str, Result]:
    jobs = [
        {"name": s.name, "module": _module(s.name), "folder": str(folder / _module(s.name))}
        for s in batch
    ]
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    for unwanted in ("TORCHINDUCTOR_CACHE_DIR", "HOTSTART_DIR", "HOTSTART_DISABLE", "TORCH_LOGS"):
        env.pop(unwanted, None)
    env["TORCH_CACHING_PRECOMPILE"] = "1" if mode == "torch" else "0"
    if phase == "load":
        env.update(dict(kv for s in batch for kv in s.load_env))
    prefix = _weak_root() if phase == "load" and any(s.sealed for s in batch) else []
    done = subprocess.run(
        [*prefix, sys.executable, __file__, mode, phase],
        input=json.dumps(jobs),
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    results: dict[str, Result] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            report = json.loads(line)
            name = report.pop("name")
            results[name] = Result(**report)
    for scenario in batch:
        # The process died, in this scenario or in one before it.
        tail = done.stderr.strip().splitlines()[-3:]
        died = Result(error=f"exit status {done.returncode}: {' / '.join(tail)}")
        results.setdefault(scenario.name, died)
    return results


# --------------------------------------------------------------------------- the child


def _main(mode: str, phase: str) -> None:
    jobs = json.load(sys.stdin)
    # Whatever programs print must not be taken for a report.
    out, sys.stdout = sys.stdout, sys.stderr
    import torch

    for job in jobs:
        folder = Path(job["folder"])
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        os.environ["HOTSTART_DIR"] = str(folder / "hotstart")
        sys.path.insert(0, str(folder))
        report = _run_job(job["module"], mode, phase)
        print(json.dumps({"name": job["name"], **dataclasses.asdict(report)}), file=out, flush=True)
        sys.path.remove(str(folder))
        if len(jobs) > 1:
            torch._dynamo.reset()


def _run_job(module: str, mode: str, phase: str) -> Result:
    import torch
    from torch._dynamo import bytecode_transformation
    from torch._dynamo.utils import counters

    report = Result()
    counters.clear()
    # Dynamo numbers the names that it puts into globals. Every scenario starts from the same
    # number, as it would in a process of its own, or names would not clash that do clash there.
    bytecode_transformation._unique_id_counter = itertools.count()
    with _logged(report.log), _packages(mode, report):
        actual: dict[str, Any] = {}
        try:
            for label, value in _import(module, eager=False).program(phase):
                actual[label] = _plain(value)
                report.frames[label] = counters["frames"]["total"] - sum(report.frames.values())
        except Exception as error:
            report.error = _describe(error)
    report.counters = {k: dict(v) for k, v in counters.items() if k in ("frames", "dynamo_cache")}

    real, torch.compile = torch.compile, _identity  # type: ignore[assignment]
    try:
        program = _import(f"{module}_eager", eager=True).program
        expected = {label: _plain(value) for label, value in program(phase)}
    finally:
        torch.compile = real  # type: ignore[assignment]
    for label, value in actual.items():
        difference = _difference(value, expected.get(label))
        if difference:
            report.wrong[label] = difference
    return report


@contextlib.contextmanager
def _packages(mode: str, report: Result) -> Iterator[None]:
    """Packages on, and saved at the end."""
    if mode == "plain":
        yield
        return
    if mode == "torch":
        yield
        from torch._dynamo.precompile_context import PrecompileContext

        try:
            PrecompileContext.save_to_dynamo_cache()
        except Exception as error:
            report.save_error = _describe(error)
        PrecompileContext.clear()
        return
    import hotstart

    with hotstart.enable():
        yield
        try:
            hotstart.save()
        except Exception as error:
            report.save_error = _describe(error)


@contextlib.contextmanager
def _logged(messages: list[str]) -> Iterator[None]:
    import logging

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(f"{record.name}: {record.getMessage()}"[:300])

    handler = Keep(logging.WARNING)
    # Torch's own loggers do not propagate to their parents.
    names = ("torch", "torch._dynamo", "torch._functorch", "torch._inductor", "hotstart")
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def _import(name: str, eager: bool) -> Any:
    import importlib.util

    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(EAGER=eager, LIB=f"{name}_lib")
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _identity(model: Any = None, **_: Any) -> Any:
    return (lambda model: model) if model is None else model


def _describe(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]} ({Path(last.filename).name}:{last.lineno})"


def _plain(value: Any) -> Any:
    """A snapshot of a value that later calls cannot change."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _difference(actual: Any, expected: Any) -> str | None:
    import torch

    if isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor):
        try:
            torch.testing.assert_close(actual, expected, equal_nan=True)
        except AssertionError:
            return f"{actual!r} instead of {expected!r}"[:300]
        return None
    if isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        found = (_difference(a, e) for a, e in zip(actual, expected, strict=True))
        return next((d for d in found if d), None)
    same = type(actual) is type(expected) and actual == expected
    return None if same else f"{actual!r} instead of {expected!r}"[:300]


if __name__ == "__main__":
    _main(*sys.argv[1:])
