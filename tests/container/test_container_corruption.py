"""Damaged and hostile containers: the outcome is what was written, or a clear error."""

from __future__ import annotations

import struct

import pytest
import samples
import second_reader
from hypothesis import given
from hypothesis import strategies as st
from samples import HEADER_FIELDS, entry_at, field, patched

from hotstart._core import Container, build_container
from hotstart.errors import CorruptPackageError

GOOD = samples.small()
EXPECTED = second_reader.read_container(GOOD)


def outcome(data: bytes) -> str:
    """ "" if the file reads as written, else the error; also asks the second reader to agree."""
    try:
        container = Container.from_bytes(data)
        got = {
            (kind, ordinal): (flags, bytes(container.get(kind, ordinal)))
            for kind, ordinal, flags, *_ in container.sections()
        }
        container.verify()
    except CorruptPackageError as caught:
        error = caught
    else:
        assert got == second_reader.read_container(data)
        return "" if got == EXPECTED else "something else"
    with pytest.raises(second_reader.Refused):
        second_reader.read_container(data)
    assert 0 <= error.offset <= max(len(data), len(GOOD))
    assert error.reason
    return str(error)


def refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptPackageError, match=message):
        Container.from_bytes(data)
    with pytest.raises(second_reader.Refused):
        second_reader.read_container(data)


def test_the_good_file_is_good() -> None:
    assert outcome(GOOD) == ""
    assert outcome(patched(GOOD)) == ""


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_every_prefix_is_refused(size: int) -> None:
    assert outcome(GOOD[:size]) not in ("", "something else")


def test_every_bit_of_every_byte_matters() -> None:
    for at in range(len(GOOD)):
        for bit in range(8):
            data = bytearray(GOOD)
            data[at] ^= 1 << bit
            assert outcome(bytes(data)) not in ("", "something else"), (at, bit)


def test_every_byte_of_the_header_behind_its_checksum() -> None:
    """With the checksum made right again, a change is refused, or is one the format allows."""
    (count,) = struct.unpack_from("<I", GOOD, 24)
    allowed = set(range(14, 16))  # informative file flags
    for i in range(count):
        base = 32 + 40 * i
        allowed |= {*range(base, base + 8), *range(base + 10, base + 12)}  # identity, own flags
        allowed.add(base + 8)  # must understand, where the kind is known
    for at in range(32 + 40 * count):
        for bit in range(8):
            data = bytearray(GOOD)
            data[at] ^= 1 << bit
            result = outcome(patched(bytes(data), count=count))
            if at not in allowed:
                assert result not in ("", "something else"), (at, bit)


@pytest.mark.parametrize("extra", [b"\0", b"x", bytes(64), GOOD])
def test_trailing_bytes(extra: bytes) -> None:
    refused(GOOD + extra, f"file size: expected {len(GOOD)}, found {len(GOOD + extra)}")
    longer = patched(GOOD + extra, (HEADER_FIELDS["size"], len(GOOD + extra)))
    refused(longer, f"end of the file: expected {len(GOOD)}, found {len(GOOD + extra)}")


def test_text_mode_damage() -> None:
    refused(GOOD.replace(b"\r\n", b"\n"), "text-mode transfer")
    refused(GOOD.replace(b"\n", b"\r\n"), "text-mode transfer")
    refused(bytes(byte & 0x7F for byte in GOOD), "not a hotstart container")


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_version(version: int) -> None:
    message = f"unknown format version: expected 1, found {version}"
    refused(patched(GOOD, (HEADER_FIELDS["version"], version)), message)


