"""Plain values: every kind, exact types, hooks, places in errors, sharing, determinism."""

from __future__ import annotations

import collections
import enum
import gc
import os
import subprocess
import sys
import weakref
from typing import Any

import pytest
from codec_format import Table, write
from codec_samples import VALUES, assert_same

from hotstart._core import Decoder, Encoder, dumps, loads, validate
from hotstart.errors import CorruptPackageError, UnsupportedValueError


@pytest.mark.parametrize("name", VALUES)
def test_round_trip(name: str) -> None:
    data = dumps(VALUES[name])
    validate(data)
    again = loads(data)
    assert_same(VALUES[name], again)
    assert dumps(again) == data


def test_the_comparison_of_these_tests_is_strict() -> None:
    for a, b in [(1, True), (0.0, -0.0), ([1], (1,)), ({1: 2, 3: 4}, {3: 4, 1: 2}), (1, 1.0)]:
        with pytest.raises(AssertionError):
            assert_same(a, b)


@pytest.mark.parametrize("value", [None, -5, 1.5, "é", b"x", (1, [2]), {"a": ("a", "b")}, [True]])
def test_bytes_are_what_the_format_says(value: Any) -> None:
    encoder, table = Encoder(), Table()
    assert encoder.encode(value) == write(value, table)
    assert encoder.string_table() == table.dump()


# -- Exact types and hooks


class Int(int):
    pass


class Text(str):
    __slots__ = ()


class Colour(enum.IntEnum):
    RED = 1


Point = collections.namedtuple("Point", "x y")

STRANGERS = [
    Int(1),
    Text("a"),
    Colour.RED,
    Point(1, 2),
    collections.OrderedDict(a=1),
    collections.defaultdict(list),
    bytearray(b"x"),
    memoryview(b"x"),
    range(3),
    object(),
    int,
    len,
    NotImplemented,
    type("F", (float,), {})(1.0),
    type("B", (bytes,), {})(b"x"),
    type("L", (list,), {})([1]),
    type("S", (set,), {})([1]),
    type("Z", (frozenset,), {})([1]),
    type("C", (complex,), {})(1j),
]


@pytest.mark.parametrize("value", STRANGERS, ids=lambda value: type(value).__name__)
def test_other_types_are_refused_and_shown_to_the_hook(value: Any) -> None:
    with pytest.raises(UnsupportedValueError, match=r"^value\[0\]: cannot encode a <(class|enum) "):
        dumps([value])
    seen = []
    data = dumps([value], lambda v: (seen.append(v), ("t", len(seen)))[1])
    assert len(seen) == 1
    assert seen[0] is value
    assert loads(data, lambda tag, payload: (tag, payload)) == [("t", 1)]


def test_a_hook_may_nest_and_refuse() -> None:
    def encode(value: Any) -> tuple[str, object] | None:
        return ("point", tuple(value)) if isinstance(value, Point) else None

    value = {"p": Point(1, Point(2, "é"))}
    again = loads(dumps(value, encode), lambda tag, payload: Point(*payload))
    assert_same(again["p"], value["p"])
    with pytest.raises(UnsupportedValueError, match=r"^value\['p'\]\.<payload of point>\[1\]: "):
        dumps({"p": Point(1, object())}, encode)


@pytest.mark.parametrize("answer", [("t",), ("t", 1, 2), ["t", 1], (1, 1), (Text("t"), 1), 5])
def test_a_wrong_answer_of_a_hook_is_a_type_error(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"must return \(str, payload\) or None"):
        dumps(object(), lambda value: answer)


def test_exceptions_of_hooks_come_through() -> None:
    def fail(*args: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dumps([object()], fail)
    data = dumps([object()], lambda value: ("t", None))
    with pytest.raises(ZeroDivisionError):
        loads(data, fail)
    with pytest.raises(UnsupportedValueError, match="hook wrote as 't': no hook given"):
        loads(data)
    validate(data)


def test_a_hook_that_always_answers_ends_at_the_depth_cap() -> None:
    with pytest.raises(UnsupportedValueError, match="nested more than 500 deep"):
        dumps(object(), lambda value: ("again", object()))


def test_hooks_may_use_the_encoder_and_decoder_that_called_them() -> None:
    encoder: Encoder
    inner = []

    def encode(value: Any) -> tuple[str, object]:
        inner.append(encoder.encode(["inner", "shared"]))
        return "t", "outer"

    encoder = Encoder(encode)
    outer = encoder.encode(["shared", object(), "last"])
    decoder: Decoder
    decoder = Decoder(encoder.string_table(), lambda tag, payload: decoder.decode(inner[0]))
    assert decoder.decode(outer) == ["shared", ["inner", "shared"], "last"]


@pytest.mark.parametrize("kind", [list, dict])
def test_a_container_that_a_hook_changes_is_an_error(kind: type) -> None:
    value: Any = [0, object(), 2] if kind is list else {0: object(), 1: 2}

    def encode(_: Any) -> tuple[str, object]:
        value.clear()
        return "t", None

    with pytest.raises(UnsupportedValueError, match="changed while it was encoded"):
        dumps(value, encode)


def test_encoders_and_decoders_can_be_collected_through_their_hooks() -> None:
    class Owner:
        def __init__(self) -> None:
            self.encoder = Encoder(self.hook)
            self.decoder = Decoder(self.encoder.string_table(), self.hook)

        def hook(self, *args: Any) -> Any: ...

    gone = weakref.ref(Owner())
    gc.collect()
    assert gone() is None


# -- Places


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (object(), "value"),
        ([1, (2, object())], "value[1][1]"),
        ({"k": [object()]}, "value['k'][0]"),
        ({-7: object()}, "value[-7]"),
        ({b"k": object()}, "value[b'k']"),
        ({None: object()}, "value.values()[0]"),
        ({1: 1, "k" * 99: object()}, "value.values()[1]"),
        ({"\ud800": object()}, "value['\\ud800']"),
        ({1: 1, (2, object()): 3}, "value.keys()[1][1]"),
        ({(1, object())}, "value.<element>[1]"),
        ([frozenset({object()})], "value[0].<element>"),
        (slice(object()), "value.stop"),
        (slice(object(), 1), "value.start"),
        (slice(1, 2, [object()]), "value.step[0]"),
    ],
)
def test_an_error_names_the_place(value: Any, place: str) -> None:
    with pytest.raises(UnsupportedValueError) as caught:
        dumps(value)
    assert str(caught.value) == f"{place}: cannot encode a <class 'object'>"


