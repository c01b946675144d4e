"""publish(): complete or not at all, whatever happens around it."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import samples

from hotstart._core import TEMPORARY_PREFIX, Container, build_container, publish

OLD = build_container([(1, 0, 0, b"old" * 1000), (2, 0, 0, b"old" * 5000)])
NEW = build_container([(1, 0, 0, b"new" * 20)])


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_a_new_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.hotstart"
    publish(path, b"x" * size)
    assert path.read_bytes() == b"x" * size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["a.hotstart"]


def test_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        publish(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_paths_and_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publish("plain", bytearray(b"1"))
    publish(os.fsencode("bytes"), memoryview(b"_2")[1:])
    publish("./dotted", b"3")
    publish(tmp_path / "absolute", b"4")
    read = {name: Path(name).read_bytes() for name in names(tmp_path)}
    assert read == {"plain": b"1", "bytes": b"2", "dotted": b"3", "absolute": b"4"}
    with pytest.raises(TypeError):
        publish("a", "text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="null byte"):
        publish("a\0b", b"")


def test_a_target_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for path in (str(tmp_path / "a"), f"{tmp_path}/a/", f"{tmp_path}/a/.", f"{tmp_path}/a/.."):
        with pytest.raises(IsADirectoryError) as caught:
            publish(path, b"x")
        assert caught.value.filename == path
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        publish(tmp_path / "none" / "a", b"x")
    assert caught.value.filename == str(tmp_path / "none" / "a")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        publish(tmp_path / "file" / "a", b"x")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long") as caught:
        publish(tmp_path / ("n" * 300), b"x")
    assert caught.value.errno == errno.ENAMETOOLONG
    assert names(tmp_path) == []


def test_the_longest_name(tmp_path: Path) -> None:
    publish(tmp_path / ("n" * 255), b"x")
    assert names(tmp_path) == ["n" * 255]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"untouched")
    (tmp_path / "a").symlink_to("other")
    publish(tmp_path / "a", b"x")
    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "other").read_bytes() == b"untouched"


def test_a_read_only_folder() -> None:
    # Outside pytest's own folders, which another user cannot enter.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        target = os.path.join(folder, "a")
        child = os.fork()
        if child == 0:
            outcome = 1
            try:
                if os.geteuid() == 0:
                    os.seteuid(65534)
                publish(target, b"x")
            except PermissionError as error:
                outcome = 0 if error.filename == target else 2
            finally:
                os._exit(outcome)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert os.listdir(folder) == []


FILE_SIZE_LIMIT = """
import resource, signal, sys
from hotstart._core import publish
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    publish(sys.argv[1], b"n" * 50_000)
except OSError as error:
    sys.exit(f"{error.errno} {error.filename}")
"""


def test_a_write_that_stops_half_way(tmp_path: Path) -> None:
    """The limit lets the first write do a part and refuses the second, as a full disk does."""
    path = tmp_path / "a.hotstart"
    publish(path, OLD)
    command = [sys.executable, "-c", FILE_SIZE_LIMIT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == f"{errno.EFBIG} {path}"
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["a.hotstart"]


def test_a_full_disk(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small tmpfs")
    try:
        path = tmp_path / "a.hotstart"
        publish(path, OLD)
        with pytest.raises(OSError, match="No space left") as caught:
            publish(path, b"n" * 200_000)
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(path)
        assert path.read_bytes() == OLD
        assert names(tmp_path) == ["a.hotstart"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("load", [Container.open, Container.read])
def test_rewrite_while_mapped(load, tmp_path: Path) -> None:
    path = tmp_path / "a.hotstart"
    publish(path, OLD)
    old = load(path)
    seen = old.get(1)
    publish(path, NEW)
    assert seen == b"old" * 1000
    assert old.get(2) == b"old" * 5000  # first touched after the rewrite
    old.verify()
    assert load(path).get(1) == b"new" * 20
    path.unlink()
    assert seen == b"old" * 1000


@pytest.mark.parametrize("load", [Container.open, Container.read])
def test_what_is_no_package_file(load, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load(tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Invalid argument"):
        load(tmp_path / "pipe")
    with pytest.raises(OSError, match="Invalid argument"):
        load("/dev/null")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ValueError, match="expected at least 40 bytes, found 0"):
        load(tmp_path / "empty")


def test_a_file_whose_size_is_a_fiction() -> None:
    """sysfs says 4096 bytes, cannot map, and reads less."""
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    if not os.path.exists(path):
        pytest.skip("no sysfs")
    with pytest.raises(ValueError, match=r"too short|wrong magic"):
        Container.open(path)


WRITER = """
import os, sys, time
from hotstart._core import build_container, publish
path, fill, end = sys.argv[1], sys.argv[2].encode(), time.monotonic() + float(sys.argv[3])
data = build_container([(i, 0, 0, fill * (997 * i)) for i in range(1, 7)])
count = 0
while time.monotonic() < end:
    publish(path, data)
    count += 1
print(count)
"""


def test_many_writers_and_readers_of_one_path(tmp_path: Path) -> None:
    path = tmp_path / "a.hotstart"
    publish(path, build_container([(i, 0, 0, b"0" * (997 * i)) for i in range(1, 7)]))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), fill, "1.5"], stdout=subprocess.PIPE
        )
        for fill in "abcd"
    ]
    reads = 0
    seen = set()
    while any(writer.poll() is None for writer in writers):
        container = (Container.open if reads % 2 else Container.read)(path)
        container.verify()
        contents = b"".join(container.get(kind) for kind in range(1, 7))
        assert len(contents) == 997 * 21
        assert len(set(contents)) == 1
        seen.add(contents[0])
        reads += 1
    written = [int(writer.communicate(timeout=60)[0]) for writer in writers]
    assert all(writer.returncode == 0 for writer in writers)
    assert min(written) > 0
    assert reads > 10
    assert len(seen) > 1
    assert names(tmp_path) == ["a.hotstart"]


def test_threads_publish_too(tmp_path: Path) -> None:
    path = tmp_path / "a.hotstart"
    variants = [build_container([(1, 0, 0, bytes([i]) * 5000)]) for i in range(4)]
    threads = [
        threading.Thread(target=lambda data=data: [publish(path, data) for _ in range(20)])
        for data in variants
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in variants
    assert names(tmp_path) == ["a.hotstart"]


KILLED = """
import sys
from hotstart._core import publish
data = b"n" * (64 << 20)
print("ready", flush=True)
while True:
    publish(sys.argv[1], data)
"""


def test_kill_9_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.hotstart"
    publish(path, OLD)
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and len(names(tmp_path)) < 2:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    left = [name for name in names(tmp_path) if name != "a.hotstart"]
    assert len(left) <= 1
    assert all(name.startswith(TEMPORARY_PREFIX) for name in left)
    size = path.stat().st_size
    assert path.read_bytes() == OLD if size == len(OLD) else size == 64 << 20
    publish(path, samples.small())  # the leftover is in nobody's way
    assert path.read_bytes() == samples.small()