@pytest.mark.parametrize("count", [0, 1, 4, 6, 8, 65536, 65537, 2**31, 2**32 - 1])
def test_another_count(count: int) -> None:
    refused(_with_field("count", count), "too many sections|does not fit|header checksum")
    fitting = min(count, (len(GOOD) - 40) // 40)
    assert outcome(patched(_with_field("count", count), count=fitting)) not in (
        "",
        "something else",
    )


def _with_field(name: str, value: int) -> bytes:
    data = bytearray(GOOD)
    offset, form = HEADER_FIELDS[name]
    struct.pack_into(form, data, offset, value)
    return bytes(data)


def test_too_many_sections_and_a_table_that_does_not_fit() -> None:
    refused(_with_field("count", 65537), "too many sections: expected at most 65536, found 65537")
    refused(_with_field("count", 65536), "table of contents does not fit: expected 2621480 bytes")


@pytest.mark.parametrize("size", [0, 1, len(GOOD) - 1, len(GOOD) + 1, 2**63, 2**64 - 1])
def test_another_size(size: int) -> None:
    refused(patched(GOOD, (HEADER_FIELDS["size"], size)), f"file size: expected {size}, found")


def test_reserved_fields() -> None:
    refused(patched(GOOD, (HEADER_FIELDS["reserved"], 1)), "reserved header field")
    refused(
        patched(GOOD, (entry_at(2, "reserved"), 1)), r"reserved field of section \(kind 2, ordi"
    )


@pytest.mark.parametrize("bit", range(32))
def test_file_flags(bit: int) -> None:
    data = patched(GOOD, (HEADER_FIELDS["flags"], 1 << bit))
    if bit < 16:
        refused(data, f"needs a newer reader: critical file flags {1 << bit}")
    else:
        assert outcome(data) == ""


@pytest.mark.parametrize("bit", range(1, 32))
def test_section_flags(bit: int) -> None:
    data = patched(GOOD, (entry_at(1, "flags"), 1 << bit))
    if bit < 16:
        refused(data, rf"kind 2, ordinal 0\) needs a newer reader: critical flags {1 << bit}")
    else:
        assert Container.from_bytes(data).sections()[1][2] == 1 << bit


def test_a_must_understand_flag_on_an_unknown_kind() -> None:
    refused(patched(GOOD, (entry_at(4, "flags"), 1)), "kind 99.* must be understood")
    assert Container.from_bytes(patched(GOOD, (entry_at(1, "flags"), 1))).has(2)


OFFSETS = [0, 1, 31, 32, 63, 2**31, 2**32, 2**63 - 64, 2**63, 2**64 - 64, 2**64 - 1]


@pytest.mark.parametrize("section", range(5))
@pytest.mark.parametrize("delta", [-64, -1, 1, 64, None])
def test_another_offset(section: int, delta: int | None) -> None:
    place = entry_at(section, "offset")
    good = field(GOOD, place)
    for value in OFFSETS if delta is None else [good + delta]:
        if value != good:
            refused(patched(GOOD, (place, value)), rf"offset of section .*: expected {good}, found")


@pytest.mark.parametrize("section", range(5))
@pytest.mark.parametrize("value", [0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 64, 2**64 - 1])
def test_another_length(section: int, value: int) -> None:
    place = entry_at(section, "length")
    if value != field(GOOD, place):
        refused(
            patched(GOOD, (place, value)), "outside the file|offset of section|end of the file|pad"
        )


def test_overlapping_sections() -> None:
    """Two entries over the same payload, and one payload inside another's."""
    data = build_container([(1, 0, 0, b"a" * 128), (1, 1, 0, b"a" * 128)])
    first = field(data, entry_at(0, "offset"))
    for offset in (first, first + 64):
        refused(patched(data, (entry_at(1, "offset"), offset)), "offset of section")
    # The first one longer, so that it swallows the second.
    longer = patched(data, (entry_at(0, "length"), 256))
    refused(longer, "offset of section")


def test_a_hole_between_sections() -> None:
    data = build_container([(1, 0, 0, b"a" * 64), (1, 1, 0, b"b" * 64)])
    second = field(data, entry_at(1, "offset"))
    holed = data[:second] + bytes(64) + data[second:]
    changes = [(entry_at(1, "offset"), second + 64), (HEADER_FIELDS["size"], len(holed))]
    refused(patched(holed, *changes), "offset of section")


def test_dirty_padding() -> None:
    first = field(GOOD, entry_at(0, "offset"))
    end = first + field(GOOD, entry_at(0, "length"))
    second = field(GOOD, entry_at(1, "offset"))
    for at in (*range(40 + 40 * 5, first), *range(end, second)):
        data = bytearray(GOOD)
        data[at] = 1
        with pytest.raises(CorruptPackageError, match="padding before section") as e:
            Container.from_bytes(bytes(data))
        assert e.value.offset == at


def test_order_and_uniqueness() -> None:
    refused(patched(GOOD, (entry_at(2, "ordinal"), 0)), "must ascend")
    refused(patched(GOOD, (entry_at(1, "kind"), 1)), "must ascend")
    refused(patched(GOOD, (entry_at(0, "kind"), 5)), "must ascend")
    refused(patched(GOOD, (entry_at(0, "kind"), 0)), "kind 0 is reserved")


def test_payloads_are_checked_at_first_use_and_not_before() -> None:
    data = bytearray(GOOD)
    at = field(GOOD, entry_at(3, "offset"))
    data[at + 3] ^= 1
    container = Container.from_bytes(bytes(data))
    assert container.get(1) == b"strings"
    for _ in range(2):  # a failure is not remembered as a success
        with pytest.raises(
            CorruptPackageError, match=r"payload of section \(kind 4, .*mismatch"
        ) as e:
            container.get(4)
        assert e.value.offset == at
    with pytest.raises(CorruptPackageError, match="payload of section"):
        container.verify()


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(CorruptPackageError):
        Container.from_bytes(data)


numbers = st.one_of(
    st.integers(0, 2**64 - 1), st.integers(0, 300), st.sampled_from([2**31, 2**32, 2**63])
)


@given(st.lists(st.tuples(st.integers(8, 231), numbers), max_size=4), st.integers(0, 5))
def test_patched_words_behind_a_right_checksum(changes: list[tuple[int, int]], count: int) -> None:
    patches = [((at, "<Q"), value) for at, value in changes]
    outcome(patched(GOOD, *patches, count=count))  # agreement of both readers is the check
