"""What a miss says of packages for other environments."""

from __future__ import annotations

from pathlib import Path

from hotstart.store.environments import Environments

HERE = {"torch": "2.13.0", "cpu": {"avx2": True, "avx512f": False}, "inductor": {"cpp.simdlen": 8}}
THERE = {"torch": "2.13.0", "cpu": {"avx2": True, "avx512f": True}, "inductor": {"cpp.simdlen": 8}}


def store(folder: Path, name: str = "f-there-o") -> Environments:
    (folder / name).mkdir()
    notes = Environments(str(folder))
    notes.note("there", THERE)
    return notes


def test_what_differs_is_named(tmp_path: Path) -> None:
    assert store(tmp_path).why_not("f-here-o", HERE) == "another cpu.avx512f"


def test_another_function_or_other_options_do_not_count(tmp_path: Path) -> None:
    notes = store(tmp_path)
    assert notes.why_not("g-here-o", HERE) is None
    assert notes.why_not("f-here-p", HERE) is None


def test_an_environment_that_nobody_noted(tmp_path: Path) -> None:
    notes = store(tmp_path, "f-elsewhere-o")
    assert notes.why_not("f-here-o", HERE) == "another environment"


def test_a_damaged_note(tmp_path: Path) -> None:
    notes = store(tmp_path)
    (tmp_path / "environments" / "there").write_bytes(b"\x00\x01")
    assert notes.why_not("f-here-o", HERE) == "another environment"


def test_many_differences_are_counted(tmp_path: Path) -> None:
    notes = store(tmp_path)
    here = {f"setting {n}": n for n in range(20)}
    told = notes.why_not("f-here-o", here)
    assert told is not None
    assert told.startswith("another cpu, inductor, setting 0")
    assert told.endswith("more")


def test_no_folder(tmp_path: Path) -> None:
    assert Environments(str(tmp_path / "none")).why_not("f-here-o", HERE) is None


def test_a_note_is_written_once(tmp_path: Path) -> None:
    notes = store(tmp_path)
    file = tmp_path / "environments" / "there"
    before = file.stat().st_mtime_ns
    notes.note("there", HERE)
    assert file.stat().st_mtime_ns == before
