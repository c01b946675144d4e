"""The world of a compiled function changes between save and load, and no source line does.

What Dynamo guards on is often reached through a module, a class or a function. torch's pickle of
the guard state holds those by name, and the guards are built at load from what the name leads to
then: the guard asks for the new value, and the code made for the old one is served.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _seed import kernel_seed

from adversary.worlds import WORLD, WORLDS

torch = pytest.importorskip("torch")

Results = dict[str, dict[str, Any]]


def _process(folder: Path, world: str) -> Results:
    env = dict(
        os.environ,
        W=world,
        OMP_NUM_THREADS="1",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONPATH=str(folder / "programs"),
        HOTSTART_DIR=str(folder / "hotstart"),
        TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
    )
    runner = Path(__file__).with_name("runner.py")
    done = subprocess.run(
        [sys.executable, str(runner), *WORLDS],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: line for line in lines}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Results:
    """What the second process saw, in which the world is another one."""
    folder = tmp_path_factory.mktemp("worlds")
    shutil.copytree(kernel_seed(pytestconfig), folder / "inductor")
    programs = folder / "programs"
    programs.mkdir()
    (programs / "world.py").write_text(WORLD)
    for sources in WORLDS.values():
        for name, source in sources.items():
            (programs / f"{name}.py").write_text(source)
    saved = _process(folder, "1")
    assert not [r for r in saved.values() if r["name"] and (r["crash"] or r["wrong"])]
    return _process(folder, "2")


# What torch's own guards take for the same, on the releases before 2.15.
_OLDER = torch.__version__.startswith(("2.13", "2.14"))
_SHARED = {"negzero": "Dynamo's own guard takes -0.0 for 0.0, since it compares with =="}


def _marked(name: str) -> Any:
    marks = pytest.mark.xfail(_OLDER, reason=_SHARED[name]) if name in _SHARED else ()
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", map(_marked, WORLDS))
def test_the_new_world_counts(changed: Results, name: str) -> None:
    result = changed[name]
    assert result["crash"] is None
    assert result["wrong"] is None
