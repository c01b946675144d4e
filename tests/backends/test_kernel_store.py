"""The store of compiled kernels: each library once, nothing damaged, nothing of another's."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import types
from pathlib import Path

import pytest

from hotstart.store.kernels import KernelStore

KERNEL, OTHER = "1" * 64, "2" * 64
CODE = compile("value = 1", "<wrapper>", "exec")


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(str(tmp_path / "store"), "environment")


def library(folder: Path, content: bytes = b"a library") -> str:
    file = folder / hashlib.sha256(content).hexdigest()[:8]
    file.write_bytes(content)
    return str(file)


def libraries(folder: Path) -> list[Path]:
    return sorted((folder / "store" / "kernels").glob("*.so"))


def index(folder: Path, name: str) -> Path:
    return folder / "store" / "kernels" / "environment" / name


def test_what_is_added_is_found(store: KernelStore, tmp_path: Path) -> None:
    store.add(KERNEL, library(tmp_path))
    found = store.find(KERNEL)
    assert found is not None
    file, checksum = found
    assert Path(file).read_bytes() == b"a library"
    assert checksum == hashlib.sha256(b"a library").hexdigest()
    assert store.find(OTHER) is None


def test_an_empty_store(store: KernelStore, tmp_path: Path) -> None:
    assert not store.exists()
    assert store.find(KERNEL) is None
    assert store.find_code(KERNEL) is None
    assert not (tmp_path / "store").exists()


def test_another_environment_has_its_own(store: KernelStore, tmp_path: Path) -> None:
    store.add(KERNEL, library(tmp_path))
    store.add_code(OTHER, CODE)
    other = KernelStore(str(tmp_path / "store"), "elsewhere")
    assert not other.exists()
    assert other.find(KERNEL) is None
    assert other.find_code(OTHER) is None


def test_kernels_with_the_same_library_share_it(store: KernelStore, tmp_path: Path) -> None:
    for number in range(10):
        store.add(f"{number:064}", library(tmp_path))
        KernelStore(str(tmp_path / "store"), "elsewhere").add(f"{number:064}", library(tmp_path))
    assert len(libraries(tmp_path)) == 1


def test_adding_again_writes_nothing(store: KernelStore, tmp_path: Path) -> None:
    store.add(KERNEL, library(tmp_path))
    store.add_code(OTHER, CODE)
    files = [*libraries(tmp_path), index(tmp_path, KERNEL), index(tmp_path, f"{OTHER}.code")]
    before = [file.stat().st_ino for file in files]
    store.add(KERNEL, library(tmp_path))
    store.add_code(OTHER, CODE)
    assert [file.stat().st_ino for file in files] == before


@pytest.mark.parametrize("damage", [b"", b"a librarz", b"a library and more", b"a"])
def test_a_damaged_library_is_missing_until_replaced(
    store: KernelStore, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.add(KERNEL, library(tmp_path))
    libraries(tmp_path)[0].write_bytes(damage)
    assert store.find(KERNEL) is None
    assert "damaged" in caplog.text
    store.add(KERNEL, library(tmp_path))
    assert store.find(KERNEL) is not None


def test_a_library_that_went_away(store: KernelStore, tmp_path: Path) -> None:
    store.add(KERNEL, library(tmp_path))
    libraries(tmp_path)[0].unlink()
    assert store.find(KERNEL) is None
    store.add(KERNEL, library(tmp_path))
    assert store.find(KERNEL) is not None


@pytest.mark.parametrize("name", [KERNEL, f"{OTHER}.code"])
@pytest.mark.parametrize("at", [0, 20, 60, -40, -1])
def test_a_changed_bit_in_the_index(
    store: KernelStore, tmp_path: Path, name: str, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    store.add(KERNEL, library(tmp_path))
    store.add_code(OTHER, CODE)
    content = bytearray(index(tmp_path, name).read_bytes())
    content[at] ^= 4
    index(tmp_path, name).write_bytes(content)
    assert (store.find(KERNEL) is None) == (name == KERNEL)
    assert (store.find_code(OTHER) is None) == (name != KERNEL)
    assert "cannot be read" in caplog.text
    store.add(KERNEL, library(tmp_path))
    store.add_code(OTHER, CODE)
    assert store.find(KERNEL) is not None
    assert store.find_code(OTHER) == CODE


@pytest.mark.parametrize("length", [0, 1, 40, 100])
def test_a_truncated_index(store: KernelStore, tmp_path: Path, length: int) -> None:
    store.add(KERNEL, library(tmp_path))
    store.add_code(OTHER, CODE)
    for name in (KERNEL, f"{OTHER}.code"):
        file = index(tmp_path, name)
        file.write_bytes(file.read_bytes()[:length])
    assert store.find(KERNEL) is None
    assert store.find_code(OTHER) is None


def test_a_file_under_another_ones_name(
    store: KernelStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.add(KERNEL, library(tmp_path))
    store.add_code(KERNEL, CODE)
    shutil.copy(index(tmp_path, KERNEL), index(tmp_path, OTHER))
    shutil.copy(index(tmp_path, f"{KERNEL}.code"), index(tmp_path, f"{OTHER}.code"))
    assert store.find(OTHER) is None
    assert store.find_code(OTHER) is None
    assert f"is that of {KERNEL}" in caplog.text


def test_a_wrapper_where_a_kernel_should_be(store: KernelStore, tmp_path: Path) -> None:
    store.add(KERNEL, library(tmp_path))
    store.add_code(KERNEL, CODE)
    shutil.copy(index(tmp_path, f"{KERNEL}.code"), index(tmp_path, KERNEL))
    assert store.find(KERNEL) is None


def test_a_wrapper_comes_back(store: KernelStore) -> None:
    store.add_code(OTHER, CODE)
    found = store.find_code(OTHER)
    assert isinstance(found, types.CodeType)
    assert found == CODE
    assert found.co_filename == CODE.co_filename


def test_only_the_user_can_read_and_write(store: KernelStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store.add(KERNEL, library(tmp_path))
        store.add_code(OTHER, CODE)
    finally:
        os.umask(before)
    for path in (tmp_path / "store" / "kernels").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_folder_that_nobody_can_write_to(store: KernelStore, tmp_path: Path) -> None:
    """A file stands where the folder would be, which stops root as well."""
    (tmp_path / "store").write_bytes(b"")
    with pytest.raises(OSError, match="store"):
        store.add(KERNEL, library(tmp_path))
    assert store.find(KERNEL) is None


def test_many_writers_at_once(store: KernelStore, tmp_path: Path) -> None:
    files = [library(tmp_path, b"library %d" % number) for number in range(8)]
    errors: list[Exception] = []

    def write() -> None:
        try:
            for number, file in enumerate(files):
                store.add(f"{number:064}", file)
                store.add_code(f"{number:064}", CODE)
                assert store.find(f"{number:064}") is not None
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(libraries(tmp_path)) == 8
    kept = {path.suffix for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert kept == {".so", "", ".code"}
