"""Real models come back in another process: nothing is compiled, and the answers are the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from models.conftest import Saved, folders, run

pytest.importorskip("torch")
pytest.importorskip("transformers")

# Each takes a compile of half a minute, so ordinary runs do with one of either mode.
QUICK = {("llama", "inference"), ("resnet", "training")}
CASES = [
    pytest.param(
        name, mode, id=f"{name}-{mode}", marks=() if (name, mode) in QUICK else pytest.mark.slow
    )
    for name in ("llama", "gpt2", "bert", "vit", "resnet")
    for mode in ("inference", "training")
]


@pytest.fixture(scope="module")
def processes(saved: Callable[[str, str], Saved]) -> Any:
    """What the process that saved and one that loaded said of a model, by name and mode."""

    @cache
    def run_both(name: str, mode: str) -> tuple[dict[str, Any], dict[str, Any]]:
        package = saved(name, mode)
        return package.said, run("_child.py", name, mode, folders(package.folder))

    return run_both


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_fresh_process_compiles_nothing(processes: Any, name: str, mode: str) -> None:
    saved, loaded = processes(name, mode)
    assert saved["graphs"] >= 1, "nothing was compiled, so nothing can be saved"
    assert loaded["outcome"] == "hit", loaded
    assert loaded["graphs"] == 0, loaded
    assert loaded["missed"] == [], loaded


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_no_guard_is_given_up(processes: Any, name: str, mode: str) -> None:
    saved, _ = processes(name, mode)
    assert saved["given_up"] == []
    assert saved["guards"], "no guard was counted"
    assert all(count["given_up"] == 0 for count in saved["guards"].values()), saved["guards"]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_the_answers_are_the_same(processes: Any, name: str, mode: str) -> None:
    saved, loaded = processes(name, mode)
    assert saved["equal_to_eager"], saved
    assert loaded["equal_to_eager"], loaded
    assert loaded["digest"] == saved["digest"]
