"""Kernels travel with a package: what is in a graph, they run where nothing can be compiled."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

CHILD = Path(__file__).with_name("_child.py")
SHARED = [f"shared_{number}" for number in range(10)]
PROGRAMS = [
    "several_kernels",
    "dynamic_shape",
    "constant_in_graph",
    "constant_in_global",
    "mutation",
    "outputs_that_alias",
    "graph_break",
    "backward",
    "bfloat16",
    "no_kernel_for_a_part",
    "no_kernel",
]


def run(phase: str, programs: list[str], env: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, CHILD, phase, *programs],
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads(done.stdout), "log": done.stderr}


def host(folder: Path, package: Path, *, barren: bool) -> dict[str, str]:
    """The environment of a host with a copy of ``package``; a barren one has nothing else."""
    shutil.copytree(package, folder / "copied")
    (folder / "inductor").mkdir()
    env = {
        "HOTSTART_DIR": str(folder / "copied"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    if not barren:
        return env
    for path in (folder / "inductor", *folder.joinpath("copied").rglob("*"), folder / "copied"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    empty = str(folder / "inductor")
    return {**env, "PYTHONDONTWRITEBYTECODE": "1", "PATH": empty, "HOME": empty, "TMPDIR": empty}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a process that compiled every program."""
    folder = tmp_path_factory.mktemp("package")
    env = {
        "HOTSTART_DIR": str(folder / "hotstart"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    said = run("save", PROGRAMS + SHARED, env)
    assert said["saved"] == len(said["programs"]), said
    assert said["started"], "the audit hook hears nothing"
    assert said["wrote"], "the audit hook hears nothing"
    for name, row in said["programs"].items():
        assert row["error"] is None, (name, row)
        assert row["right"], (name, row)
        assert row["given_up"] == [], (name, row)
    return folder / "hotstart"


@pytest.fixture(scope="module")
def on_a_barren_host(package: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    env = host(tmp_path_factory.mktemp("host"), package, barren=True)
    return run("load", PROGRAMS + SHARED, env)


@pytest.mark.parametrize("name", PROGRAMS + SHARED[:1])
def test_a_program_on_a_barren_host(on_a_barren_host: dict[str, Any], name: str) -> None:
    row = on_a_barren_host["programs"][name]
    assert row["error"] is None, row
    assert row["right"], row
    assert row["graphs"] == 0, row
    assert row["outcome"] == "hit", row


def test_nothing_is_started_or_written(on_a_barren_host: dict[str, Any]) -> None:
    assert on_a_barren_host["started"] == []
    assert on_a_barren_host["wrote"] == []


def test_a_lesser_cpu_is_served_nothing(package: Path, tmp_path: Path) -> None:
    env = host(tmp_path, package, barren=False)
    said = run("load on a lesser CPU", [SHARED[0]], env)
    row = said["programs"][SHARED[0]]
    assert row["outcome"] == "miss", row
    assert "only one for another cpu." in row["reason"], row
    assert "architecture" not in row["reason"], row
    assert row["graphs"] == 1, row
    assert row["right"], row


def test_a_backward_that_was_never_compiled(tmp_path: Path) -> None:
    """Then half of the graph is missing: it is not kept, and the next process compiles it."""
    env = {
        "HOTSTART_DIR": str(tmp_path / "hotstart"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    first = run("save", ["backward_only_later"], env)["programs"]["backward_only_later"]
    assert "gave nothing that can be saved" in json.dumps(first), first
    then = run("load", ["backward_only_later"], env)["programs"]["backward_only_later"]
    assert then["right"], then
    assert then["graphs"] == 1, then
    later = run("load", ["backward_only_later"], env)["programs"]["backward_only_later"]
    assert later["right"], later
    assert later["outcome"] == "hit", later


def indexed(package: Path) -> list[Path]:
    (folder,) = (path for path in (package / "kernels").iterdir() if path.is_dir())
    return sorted(path for path in folder.iterdir() if not path.suffix)


def test_ten_packages_keep_their_kernel_once(tmp_path: Path) -> None:
    env = {
        "HOTSTART_DIR": str(tmp_path / "hotstart"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    assert run("save", SHARED, env)["saved"] == 10
    assert len(list((tmp_path / "hotstart").glob("*/entry"))) == 10
    assert len(list((tmp_path / "hotstart" / "kernels").glob("*.so"))) == 1
    assert len(indexed(tmp_path / "hotstart")) == 1


def damaged(store: Path) -> None:
    for library in (store / "kernels").glob("*.so"):
        library.write_bytes(library.read_bytes()[:-1])


def cut_from_the_index(store: Path) -> None:
    for file in indexed(store):
        file.write_bytes(file.read_bytes()[:-1])


def made_elsewhere(store: Path) -> None:
    """Puts libraries in place that the dynamic loader refuses, as it does those that need a newer
    libstdc++."""
    from hotstart.store.kernels import KernelStore

    content = b"No library. " * 1000
    for file in indexed(store):
        file.unlink()
        fake = store.parent / "fake"
        fake.write_bytes(content)
        KernelStore(str(store), file.parent.name).add(file.name, str(fake))
    assert (store / "kernels" / f"{hashlib.sha256(content).hexdigest()}.so").exists()


def gone(store: Path) -> None:
    shutil.rmtree(store / "kernels")


DAMAGES = [damaged, cut_from_the_index, made_elsewhere, gone]


@pytest.mark.parametrize("change", DAMAGES)
def test_kernels_that_cannot_be_used(
    package: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """They are compiled again, which gives the right answer."""
    env = host(tmp_path, package, barren=False)
    change(tmp_path / "copied")
    said = run("load", ["backward", SHARED[0]], env)
    for row in said["programs"].values():
        assert row["error"] is None, row
        assert row["right"], row
    assert said["started"], "nothing was compiled"


@pytest.mark.parametrize("change", DAMAGES)
def test_kernels_that_cannot_be_used_on_a_barren_host(
    package: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """The package misses, and the compile fails as torch's does where there is no compiler."""
    env = host(tmp_path, package, barren=True)
    for path in (tmp_path / "copied").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (tmp_path / "copied").chmod(0o700)
    change(tmp_path / "copied")
    said = run("load", [SHARED[0]], env)
    row = said["programs"][SHARED[0]]
    assert row["outcome"] == "miss", row
    assert "compiler" in row["error"], row


def test_what_the_loader_said_is_told(package: Path, tmp_path: Path) -> None:
    env = host(tmp_path, package, barren=False)
    made_elsewhere(tmp_path / "copied")
    said = run("load", [SHARED[0]], env)
    (note,) = said["programs"][SHARED[0]]["notes"]
    assert "a compiled kernel cannot be opened here: ImportError" in note
    assert "invalid ELF header" in note
    assert note in said["log"]
