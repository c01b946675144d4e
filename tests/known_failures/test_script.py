"""A plain script, run twice: nothing but ``hotstart.enable()`` in it, saved when it ends."""

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

SCRIPT = """\
import json
import sys

import torch

import hotstart

hotstart.enable()


def helper(x):
    return x * 2


@torch.compile
def fn(x):
    return helper(x)


result = fn(torch.ones(4))
from torch._dynamo.utils import counters

print(json.dumps({"result": result.tolist(), "frames": counters["frames"]["total"]}), flush=True)
"""

ENDINGS = {
    "end of file": ("", 0),
    "sys.exit": ("sys.exit(3)\n", 3),
    "exception": ("raise RuntimeError('unrelated')\n", 1),
}


def start(script: Path, tmp_path: Path, **env: str) -> tuple[dict[str, Any], int, str]:
    done = subprocess.run(
        [sys.executable, str(script)],
        env=dict(
            os.environ,
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"),
            HOTSTART_DIR=str(tmp_path / "hotstart"),
            **env,
        ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode, done.stderr


@pytest.fixture
def script(tmp_path: Path, pytestconfig: pytest.Config) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("hotstart.package")
    shutil.copytree(kernel_seed(pytestconfig), tmp_path / "inductor")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    "ending", ["end of file", pytest.param("sys.exit", marks=pytest.mark.slow), "exception"]
)
def test_saved_at_exit(script: Path, tmp_path: Path, ending: str) -> None:
    text, status = ENDINGS[ending]
    script.write_text(SCRIPT + text)
    first, code, stderr = start(script, tmp_path)
    assert (first, code) == ({"result": [2.0] * 4, "frames": 1}, status), stderr

    again, code, stderr = start(script, tmp_path)
    assert (again, code) == ({"result": [2.0] * 4, "frames": 0}, status), stderr

    script.write_text((SCRIPT + text).replace("x * 2", "x * 3"))
    changed, code, stderr = start(script, tmp_path)
    assert (changed, code) == ({"result": [3.0] * 4, "frames": 1}, status), stderr


def test_switched_off(script: Path, tmp_path: Path) -> None:
    report, code, stderr = start(script, tmp_path, HOTSTART_DISABLE="1")
    assert (report, code) == ({"result": [2.0] * 4, "frames": 1}, 0), stderr
    assert not (tmp_path / "hotstart").exists()