def test_a_place_inside_code_is_named() -> None:
    code = compile("lambda: (1, 2)", "f", "eval")
    inner = code.co_consts[0].replace(co_consts=(None, {"k": object()}))
    code = code.replace(co_consts=(inner, *code.co_consts[1:]))
    with pytest.raises(
        UnsupportedValueError, match=r"^value\[2\]\.co_consts\[0\]\.co_consts\[1\]\['k'\]: "
    ):
        dumps([0, 1, code])


def test_containers_inside_themselves_are_errors() -> None:
    a: list[Any] = []
    a.append(a)
    b: dict[str, Any] = {}
    b["b"] = (1, b)
    for value in (a, b):
        with pytest.raises(UnsupportedValueError, match="or a container that contains itself"):
            dumps(value)


def test_the_depth_cap() -> None:
    def nest(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = (value,)
        return value

    assert loads(dumps(nest(500))) == nest(500)
    with pytest.raises(
        UnsupportedValueError, match=r"^value(\[0\]){12}\.\.\.(\[0\]){12}: nested more"
    ):
        dumps(nest(501))
    stream = b"\x0b\x01" * 501 + b"\x01"
    with pytest.raises(CorruptPackageError, match="nested too deep"):
        validate(Table().dump(), stream)
    with pytest.raises(CorruptPackageError, match="nested too deep"):
        Decoder(Table().dump()).decode(stream)


# -- The shared table


def test_streams_share_one_table() -> None:
    encoder = Encoder()
    first = encoder.encode(["name", "other"])
    early = encoder.string_table()
    second = encoder.encode({"name": "third"})
    assert Decoder(early).decode(first) == ["name", "other"]
    decoder = Decoder(encoder.string_table())
    assert decoder.decode(second) == {"name": "third"}
    assert decoder.decode(first) == ["name", "other"]
    with pytest.raises(CorruptPackageError, match="a string that is not in the table"):
        Decoder(early).decode(second)


def test_a_string_is_made_once() -> None:
    encoder = Encoder()
    streams = [encoder.encode(["two words", "two words"]) for _ in range(2)]
    decoder = Decoder(encoder.string_table())
    strings = {id(text) for stream in streams for text in decoder.decode(stream)}
    assert len(strings) == 1


def test_equal_strings_that_are_not_one_object_share_an_entry() -> None:
    encoder = Encoder()
    encoder.encode(["".join(["two", " words"]) for _ in range(5)])
    assert len(encoder.string_table()) == 8 + 4 + len("two words")


def test_identifiers_come_out_interned() -> None:
    name = "".join(["a_name_that", "_nobody_else_has"])
    (again,) = loads(dumps([name]))
    assert again is sys.intern("a_name_that_nobody_else_has")


def test_any_buffer_will_do_and_nothing_keeps_it() -> None:
    data = bytearray(dumps([b"payload", "text"]))
    for buffer in (data, memoryview(data), memoryview(bytes(data))):
        assert loads(buffer) == [b"payload", "text"]
    value = loads(data)
    data[:] = b"\0" * len(data)
    data.clear()  # would raise if something still exported the buffer
    assert value == [b"payload", "text"]
    with pytest.raises(TypeError):
        loads("text")  # type: ignore[arg-type]


def test_a_decoder_keeps_its_table_alive() -> None:
    encoder = Encoder()
    stream = encoder.encode("".join(["two ", "words"]))
    decoder = Decoder(bytearray(encoder.string_table()))
    gc.collect()
    assert decoder.decode(stream) == "two words"


def test_the_same_object_twice_is_two_equal_objects() -> None:
    shared = [1]
    a, b = loads(dumps([shared, shared]))
    assert a == b
    assert a is not b


# -- Determinism

DETERMINISM = """
import sys
from hotstart._core import Encoder
encoder = Encoder()
value = [{"a", "b", "c", "d", ("e", frozenset({"f", "g", "h"})), 1, None}, {"x": {"y", "z"}}]
code = compile("def f(x): return x in {'p', 'q', 'r', 's'}", "f", "exec")
sys.stdout.write((encoder.encode(value) + encoder.encode(code) + encoder.string_table()).hex())
"""


def test_bytes_do_not_depend_on_hash_randomisation() -> None:
    def run(seed: int) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", DETERMINISM]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout

    outputs = {run(seed) for seed in range(1, 6)}
    assert len(outputs) == 1
    assert outputs != {""}


def test_hooked_elements_of_sets_are_asked_once() -> None:
    asked: list[Any] = []

    def encode(value: Any) -> tuple[str, object]:
        asked.append(value)
        return "int", int(value)

    value = {Int(5), Int(6), frozenset({Int(7)})}
    data = dumps(value, encode)
    assert len(asked) == 3
    assert loads(data, lambda tag, payload: Int(payload)) == value
