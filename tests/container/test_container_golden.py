"""Files of every format version that ever was are read as they were written, for ever."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import second_reader

from hotstart._core import Container, build_container

GOLDEN = Path(__file__).parents[1] / "golden"
CURRENT = GOLDEN / "container" / "v1"
MAKER = GOLDEN / "make_container.py"


def golden_files() -> list[tuple[Path, dict[str, object]]]:
    found = []
    for manifest in sorted(GOLDEN.glob("container/v*/manifest.json")):
        for name, facts in json.loads(manifest.read_text()).items():
            found.append((manifest.with_name(name), facts))
    return found


FILES = golden_files()
IDS = [f"{path.parent.name}-{path.stem}" for path, _ in FILES]


def expected_sections(facts: dict) -> list[tuple[int, int, int, bytes]]:
    return [
        (s["kind"], s["ordinal"], s["flags"], bytes.fromhex(s["payload"]))
        for s in facts["sections"]
    ]


@pytest.mark.parametrize(("path", "facts"), FILES, ids=IDS)
def test_a_golden_file_was_not_edited(path: Path, facts: dict) -> None:
    assert hashlib.sha256(path.read_bytes()).hexdigest() == facts["sha256"]


@pytest.mark.parametrize("load", [Container.open, Container.read])
@pytest.mark.parametrize(("path", "facts"), FILES, ids=IDS)
def test_a_golden_file_loads(load, path: Path, facts: dict) -> None:
    container = load(path)
    container.verify()
    assert container.version == facts["version"]
    got = [(k, o, f, bytes(container.get(k, o))) for k, o, f, *_ in container.sections()]
    assert got == expected_sections(facts)


@pytest.mark.parametrize(("path", "facts"), FILES, ids=IDS)
def test_the_second_reader_agrees(path: Path, facts: dict) -> None:
    data = path.read_bytes()
    got = [(k, o, f, p) for (k, o), (f, p) in second_reader.read_container(data).items()]
    assert got == expected_sections(facts)
    entries = [tuple(entry) for entry in second_reader.read_entries(data)]
    assert entries == Container.from_bytes(data).sections()


@pytest.mark.parametrize(("path", "facts"), FILES, ids=IDS)
def test_the_current_version_is_written_byte_for_byte(path: Path, facts: dict) -> None:
    if path.parent == CURRENT:
        assert build_container(expected_sections(facts)) == path.read_bytes()


def test_nothing_is_missing() -> None:
    assert {path.name for path, _ in FILES} == {p.name for p in CURRENT.glob("*.hotstart")}
    assert len(FILES) >= 7


def test_the_maker_makes_the_same_and_overwrites_nothing(tmp_path: Path) -> None:
    out = tmp_path / "v1"
    subprocess.run([sys.executable, MAKER, out], check=True, timeout=60)
    made = {path.name: path.read_bytes() for path in out.iterdir()}
    assert made == {path.name: path.read_bytes() for path in CURRENT.iterdir()}
    again = subprocess.run([sys.executable, MAKER, out], capture_output=True, text=True, timeout=60)
    assert again.returncode != 0
    assert "never made again" in again.stderr
