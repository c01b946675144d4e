"""Failing system calls: the target keeps its old bytes, the error says why, no litter stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import samples

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or COMPILER is None, reason="needs LD_PRELOAD and a C compiler"
)

PRELUDE = """
import ctypes, errno, os, sys
from hotstart import _core, errors
faults = ctypes.CDLL(None)
folder, target = sys.argv[1], os.path.join(sys.argv[1], "a.hotstart")
def arm(name, error=0):
    faults.faults_arm(name.encode(), error)
def fails(error, call, *arguments):
    try:
        call(*arguments)
    except OSError as caught:
        arm("")
        assert (caught.errno, caught.filename) == (error, target), caught
    else:
        arm("")
        raise AssertionError("no error")
def litter():
    return sorted(os.listdir(folder))
"""


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("faults") / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", out, source, "-ldl"], check=True)
    return out


def run(shim: Path, folder: Path, code: str) -> None:
    # After a sanitizer's library, which insists on being the first.
    preload = f"{os.environ.get('LD_PRELOAD', '')} {shim}".strip()
    environment = {**os.environ, "LD_PRELOAD": preload}
    command = [sys.executable, "-c", PRELUDE + code, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT", "EIO"])
@pytest.mark.parametrize("call", ["write", "second-write", "fsync", "renameat"])
def test_a_failing_call(shim: Path, tmp_path: Path, call: str, error: str) -> None:
    (tmp_path / "a.hotstart").write_bytes(b"old")
    run(
        shim,
        tmp_path,
        f"""
arm({call!r}, errno.{error})
fails(errno.{error}, _core.publish, target, b"new" * 1000)
assert litter() == ["a.hotstart"], litter()
assert open(target, "rb").read() == b"old"
""",
    )


def test_a_folder_that_cannot_be_synced(shim: Path, tmp_path: Path) -> None:
    """EINVAL: the filesystem has no such thing. EIO: published, but not known to be durable."""
    run(
        shim,
        tmp_path,
        """
arm("fsync-folder", errno.EINVAL)
_core.publish(target, b"one")
assert faults.faults_calls() == 1
arm("fsync-folder", errno.EIO)
fails(errno.EIO, _core.publish, target, b"two")
assert litter() == ["a.hotstart"]
assert open(target, "rb").read() == b"two"
""",
    )


def test_file_and_folder_are_synced(shim: Path, tmp_path: Path) -> None:
    code = """
arm("count-fsync")
_core.publish(target, b"one")
assert faults.faults_calls() == 2
"""
    run(shim, tmp_path, code)


def test_short_and_interrupted_calls(shim: Path, tmp_path: Path) -> None:
    run(
        shim,
        tmp_path,
        """
data = _core.build_container([(1, 0, 0, bytes(range(256)))])
arm("short-writes")
_core.publish(target, data)
assert faults.faults_calls() > len(data)
arm("fsync-interrupted")
_core.publish(target, data)
arm("short-reads")
container = _core.Container.read(target)
assert faults.faults_calls() > len(data) // 7
arm("")
assert memoryview(container) == data
container.verify()
""",
    )


@pytest.mark.parametrize("error", ["ENODEV", "EINVAL", "EACCES", "ENOSYS"])
def test_a_filesystem_that_cannot_map(shim: Path, tmp_path: Path, error: str) -> None:
    (tmp_path / "a.hotstart").write_bytes(samples.small())
    run(
        shim,
        tmp_path,
        f"""
arm("mmap", errno.{error})
container = _core.Container.open(target)
arm("")
assert not container.mapped
assert container.get(1) == b"strings"
""",
    )


def test_errors_while_reading(shim: Path, tmp_path: Path) -> None:
    (tmp_path / "a.hotstart").write_bytes(samples.small())
    run(
        shim,
        tmp_path,
        """
arm("mmap", errno.ENOMEM)
fails(errno.ENOMEM, _core.Container.open, target)
arm("read", errno.EIO)
fails(errno.EIO, _core.Container.read, target)
""",
    )
