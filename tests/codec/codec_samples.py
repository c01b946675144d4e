"""What the codec's tests share: sample values, real code objects, exact comparison."""

from __future__ import annotations

import importlib.util
import marshal
import math
import struct
import sys
import types
from collections.abc import Iterator
from typing import Any

# Present in every Python from 3.10 to 3.14.
MODULES = """
argparse ast asyncio.base_events asyncio.tasks base64 bdb calendar collections configparser
contextlib csv dataclasses difflib dis doctest email.message enum fractions functools gettext
gzip heapq http.client inspect json.decoder logging mailbox optparse os pdb pickle pickletools
platform plistlib pprint queue random shutil socketserver statistics string subprocess tarfile
tempfile textwrap threading timeit tokenize trace traceback typing unittest.mock urllib.parse
uuid weakref xml.dom.minidom zipfile
""".split()  # noqa: SIM905


def module_code(name: str) -> types.CodeType:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    code = spec.loader.get_code(name)  # type: ignore[union-attr]
    assert code is not None
    return in_file(code, f"{name}.py")


def in_file(code: types.CodeType, filename: str) -> types.CodeType:
    """``code`` as if it had been compiled from ``filename``: no folder of a machine is kept."""
    consts = tuple(
        in_file(const, filename) if isinstance(const, types.CodeType) else const
        for const in code.co_consts
    )
    return code.replace(co_filename=filename, co_consts=consts)


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from nested_codes(const)


def nan(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


# One of everything, and the edges of each kind. Never reorder or change: golden files hold these.
VALUES: dict[str, Any] = {
    "singletons": [None, True, False, ...],
    "small_ints": [0, 1, -1, 63, 64, -64, -65, 127, 128, 255, 256, 2**31, -(2**31), 2**32],
    "int64_edges": [2**62, -(2**62), 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64],
    "big_ints": [s * v for v in (2**71 - 1, 2**71, 2**72 - 1, 10**40, 3**1000) for s in (1, -1)],
    "floats": [0.0, -0.0, 1.5, -2.5e300, 5e-324, math.inf, -math.inf],
    "nans": [nan(0x7FF8000000000000), nan(0xFFF4000000000001), nan(0x7FF00000DEADBEEF)],
    "complexes": [0j, complex(-0.0, 0.0), complex(0.0, -0.0), 1.5 - 2j, complex(math.inf, 1.0)],
    "strings": [
        "",
        "a",
        "name_1",
        "two words",
        "\x00",
        "\x7f\x80\xff",
        "é",
        "\u0100",
        "漢字",
        "😀",
    ],
    "surrogates": ["\ud800", "\udfff", "\ud83d\ude00", "a\udc80b", "😀\ud800"],
    "bytes": [b"", b"a", bytes(range(256))],
    "tuples": [(), (1,), (1, (2, (3, ()))), ("a", "a")],
    "lists": [[], [[]], [1, [2, [3]]]],
    "dicts": [{}, {"b": 1, "a": 2}, {1: {2: {}}}, {(1, "x"): [2], None: ..., b"k": 1.5}],
    "sets": [set(), {1, 2, 3}, {"a", "b", "c", 1, None, (2, "d")}, {frozenset({1}), frozenset()}],
    "frozensets": [frozenset(), frozenset({"x", 1.5}), frozenset({frozenset({frozenset()})})],
    "slices": [slice(None), slice(1, 2), slice("a", [1], {"b": 2})],
}


def assert_same(a: Any, b: Any, place: str = "value") -> None:
    """Equal, of the same types, in the same order, to the last bit of a NaN."""
    assert type(a) is type(b), place
    if isinstance(a, float):
        assert struct.pack("<d", a) == struct.pack("<d", b), place
    elif isinstance(a, complex):
        assert_same((a.real, a.imag), (b.real, b.imag), place)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b), place
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            assert_same(x, y, f"{place}[{i}]")
    elif isinstance(a, dict):
        assert_same(list(a), list(b), f"{place}.keys()")
        assert_same(list(a.values()), list(b.values()), f"{place}.values()")
    elif isinstance(a, (set, frozenset)):
        order = sorted(a, key=canonical), sorted(b, key=canonical)
        assert_same(order[0], order[1], f"sorted({place})")
    elif isinstance(a, slice):
        assert_same((a.start, a.stop, a.step), (b.start, b.stop, b.step), place)
    elif isinstance(a, types.CodeType):
        assert_same_code(a, b, place)
    else:
        assert a == b, place


def canonical(value: Any) -> str:
    """A sort key that ignores the order inside sets and tells NaNs apart."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(canonical, value))})"
    if isinstance(value, tuple):
        return f"tuple({[canonical(item) for item in value]})"
    if isinstance(value, float):
        return f"float({struct.pack('<d', value)!r})"
    if isinstance(value, complex):
        return f"complex({canonical(value.real)}, {canonical(value.imag)})"
    return f"{type(value).__name__}({value!a})"


def assert_same_code(a: types.CodeType, b: types.CodeType, place: str = "code") -> None:
    attributes = [name for name in dir(a) if name.startswith("co_")]
    assert attributes == [name for name in dir(b) if name.startswith("co_")]
    for name in attributes:
        if name == "co_lnotab":  # deprecated, and made from co_linetable
            continue
        x, y = getattr(a, name), getattr(b, name)
        if callable(x):  # co_lines, co_positions, co_branches
            assert list(x()) == list(y()), f"{place}.{name}()"
        else:
            assert_same(x, y, f"{place}.{name}")
    assert a == b, place
    assert hash(a) == hash(b), place
    if sys.version_info >= (3, 11):  # shows the kinds of locals too, hidden ones included
        assert marshal.dumps(a, 2) == marshal.dumps(b, 2), place
