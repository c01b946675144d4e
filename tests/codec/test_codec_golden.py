"""Files of earlier versions have to load for ever; see tests/golden/codec/README.md."""

from __future__ import annotations

import hashlib
import json
import marshal
import sys
from pathlib import Path

import pytest
from codec_samples import VALUES, assert_same, assert_same_code

from hotstart._core import dumps, loads, validate
from hotstart.errors import UnsupportedValueError

FOLDER = Path(__file__).parents[1] / "golden" / "codec" / "v1"
PYTHON = "py{}{}".format(*sys.version_info[:2])
MANIFEST: dict[str, str] = json.loads((FOLDER / "manifest.json").read_text())
CODES = [name for name in MANIFEST if name.endswith(".bin") and not name.startswith("any/")]


def test_no_file_is_missing_changed_or_unlisted() -> None:
    for name, digest in MANIFEST.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert there - {"manifest.json"} == set(MANIFEST)


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    data = (FOLDER / "any" / f"{name}.bin").read_bytes()
    assert_same(loads(data), VALUES[name])
    assert dumps(VALUES[name]) == data


@pytest.mark.parametrize("name", CODES)
def test_code(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    validate(data)
    if name.startswith(PYTHON + "/"):
        expected = marshal.loads((FOLDER / name).with_suffix(".marshal").read_bytes())
        assert_same_code(loads(data), expected)
        assert dumps(expected) == data
    else:
        with pytest.raises(UnsupportedValueError, match="code object of another Python"):
            loads(data)


def test_this_python_has_golden_code() -> None:
    if not any(name.startswith(PYTHON + "/") for name in CODES):
        pytest.skip("no golden code for this Python yet: run tests/golden/codec/make.py")
