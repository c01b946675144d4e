"""Damaged and hostile bytes: a value or a clear error, in bounded time and memory."""

from __future__ import annotations

import contextlib
import opcode
import sys
import time
import tracemalloc
import types
from typing import Any

import pytest
from codec_format import MAGIC, TAG, Table, blob, varint, write, write_code, zigzag
from codec_samples import VALUES

from hotstart._core import Decoder, Encoder, dumps, loads, validate
from hotstart.errors import CorruptPackageError, UnsupportedValueError

HAS_CACHES = sys.version_info >= (3, 11)
EMPTY = Table().dump()
CODE = compile("def f(a, b):\n  x = a.y(b)\n  return lambda: x", "f", "exec").co_consts[0]


def decode(stream: bytes, table: bytes = EMPTY) -> Any:
    return Decoder(table).decode(stream)


def use(value: Any) -> None:
    """What must not crash on anything that decodes."""
    if isinstance(value, types.CodeType):
        hash_or_refuse(value)
        if value.co_firstlineno >= 0:  # replace() refuses others, though the compiler does not
            hash_or_refuse(value == value.replace())
        for method in ("co_lines", "co_positions", "co_branches"):
            list(getattr(value, method, tuple)())
        use(value.co_consts)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            use(item)
    with contextlib.suppress(ValueError):  # an integer of too many digits
        repr(value)


def hash_or_refuse(value: Any) -> None:
    with contextlib.suppress(TypeError):
        hash(value)


def outcome(data: bytes) -> str:
    try:
        value = loads(data, lambda tag, payload: payload)
    except UnsupportedValueError:
        return "unsupported"
    except CorruptPackageError as error:
        return "corrupt" if 0 <= error.offset <= len(data) else "an offset outside"
    validate(data)
    use(value)
    return "value"


SAMPLES = {**VALUES, "code": [CODE]}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_prefix_is_refused(name: str) -> None:
    data = dumps(SAMPLES[name])
    for size in range(len(data)):
        for check in (loads, validate):
            with pytest.raises(CorruptPackageError):
                check(data[:size])


@pytest.mark.parametrize("name", SAMPLES)
def test_bytes_after_the_end_are_refused(name: str) -> None:
    for check in (loads, validate):
        with pytest.raises(CorruptPackageError, match="bytes after the end"):
            check(dumps(SAMPLES[name]) + b"\x01")


@pytest.mark.parametrize("name", [*VALUES, "code"])
def test_every_flip_of_a_bit_is_a_value_or_a_clear_error(name: str) -> None:
    data = dumps(SAMPLES[name])
    outcomes = set()
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            outcomes.add(outcome(bytes(damaged)))
    assert {"corrupt"} <= outcomes <= {"corrupt", "unsupported", "value"}


def test_every_byte_of_a_code_object_in_every_value() -> None:
    data = dumps(CODE)
    for at in range(len(data)):
        for value in range(256):
            outcome(data[:at] + bytes([value]) + data[at + 1 :])


# -- Counts and sizes


@pytest.mark.parametrize("kind", ["tuple", "list", "set", "frozenset", "dict", "bytes", "big_int"])
@pytest.mark.parametrize("count", [2, 100, 2**31, 2**32, 2**61, 2**63, 2**64 - 1])
def test_counts_larger_than_the_input(kind: str, count: int) -> None:
    stream = TAG[kind] + varint(count) + TAG["none"]
    for check in (decode, lambda stream: validate(EMPTY, stream)):
        with pytest.raises(CorruptPackageError, match=r"count larger|ends early"):
            check(stream)


def test_a_varint_of_more_than_64_bits() -> None:
    for tail in (b"\x02", b"\x80\x01", b"\xff" * 5 + b"\x01"):
        with pytest.raises(CorruptPackageError):
            decode(TAG["int"] + b"\xff" * 9 + tail)


@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_nested_counts_do_not_reserve_the_input_again_and_again(kind: str) -> None:
    size = 1 << 20
    head = b"".join(TAG[kind] + varint(size - 8 * i) for i in range(400))
    stream = head + TAG["none"] * size
    tracemalloc.start()
    try:
        with pytest.raises(CorruptPackageError, match="count larger"):
            decode(stream)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(stream)
    finally:
        tracemalloc.stop()


