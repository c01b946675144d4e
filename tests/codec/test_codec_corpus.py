"""The fuzzers' seeds, and what once crashed or hung the codec, in every run of the tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hotstart._core import dumps, loads, validate
from hotstart.errors import CorruptPackageError, UnsupportedValueError

FUZZ = Path(__file__).parents[2] / "csrc" / "fuzz"
SEEDS = sorted((FUZZ / "corpus" / "codec").glob("*.bin"))
REGRESSIONS = sorted((FUZZ / "regressions" / "codec").glob("[!.]*"))


def test_there_are_seeds() -> None:
    assert len(SEEDS) > 40


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_a_seed_is_sound(path: Path) -> None:
    data = path.read_bytes()
    validate(data)
    try:
        value = loads(data, lambda tag, payload: payload)
    except UnsupportedValueError as error:
        assert "code object of another Python" in str(error)  # noqa: PT017
    else:
        assert dumps(value) == data or path.stem == "hooked"


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("check", [validate, loads])
def test_a_regression_has_a_clear_outcome(path: Path, check: Callable[[bytes], object]) -> None:
    with contextlib.suppress(CorruptPackageError, UnsupportedValueError):
        check(path.read_bytes())
