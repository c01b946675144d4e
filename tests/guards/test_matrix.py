"""What a guard plan means in the process that loads it is what the guards meant where they were
made: the same tree, and the same verdict on every call of `_cases`."""

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

torch = pytest.importorskip("torch")

from guards import _cases  # noqa: E402

CHILD = Path(__file__).with_name("_child.py")
SERVED = [case for case in _cases.CASES if case.refused is None]
REFUSED = [case for case in _cases.CASES if case.refused is not None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    folder = tmp_path_factory.mktemp("matrix")
    shutil.copytree(kernel_seed(pytestconfig), folder / "inductor")
    return folder


def run(folder: Path) -> dict[str, Any]:
    env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"), OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, CHILD, folder / "packages"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def saved(folder: Path) -> dict[str, Any]:
    """What each case met in the process that compiled it."""
    return run(folder)


@pytest.fixture(scope="module")
def loaded(saved: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What each case met in a process that loaded it."""
    return run(folder)


def by_name(case: _cases.Case) -> str:
    return case.name


def test_each_case_can_fail() -> None:
    assert [case.name for case in SERVED if not case.misses] == []


@pytest.mark.parametrize("case", SERVED, ids=by_name)
def test_calls_are_taken_and_refused_where_it_was_compiled(
    saved: dict[str, Any], case: _cases.Case
) -> None:
    met = saved[case.name]
    assert met["graphs"] >= 1
    assert met["saved"] == ["hit"] * len(case.saved)
    assert met["calls"] == dict.fromkeys(case.hits, "hit") | dict.fromkeys(case.misses, "miss")


@pytest.mark.parametrize("case", SERVED, ids=by_name)
def test_calls_are_taken_and_refused_where_it_was_loaded(
    loaded: dict[str, Any], case: _cases.Case
) -> None:
    met = loaded[case.name]
    assert met["graphs"] == 0, met["rows"]
    assert met["saved"] == ["hit"] * len(case.saved)
    assert met["calls"] == dict.fromkeys(case.hits, "hit") | dict.fromkeys(case.misses, "miss")


@pytest.mark.parametrize("case", SERVED, ids=by_name)
def test_the_tree_is_the_same(
    saved: dict[str, Any], loaded: dict[str, Any], case: _cases.Case
) -> None:
    assert saved[case.name]["trees"] != []
    assert loaded[case.name]["trees"] == saved[case.name]["trees"]


@pytest.mark.parametrize("case", SERVED, ids=by_name)
def test_every_guard_is_kept(saved: dict[str, Any], case: _cases.Case) -> None:
    [row] = saved[case.name]["rows"]
    assert row["given_up"] == []
    assert row["guards"] != {}
    for count in row["guards"].values():
        assert count["kept"] == count["recorded"]
        assert count["given_up"] == 0


@pytest.mark.parametrize("case", REFUSED, ids=by_name)
def test_what_is_not_saved_says_why(
    saved: dict[str, Any], loaded: dict[str, Any], case: _cases.Case
) -> None:
    given_up = [what for row in saved[case.name]["rows"] for what in row["given_up"]]
    assert any(case.refused in what["reason"] for what in given_up), given_up
    assert loaded[case.name]["graphs"] == saved[case.name]["graphs"]
    assert loaded[case.name]["saved"] == ["hit"] * len(case.saved)