def test_time_and_memory_grow_with_the_input_only() -> None:
    table = Table()
    numbers = [(k * (2**61 - 1)).to_bytes(16, "little") for k in range(50_000)]
    many = {"co_varnames": ("a",) * 100_000, "co_cellvars": ("b",) * 100_000}
    bombs = {
        "hash": TAG["set"] + varint(50_000) + b"".join(TAG["big_int"] + blob(n) for n in numbers),
        "locals": write_code(CODE, table, **many),
        "depth": TAG["list"] + b"\x01" + (TAG["tuple"] + b"\x01") * 10_000_000,
        "integer": TAG["big_int"] + blob(b"\x7f" * 1_000_000),
    }
    for name, stream in bombs.items():
        start = time.process_time()
        try:
            decode(stream, table.dump())
        except CorruptPackageError:
            assert name != "integer"
        assert time.process_time() - start < 2, name


def test_keys_of_one_hash_are_counted_in_dicts_too() -> None:
    keys = [k * (2**61 - 1) for k in range(1, 200)]
    assert len({hash(key) for key in keys}) == 1
    for value in (dict.fromkeys(keys), set(keys), frozenset(keys)):
        with pytest.raises(CorruptPackageError, match="too many keys of one hash"):
            loads(dumps(value))
    for value in (dict.fromkeys(range(9999)), set(keys[:64]), frozenset(keys[:64])):
        assert loads(dumps(value)) == value


# -- Keys


@pytest.mark.parametrize("key", [[], {}, set(), [1], ([],), (1, {})])
def test_keys_that_cannot_be_hashed(key: Any) -> None:
    inner = write(key, Table()) if not isinstance(key, set) else TAG["set"] + b"\0"
    for stream in (TAG["dict"] + b"\x01" + inner + TAG["none"], TAG["set"] + b"\x01" + inner):
        with pytest.raises(CorruptPackageError, match="cannot be hashed"):
            decode(stream)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, True), (0.0, -0.0), ("k", "k"), ((1,), (1.0,))])
def test_keys_that_are_there_twice(a: Any, b: Any) -> None:
    table = Table()
    one, two = write(a, table), write(b, table)
    none = TAG["none"]
    with pytest.raises(CorruptPackageError, match="a key that is there twice"):
        decode(TAG["dict"] + b"\x02" + one + none + two + none, table.dump())
    for kind in ("set", "frozenset"):
        with pytest.raises(CorruptPackageError, match="an element that is there twice"):
            decode(TAG[kind] + b"\x02" + one + two, table.dump())


# -- The string table


def table_of(entries: list[int], heap: bytes) -> bytes:
    head = b"hsc\x01" + len(entries).to_bytes(4, "little")
    return head + b"".join(entry.to_bytes(4, "little") for entry in entries) + heap


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (b"", "too short"),
        (b"hsc\x01\0\0\0", "too short"),
        (b"xxx\x01\0\0\0\0", "not a string table"),
        (b"hsc\x02\0\0\0\0", "unknown format version"),
        (b"hsc\x01\x01\0\0\0", "more strings than"),
        (b"hsc\x01\xff\xff\xff\xff" + b"\0" * 64, "more strings than"),
        (b"hsc\x01\0\0\0\0x", "do not end where the table ends"),
        (table_of([2 << 2], b"a"), "do not end where the table ends"),
        (table_of([0 << 2], b"a"), "do not end where the table ends"),
    ],
)
def test_a_table_that_is_wrong_as_a_whole(table: bytes, reason: str) -> None:
    with pytest.raises(CorruptPackageError, match=reason):
        Decoder(table)
    with pytest.raises(CorruptPackageError, match=reason):
        validate(table, TAG["none"])


@pytest.mark.parametrize(
    ("entries", "heap", "reason"),
    [
        ([2 << 2, 1 << 2, 3 << 2], b"abc", "outside the table"),
        ([9 << 2, 3 << 2], b"abc", "outside the table"),
        ([3 << 2 | 1], b"abc", "ends inside a character"),
        ([6 << 2 | 2], b"abcdef", "ends inside a character"),
        ([4 << 2 | 2], b"\x00\x00\x11\x00", "above U\\+10FFFF"),
    ],
)
def test_an_entry_that_is_wrong(entries: list[int], heap: bytes, reason: str) -> None:
    table = table_of(entries, heap)
    everything = TAG["tuple"] + varint(len(entries))
    everything += b"".join(TAG["string"] + varint(i) for i in range(len(entries)))
    with pytest.raises(CorruptPackageError, match=reason):
        decode(everything, table)
    with pytest.raises(CorruptPackageError, match=reason):
        validate(table, everything)


