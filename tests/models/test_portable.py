"""A package is complete: with no compiler, no inductor cache and nothing to write to, on another
path, a model comes back, runs, and starts no process.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from models.conftest import Saved, run

pytest.importorskip("torch")
pytest.importorskip("transformers")

QUICK = {("demo", "training"), ("llama", "inference"), ("resnet", "training")}
CASES = [
    pytest.param(
        name, mode, id=f"{name}-{mode}", marks=() if (name, mode) in QUICK else pytest.mark.slow
    )
    for name in ("demo", "llama", "gpt2", "bert", "vit", "resnet")
    for mode in ("inference", "training")
]


def barren(folder: Path, package: Path) -> dict[str, str]:
    """The environment of a host below ``folder`` that has nothing but a copy of ``package``."""
    shutil.copytree(package, folder / "copied")
    (folder / "empty").mkdir()
    for path in (folder / "empty", *folder.joinpath("copied").rglob("*"), folder / "copied"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    empty = str(folder / "empty")
    return {
        "HOTSTART_DIR": str(folder / "copied"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(("PATH", "HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR"), empty),
    }


@pytest.fixture(scope="module")
def on_a_barren_host(
    saved: Callable[[str, str], Saved], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What the process that saved and one on a barren host said of a model."""

    @cache
    def load(name: str, mode: str) -> tuple[dict[str, Any], dict[str, Any]]:
        package = saved(name, mode)
        env = barren(tmp_path_factory.mktemp("host"), package.folder / "hotstart")
        return package.said, run("_child_portable.py", name, mode, env)

    return load


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_the_model_is_served(on_a_barren_host: Any, name: str, mode: str) -> None:
    saved, loaded = on_a_barren_host(name, mode)
    assert saved["graphs"] >= 1
    assert loaded["outcome"] == "hit", loaded
    assert loaded["graphs"] == 0, loaded
    assert loaded["equal_to_eager"], loaded
    assert loaded["digest"] == saved["digest"]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_no_process_is_started(on_a_barren_host: Any, name: str, mode: str) -> None:
    saved, loaded = on_a_barren_host(name, mode)
    assert saved["started"], "nothing was heard where the compiler was started"
    assert loaded["started"] == []


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_nothing_is_written(on_a_barren_host: Any, name: str, mode: str) -> None:
    saved, loaded = on_a_barren_host(name, mode)
    assert saved["wrote"], "nothing was heard where a package was written"
    assert loaded["wrote"] == []
