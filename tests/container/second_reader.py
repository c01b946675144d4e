"""A second reader of the container, written from docs/format.md alone; it shares no code with C++.

Slow and plain on purpose: where it and the C++ reader disagree, one of them or the document is
wrong.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC = b"\x89HOT\r\n\x1a\n"
KNOWN_KINDS = range(1, 7)
MASK = 0xFFFF_FFFF_FFFF_FFFF
PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


class Refused(ValueError):
    """The file is not a container of version 1."""


class Entry(NamedTuple):
    kind: int
    ordinal: int
    flags: int
    offset: int
    length: int
    checksum: int


def rotl(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & MASK


def lane_round(lane: int, word: int) -> int:
    return rotl((lane + word * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    p1, p2, p3, p4, p5 = PRIMES
    at = 0
    if len(data) >= 32:
        lanes = [(seed + p1 + p2) & MASK, (seed + p2) & MASK, seed & MASK, (seed - p1) & MASK]
        for at in range(0, len(data) - 31, 32):
            words = struct.unpack_from("<4Q", data, at)
            lanes = [lane_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        at += 32
        value = sum(rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = (((value & MASK) ^ lane_round(0, lane)) * p1 + p4) & MASK
    else:
        value = seed + p5
    value = (value + len(data)) & MASK
    while len(data) - at >= 8:
        value ^= lane_round(0, int.from_bytes(data[at : at + 8], "little"))
        value = (rotl(value, 27) * p1 + p4) & MASK
        at += 8
    if len(data) - at >= 4:
        value ^= int.from_bytes(data[at : at + 4], "little") * p1 & MASK
        value = (rotl(value, 23) * p2 + p3) & MASK
        at += 4
    for byte in data[at:]:
        value = rotl(value ^ (byte * p5 & MASK), 11) * p1 & MASK
    value = (value ^ (value >> 33)) * p2 & MASK
    value = (value ^ (value >> 29)) * p3 & MASK
    return value ^ (value >> 32)


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise Refused(reason)


def read_entries(data: bytes) -> list[Entry]:
    """Steps 1 to 8 of "What a reader does"."""
    require(len(data) >= 40, "too short")
    magic, version, flags, size, count, reserved = struct.unpack_from("<8sIIQII", data)
    require(magic == MAGIC, "magic")
    require(version == 1, "version")
    require(count <= 65536 and 40 + 40 * count <= len(data), "table of contents does not fit")
    (checksum,) = struct.unpack_from("<Q", data, 32 + 40 * count)
    require(checksum == xxh64(data[: 32 + 40 * count]), "header checksum")
    require(flags & 0xFFFF == 0, "critical file flags")
    require(size == len(data), "file size")
    require(reserved == 0, "reserved")
    entries: list[Entry] = []
    end = 40 + 40 * count
    for i in range(count):
        *identity, spare, offset, length, checksum = struct.unpack_from("<4I3Q", data, 32 + 40 * i)
        entry = Entry(*identity, offset, length, checksum)
        require(entry.kind != 0, "kind 0")
        require(not entries or entries[-1][:2] < entry[:2], "order")
        require(entry.flags & 0xFFFE == 0, "critical section flags")
        require(not entry.flags & 1 or entry.kind in KNOWN_KINDS, "must understand")
        require(spare == 0, "reserved")
        require(offset == (end + 63) // 64 * 64, "offset")
        require(offset + length <= len(data), "length")
        require(not any(data[end:offset]), "padding")
        end = offset + length
        entries.append(entry)
    require(end == len(data), "exact end")
    return entries


def read_payload(data: bytes, entry: Entry) -> bytes:
    payload = data[entry.offset : entry.offset + entry.length]
    require(xxh64(payload) == entry.checksum, "payload checksum")
    return payload


def read_container(data: bytes) -> dict[tuple[int, int], tuple[int, bytes]]:
    """(kind, ordinal) -> (flags, payload), everything checked."""
    return {e[:2]: (e.flags, read_payload(data, e)) for e in read_entries(data)}