@pytest.mark.parametrize("index", [1, 127, 128, 2**32, 2**32 - 1, 2**64 - 1])
def test_a_string_that_is_not_there(index: int) -> None:
    table = table_of([1 << 2], b"a")
    assert decode(TAG["string"] + b"\0", table) == "a"
    with pytest.raises(CorruptPackageError, match="not in the table"):
        decode(TAG["string"] + varint(index), table)


def test_a_wide_string_need_not_be_aligned() -> None:
    table = Table()
    stream = write(["x", "漢字", "y", "😀😀"], table)
    assert decode(stream, table.dump()) == ["x", "漢字", "y", "😀😀"]


@pytest.mark.parametrize("tag", [0, 19, 100, 255])
def test_unknown_tags(tag: int) -> None:
    with pytest.raises(CorruptPackageError, match="unknown kind of value"):
        decode(bytes([tag]))


def test_a_small_integer_in_the_large_form() -> None:
    with pytest.raises(CorruptPackageError, match="small integer"):
        decode(TAG["big_int"] + blob(b"\x01" * 8))


# -- Code objects


def lie(**lies: Any) -> Any:
    table = Table()
    stream = write_code(CODE, table, **lies)
    validated = True
    try:
        validate(table.dump(), stream)
    except CorruptPackageError:
        validated = False
    try:
        code = decode(stream, table.dump())
    except CorruptPackageError:
        raise
    assert validated
    use(code)
    return code


def test_the_truth_is_accepted() -> None:
    assert lie() == CODE


@pytest.mark.parametrize(
    ("lies", "reason"),
    [
        ({"co_flags": 2**31}, "number is too large"),
        ({"co_argcount": 2**31}, "number is too large"),
        ({"co_argcount": 2**31 - 1}, "more arguments than local"),
        ({"co_argcount": 5}, "more arguments than local"),
        ({"co_posonlyargcount": 3}, "more positional-only"),
        ({"co_kwonlyargcount": 2}, "more arguments than local"),
        ({"co_kwonlyargcount": 2**31 - 1}, "more arguments than local"),
        ({"co_flags": CODE.co_flags | 4 | 8}, "more arguments than local"),
        ({"co_varnames": ("a",)}, "more arguments than local"),
        ({"co_stacksize": 2**31 - 1}, "stack size is too large"),
        ({"co_stacksize": 2**24 + 1}, "stack size is too large"),
        ({"co_firstlineno": 2**31}, "line is too large"),
        ({"co_firstlineno": -(2**31) - 1}, "line is too large"),
        ({"co_code": CODE.co_code + b"\0"}, "odd length"),
        ({"hidden": (99,)}, "hidden local"),
        ({"hidden": (1, 1)}, "hidden local"),
        ({"hidden": (2**40,)}, "hidden local"),
    ],
)
def test_fields_that_cannot_be(lies: dict[str, Any], reason: str) -> None:
    with pytest.raises(CorruptPackageError, match=reason):
        lie(**lies)


def test_hidden_locals_are_hidden_or_refused() -> None:
    table = Table()
    stream = write_code(CODE, table, hidden=(0, 2))
    if sys.version_info < (3, 12):
        with pytest.raises(CorruptPackageError, match="hidden local"):
            decode(stream, table.dump())
    else:
        assert Encoder().encode(decode(stream, table.dump())) == stream


def test_the_largest_stack() -> None:
    assert lie(co_stacksize=2**24).co_stacksize == 2**24


@pytest.mark.parametrize("magic", [0, MAGIC + 1, 65535])
def test_code_of_another_python(magic: int) -> None:
    table = Table()
    stream = write_code(CODE, table, magic=magic)
    with pytest.raises(UnsupportedValueError, match=f"number is {magic}, this Python's is {MAGIC}"):
        decode(stream, table.dump())


LONG = b"\xf0\0\0\0\0"
BROKEN_TABLES = [
    b"\x00",  # does not begin with a head
    b"\x00" + b"\x80\x00" * 9,
    b"\x80",  # a column is missing
    b"\xd0\x00",  # one of two
    b"\xe8",  # a number is missing
    b"\xf0",
    b"\xf0\x00\x00\x00",
    b"\xf0\x40\x40\x40\x40\x40\x40",
    b"\xf0\x00\x00\x00\x40",
    b"\x80\x80\x00",  # a head where a column should be
    b"\xd0\x00\x80\x00",
    b"\xe8\x80\x00",
    b"\xe8\x40\x80\x00",
    b"\xe8" + b"\x7f" * 6 + b"\x00",  # a number of more than 36 bits
]


