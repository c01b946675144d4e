"""Properties that hold for any value and for any bytes."""

from __future__ import annotations

import contextlib
from typing import Any

from codec_samples import VALUES, assert_same, module_code, nested_codes
from hypothesis import given, settings
from hypothesis import strategies as st

from hotstart._core import Decoder, Encoder, dumps, loads, validate
from hotstart.errors import CorruptPackageError, HotstartError

text = st.text(st.characters(codec=None, categories=None))  # lone surrogates too
integers = st.one_of(
    st.integers(),
    st.builds(lambda n, d: n + d, st.integers(0, 200).map(lambda n: 2**n), st.integers(-2, 2)),
    st.builds(lambda n, d: d - n, st.integers(0, 200).map(lambda n: 2**n), st.integers(-2, 2)),
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.just(...),
    integers,
    st.floats(),
    st.complex_numbers(),
    text,
    st.binary(),
)
codes = st.sampled_from(list(nested_codes(module_code("heapq"))))


def hashables(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(inner, max_size=4).map(tuple), st.frozensets(inner, max_size=4))


keys = st.recursive(atoms, hashables, max_leaves=6)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(keys, inner, max_size=5),
        st.sets(keys, max_size=5),
        st.frozensets(keys, max_size=5),
        st.builds(slice, inner, inner, inner),
    )


values = st.recursive(st.one_of(atoms, codes), containers, max_leaves=20)


@given(values)
def test_round_trip_and_stable_bytes(value: Any) -> None:
    data = dumps(value)
    validate(data)
    again = loads(data)
    assert_same(value, again)
    assert dumps(again) == data


@given(st.lists(values, max_size=5))
def test_streams_of_one_encoder_are_independent(several: list[Any]) -> None:
    encoder = Encoder()
    streams = [encoder.encode(value) for value in several]
    table = encoder.string_table()
    decoder = Decoder(table)
    for stream, value in reversed(list(zip(streams, several, strict=False))):
        validate(table, stream)
        assert_same(value, decoder.decode(stream))


def decode_or_refuse(data: bytes) -> None:
    """Whatever decodes has to validate, and to encode again."""
    try:
        value = loads(data, lambda tag, payload: (tag, payload))
    except HotstartError:
        with contextlib.suppress(CorruptPackageError):
            validate(data)
        return
    try:
        validate(data)
    except CorruptPackageError as error:  # it also looks at strings that the stream does not use
        if not error.reason.startswith(("a string", "a character")):
            raise
    assert_same(value, loads(dumps(value)))


@given(st.binary(max_size=200))
def test_any_stream_is_a_value_or_a_clear_error(stream: bytes) -> None:
    table = dumps(["a", "b c", "é", "漢", "😀"])[4:-6]
    decode_or_refuse(len(table).to_bytes(4, "little") + table + stream)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_clear_error(data: bytes) -> None:
    decode_or_refuse(data)


SEEDS = [dumps(value) for value in VALUES.values()]
SEEDS += [dumps(code) for code in list(nested_codes(module_code("heapq")))[:6]]


@settings(max_examples=400)
@given(st.data())
def test_damaged_bytes_are_a_value_or_a_clear_error(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    decode_or_refuse(bytes(damaged))
