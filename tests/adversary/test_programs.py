"""Programs full of scenarios, each run in a process that saves and then in one that loads.

What fails today is in ``_FAILS``, by program, process and scenario.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _seed import kernel_seed

_PROGRAMS = Path(__file__).with_name("programs")

# One process is enough for what goes wrong within one.
_ONE_PROCESS = {"bypassed", "store"}

_SLOW = {"options"}

_FAILS: dict[tuple[str, str, str], str] = {}


def _cases() -> list[Any]:
    found = []
    for file in sorted(_PROGRAMS.glob("*.py")):
        names = re.findall(r"^@scenario\ndef (\w+)", file.read_text(), re.MULTILINE)
        for world in ("1",) if file.stem in _ONE_PROCESS else ("1", "2"):
            for name in names:
                case = (file.stem, world, name)
                marks = [pytest.mark.xfail(reason=_FAILS[case])] if case in _FAILS else []
                marks += [pytest.mark.slow] if file.stem in _SLOW else []
                found.append(pytest.param(*case, marks=marks))
    return found


Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Callable[[str, str], Results]:
    @functools.cache
    def folder_of(program: str) -> Path:
        folder = tmp_path_factory.mktemp(program)
        shutil.copytree(kernel_seed(pytestconfig), folder / "inductor")
        return folder

    @functools.cache
    def run(program: str, world: str) -> Results:
        if world == "2":
            run(program, "1")
        folder = folder_of(program)
        env = dict(
            os.environ,
            W=world,
            OMP_NUM_THREADS="1",
            PYTHONDONTWRITEBYTECODE="1",
            HOTSTART_DIR=str(folder / "hotstart"),
            TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
        )
        done = subprocess.run(
            [sys.executable, str(_PROGRAMS / f"{program}.py")],
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {line["name"]: line for line in lines}

    return run


@pytest.mark.parametrize(("program", "world", "name"), _cases())
def test_program(
    results: Callable[[str, str], Results], program: str, world: str, name: str
) -> None:
    assert results(program, world)[name]["problem"] is None
