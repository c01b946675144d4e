"""An exception of the codec's hook goes up as it is, from wherever the value stands."""

from __future__ import annotations

import pytest

from hotstart._core import dumps


class Odd:
    pass


def _raise(value: object) -> tuple[str, object]:
    raise LookupError("from the hook")


@pytest.mark.parametrize(
    "value",
    [Odd(), [Odd()], (Odd(),), {"a": Odd()}, {7: {b"b": Odd()}}, {"a": [Odd()]}, {(1,): Odd()}],
    ids=repr,
)
def test_the_hooks_exception_is_seen(value: object) -> None:
    with pytest.raises(LookupError, match="from the hook"):
        dumps(value, _raise)
