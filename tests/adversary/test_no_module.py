"""Code that is in no module's file: ``python -c``, a notebook's cells. Here a change shows in no
source that could be read again, only in what the code does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _seed import kernel_seed

_PROGRAM = """
import functools, json, torch, hotstart
from torch._dynamo.utils import counters
hotstart.enable()
def helper(x): return x * K
class C:
    def m(self, x): return x * K
c = C()
def deco(fn):
    @functools.wraps(fn)
    def wrapper(*a): return fn(*a) * K
    return wrapper
@deco
def decorated(x): return x * 1.0
def outer(x):
    def inner(y): return y * K
    return inner(x)
def calls_helper(x): return helper(x)
def calls_method(x): return c.m(x)
def calls_decorated(x): return decorated(x)
def calls_nested(x): return outer(x)
def breaks(x):
    torch._dynamo.graph_break()
    return helper(x) + 0
for f in (calls_helper, calls_method, calls_decorated, calls_nested, breaks):
    found = torch.compile(f)(torch.ones(4)).tolist()
    print(json.dumps([f.__name__, found, counters["stats"]["unique_graphs"]]))
    counters.clear()
"""

_CELL = """
import linecache, __main__
source = {program!r}
name = "<ipython-input-1>"
linecache.cache[name] = (len(source), None, source.splitlines(True), name)
exec(compile(source, name, "exec"), __main__.__dict__)
"""


@pytest.mark.parametrize("kind", ["command", pytest.param("cell", marks=pytest.mark.slow)])
def test_changed_code_of_no_module(tmp_path: Path, pytestconfig: pytest.Config, kind: str) -> None:
    shutil.copytree(kernel_seed(pytestconfig), tmp_path / "inductor")
    env = dict(
        os.environ,
        OMP_NUM_THREADS="1",
        HOTSTART_DIR=str(tmp_path / "hotstart"),
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"),
    )

    def run(k: str) -> dict[str, tuple[list[float], int]]:
        program = _PROGRAM.replace("K", k)
        program = _CELL.format(program=program) if kind == "cell" else program
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        return {name: (found, graphs) for name, found, graphs in lines}

    names = ["calls_helper", "calls_method", "calls_decorated", "calls_nested", "breaks"]
    assert run("2.0") == dict.fromkeys(names, ([2.0] * 4, 1))
    assert run("2.0") == dict.fromkeys(names, ([2.0] * 4, 0))
    assert run("3.0") == dict.fromkeys(names, ([3.0] * 4, 1))