@pytest.mark.skipif(not HAS_CACHES, reason="tables of 3.11")
@pytest.mark.parametrize("before", [0, 1, 6, 7, 8, 9, 15, 16, 55, 60, 63, 64, 65, 79, 80, 130])
def test_line_tables(before: int) -> None:
    for sound in (
        b"",
        LONG,
        b"\xf8",
        b"\x80\x00",
        b"\xd0\x00\x00",
        b"\xe8\x41\x00",
        b"\xe8\x7f\x3f",
    ):
        lie(co_linetable=b"\xf8" * before + sound)
    for broken in BROKEN_TABLES:
        for after in (b"", b"\xf8", LONG, b"\xf8" * 20, b"\xf8" * 200):
            if (broken[0] == 0 and before) or (after and broken[-1] & 0x80 and len(broken) > 1):
                continue
            table = b"\xf8" * before + broken + after
            with pytest.raises(CorruptPackageError, match="line table with a broken entry"):
                pytest.fail(f"accepted {table!r}: {lie(co_linetable=table)}")


@pytest.mark.skipif(not HAS_CACHES, reason="tables of 3.11")
@pytest.mark.parametrize(
    "table",
    [b"\0", b"\x80", b"\x80\0\0", b"\xc0", b"\xc0\0\0\0", b"\x80\0\0\x80", b"\xc0" + b"\x40" * 9],
)
def test_exception_tables(table: bytes) -> None:
    lie(co_exceptiontable=b"\x80\0\0\0\xc0\x01\0\0\0")
    with pytest.raises(CorruptPackageError, match="exception table with a broken entry"):
        lie(co_exceptiontable=b"\x80\0\0\0" + table)


@pytest.mark.skipif(HAS_CACHES, reason="tables of 3.10")
def test_line_tables_of_310() -> None:
    with pytest.raises(CorruptPackageError, match="line table of odd length"):
        lie(co_linetable=b"\x01")
    with pytest.raises(CorruptPackageError, match="exception table in the code of a Python that"):
        lie(co_exceptiontable=b"\x80\0\0\0")


@pytest.mark.skipif(not HAS_CACHES, reason="instructions of 3.11")
def test_instructions_that_no_compiler_writes() -> None:
    known = {number for name, number in opcode.opmap.items() if number < 256}
    internal = {n for name, n in opcode.opmap.items() if name.startswith("INSTRUMENTED_")}
    internal |= {opcode.opmap[n] for n in ("RESERVED", "ENTER_EXECUTOR") if n in opcode.opmap}
    room_for_caches = bytes(2 * 20)
    for number in range(256):
        code = bytes([number, 0]) + room_for_caches
        for instructions in (code, room_for_caches + code):
            if number in known - internal:
                assert lie(co_code=instructions).co_code == instructions
            else:
                with pytest.raises(CorruptPackageError, match="instruction that this Python does"):
                    lie(co_code=instructions)


@pytest.mark.skipif(not HAS_CACHES, reason="instructions of 3.11")
def test_instructions_whose_caches_are_cut_off() -> None:
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    checked = 0
    for name, number in opcode.opmap.items():
        caches = entries.get(name, 0) if isinstance(entries, dict) else entries[number % 256]
        if number > 255 or name.startswith("INSTRUMENTED_") or not caches:
            continue
        checked += 1
        whole = bytes([number, 0]) + bytes(2 * caches)
        assert lie(co_code=whole).co_code == whole
        for cut in range(2, len(whole), 2):
            with pytest.raises(CorruptPackageError, match="ends inside an instruction"):
                lie(co_code=whole[:cut])
    assert checked > 5


def test_odd_but_harmless_code() -> None:
    lie(co_code=b"")
    lie(co_cellvars=("a", "a", "b", "zz"), co_freevars=("a", "zz"))
    lie(co_names=("", "\ud800", "not a name"), co_varnames=("a", "a", "b"))
    lie(co_consts=([], {}, [CODE], slice.__name__))
    lie(co_consts=())
    assert lie(co_firstlineno=-5).co_firstlineno == -5


def test_numbers_are_not_confused() -> None:
    for number in (0, 1, -1, 63, -64, 2**63 - 1, -(2**63)):
        assert decode(TAG["int"] + zigzag(number)) == number
