"""The command line, without running what it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hotstart
from hotstart import _core, cli, inspection
from hotstart.container import SectionKind, build_container
from hotstart.errors import CorruptPackageError
from hotstart.inspection import PackageFacts, Section


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hotstart", *arguments], capture_output=True, text=True, check=False
    )


def test_version() -> None:
    process = run("--version")
    assert (process.returncode, process.stdout) == (0, f"hotstart {hotstart.__version__}\n")


def test_no_command_is_an_error_that_lists_them() -> None:
    process = run()
    assert process.returncode == 2
    assert "usage: hotstart" in process.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["list", os.curdir]])
def test_starts_without_torch(arguments: list[str]) -> None:
    code = (
        "import sys, hotstart.cli\n"
        "try: hotstart.cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code, *arguments], check=False)
    assert process.returncode == 0


@pytest.mark.parametrize("layers", ["0", "-3"])
def test_a_demo_of_no_layers_is_refused(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["demo", f"--layers={layers}"])
    assert "is not at least 1" in capsys.readouterr().err


def test_list_of_a_folder_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["list", str(tmp_path / "none")]) == 1
    assert "there is no such folder" in capsys.readouterr().err


def test_list_takes_the_store_that_the_environment_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTSTART_DIR", str(tmp_path))
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 0 packages, 0 bytes\n"


def package(folder: Path, key: str, content: bytes, saved: float) -> Path:
    file = folder / key / "entry"
    file.parent.mkdir()
    file.write_bytes(content)
    os.utime(file, (saved, saved))
    return file


def test_list_shows_the_newest_first_and_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "old", b"x" * 10, 1e9)
    package(tmp_path, "new", b"x" * 2000, 1.5e9)

    def facts(file: Path) -> PackageFacts:
        if file.parent.name == "old":
            raise CorruptPackageError("bad magic", 0)
        return PackageFacts(1, (), {"function": "GPT.forward", "torch": "2.13.0"})

    monkeypatch.setattr(inspection, "read_facts", facts)
    assert cli.main(["list", str(tmp_path)]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == f"{tmp_path}: 2 packages, 2,010 bytes"
    assert first.endswith("2,000 bytes  new  function GPT.forward, torch 2.13.0")
    assert second.endswith("10 bytes  old  unreadable: bad magic (at byte 0)")


def test_inspect_shows_sections_and_what_the_package_says_of_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = package(tmp_path, "key", b"x" * 1500, 1e9)
    sections = (Section("STRINGS", 0, 400), Section("GUARDS", 1, 1000))
    monkeypatch.setattr(
        inspection, "read_facts", lambda _: PackageFacts(1, sections, {"python": "3.11"})
    )
    assert cli.main(["inspect", str(file)]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        [f"{file}:", "format", "1,", "1,500", "bytes"],
        ["python:", "3.11"],
        ["section", "number", "size"],
        ["STRINGS", "0", "400", "bytes"],
        ["GUARDS", "1", "1,000", "bytes"],
        ["frame", "and", "padding", "100", "bytes"],
    ]


def test_inspect_of_a_file_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["inspect", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("hotstart: ")


def real_package(file: Path) -> bytes:
    """A package file with what inspection reads, and a section of a kind it does not know."""
    encoder = _core.Encoder()
    meta = encoder.encode({"function": "GPT.forward", "torch": "2.13.0"})
    content = build_container(
        [
            (SectionKind.STRINGS, 0, 0, encoder.string_table()),
            (SectionKind.META, 0, 0, meta),
            (SectionKind.GUARDS, 3, 0, b"g" * 700),
            (99, 0, 0, b"x"),
        ]
    )
    file.write_bytes(content)
    return content


def test_facts_of_a_real_file(tmp_path: Path) -> None:
    file = tmp_path / "entry"
    real_package(file)
    facts = inspection.read_facts(file)
    assert facts.format_version == 1
    assert facts.meta == {"function": "GPT.forward", "torch": "2.13.0"}
    assert {section.kind for section in facts.sections} == {"STRINGS", "META", "GUARDS", "kind 99"}
    assert Section("GUARDS", 3, 700) in facts.sections


def test_inspect_refuses_a_damaged_section(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "entry"
    damaged = bytearray(real_package(file))
    damaged[damaged.index(b"g" * 700) + 350] ^= 1
    file.write_bytes(damaged)
    assert cli.main(["inspect", str(file)]) == 1
    assert "at byte" in capsys.readouterr().err


def test_inspect_of_a_package_without_words_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "entry"
    file.write_bytes(build_container([(SectionKind.GUARDS, 0, 0, b"g")]))
    assert inspection.read_facts(file).meta == {}


def test_inspection_runs_no_pickle(tmp_path: Path) -> None:
    file = tmp_path / "entry"
    encoder = _core.Encoder(lambda value: ("pickle", b"not a pickle"))
    meta = encoder.encode({"torch": object()})
    strings = encoder.string_table()
    file.write_bytes(
        build_container([(SectionKind.STRINGS, 0, 0, strings), (SectionKind.META, 0, 0, meta)])
    )
    assert inspection.read_facts(file).meta == {"torch": "<pickle>"}
