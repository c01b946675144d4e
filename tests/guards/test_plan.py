"""Plans as bytes: those of earlier versions are read, and only whole ones are replayed."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from golden import make_guard_plan as golden

from hotstart._core import validate_plan
from hotstart.errors import CorruptPackageError
from hotstart.guards import plan as plans

DATA = golden.FILE.read_bytes()


def test_the_golden_plan_is_read() -> None:
    validate_plan(DATA)
    plan = plans.Plan(DATA)
    assert plan.header == golden.HEADER
    assert (plan.plain, plan.special) == (golden.PLAIN, golden.SPECIAL)
    assert plan.cold() == golden.COLD


def test_the_golden_plan_is_still_written() -> None:
    hot = plans.Plan(DATA).hot_size
    # The rest is compressed, which is zlib's to do as it likes. The header has its size.
    assert golden.plan()[32:hot] == DATA[32:hot]


class Loaded:
    """The golden plan, replayed for frames with the given globals."""

    def __init__(self, data: bytes = DATA, f: Any = math.sqrt) -> None:
        pytest.importorskip("torch")
        from hotstart.guards.replayed import ReplayedGuards
        from hotstart.guards.resolve import resolve_values

        plan, scope = plans.Plan(data), {"f": f}
        values = resolve_values(plan.plain, plan.special, scope)
        self.guards = ReplayedGuards(plan, values, scope, self.check.__code__)

    def check(self, **changed: Any) -> bool:
        frame = {"x": None, "n": 3, "d": {"a": 2**70}, "m": 3, **changed}
        return bool(self.guards.check(frame))


@pytest.mark.parametrize(
    "changed",
    [
        {"x": 0},
        {"n": 4, "m": 4},
        {"d": {}},
        {"d": {"b": 2**70}},
        {"d": {"a": 2**70 + 1}},
        {"m": 3.0},
    ],
)
def test_the_golden_plan_guards(changed: dict[str, Any]) -> None:
    loaded = Loaded()
    assert loaded.check()
    assert not loaded.check(**changed)


def test_the_golden_plan_guards_globals() -> None:
    assert not Loaded(f=math.cos).check()


def test_the_golden_plan_explains() -> None:
    loaded = Loaded()
    info = loaded.guards.check_verbose({"x": None, "n": 4, "d": {"a": 2**70}, "m": 4})
    assert info.verbose_code_parts == ["n == 3"]
    assert [frame.filename for frame in info.user_stack] == ["file.py"]
    assert str(loaded.guards).count("GuardManager: source=") == 8
    assert loaded.guards.globals() == {"held": ("m", 3)}


@pytest.mark.parametrize("size", range(len(DATA)))
def test_no_part_of_a_plan_is_one(size: int) -> None:
    with pytest.raises(CorruptPackageError):
        validate_plan(DATA[:size])


def test_more_than_a_plan_is_none() -> None:
    with pytest.raises(CorruptPackageError):
        validate_plan(DATA + b"\0")


def test_flipped_bits_never_do_harm() -> None:
    """Whatever is not refused can be replayed, or torch refuses a call with other arguments."""
    numbers = random.Random(0)
    tape_start = plans._HEADER.unpack_from(DATA)[3] + 32
    refused = replayed = 0
    for _ in range(2000):
        data = bytearray(DATA)
        data[numbers.randrange(tape_start, plans.Plan(DATA).hot_size)] ^= 1 << numbers.randrange(8)
        try:
            Loaded(bytes(data)).check()
            replayed += 1
        except CorruptPackageError:
            refused += 1
        except (AttributeError, TypeError, ValueError, RuntimeError, KeyError, IndexError):
            pass
    assert refused > 100
    assert replayed > 20
