"""Models that are compiled and saved once, however many tests load them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Saved:
    """A model's package, in ``folder / "hotstart"``, and what the process said that made it."""

    folder: Path
    said: dict[str, Any]


def run(script: str, name: str, mode: str, env: Mapping[str, str]) -> dict[str, Any]:
    """What a fresh process of the ``script`` beside this file says of a model."""
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, _FOLDER / script, name, mode],
        env={**os.environ, **quiet, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def folders(folder: Path) -> dict[str, str]:
    return {
        "HOTSTART_DIR": str(folder / "hotstart"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Saved]:
    """Compiles and saves a model, by its name and its mode."""

    @cache
    def save(name: str, mode: str) -> Saved:
        folder = tmp_path_factory.mktemp(f"{name}-{mode}")
        return Saved(folder, run("_child_portable.py", name, mode, folders(folder)))

    return save
