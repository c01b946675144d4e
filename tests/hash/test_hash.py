"""SHA-256 equals hashlib's on every input, by both paths; XXH64 equals its published vectors."""

from __future__ import annotations

import hashlib
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotstart import _core


def check_sha256(data: bytes) -> None:
    expected = hashlib.sha256(data).digest()
    assert _core.sha256(data) == expected
    assert _core._sha256_portable(data) == expected
    assert _core.sha256_hex(data) == expected.hex()


@pytest.mark.parametrize("size", [*range(301), 4095, 4096, 4097, 65535, 65536, 65537])
def test_sha256_of_every_length(size: int) -> None:
    check_sha256(bytes(i * 131 % 256 for i in range(size)))


def test_sha256_of_a_large_input() -> None:
    check_sha256(bytes(range(256)) * (16 << 10) + b"tail")


@given(st.binary(max_size=1000))
def test_sha256_of_anything(data: bytes) -> None:
    check_sha256(data)


@given(st.binary(max_size=300), st.integers(0, 40))
def test_sha256_at_any_alignment(data: bytes, start: int) -> None:
    assert _core.sha256(memoryview(data)[start:]) == hashlib.sha256(data[start:]).digest()


def test_sha256_from_many_threads() -> None:
    data = b"z" * (1 << 20)
    expected = hashlib.sha256(data).digest()
    wrong: list[bytes] = []

    def work() -> None:
        wrong.extend(got for _ in range(20) if (got := _core.sha256(data)) != expected)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_implementation_has_a_name() -> None:
    assert _core._sha256_implementation() in ("sha-ni", "portable")


def sanity_buffer(size: int) -> bytes:
    """The pseudo-random buffer of xxHash's own sanity test (tests/sanity_test.c)."""
    out = bytearray()
    generator = 2654435761
    for _ in range(size):
        out.append(generator >> 56)
        generator = generator * 11400714785074694797 % 2**64
    return bytes(out)


# (length, seed, hash) over sanity_buffer, from xxHash's sanity test vectors for XXH64.
PRIME32 = 2654435761
VECTORS = [
    (0, 0, 0xEF46DB3751D8E999),
    (0, PRIME32, 0xAC75FDA2929B17EF),
    (1, 0, 0xE934A84ADB052768),
    (1, PRIME32, 0x5014607643A9B4C3),
    (4, 0, 0x9136A0DCA57457EE),
    (14, 0, 0x8282DCC4994E35C8),
    (14, PRIME32, 0xC3BD6BF63DEB6DF0),
    (222, 0, 0xB641AE8CB691C174),
    (222, PRIME32, 0x20CB8AB7AE10C14A),
]


@pytest.mark.parametrize(("length", "seed", "expected"), VECTORS)
def test_xxh64_vectors(length: int, seed: int, expected: int) -> None:
    assert _core.xxh64(sanity_buffer(222)[:length], seed) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_of_known_texts(text: bytes, expected: int) -> None:
    assert _core.xxh64(text) == expected


@pytest.mark.parametrize("function", [_core.sha256, _core.sha256_hex, _core.xxh64])
def test_buffers(function) -> None:
    data = b"some bytes"
    expected = function(data)
    assert function(bytearray(data)) == function(memoryview(b"_" + data)[1:]) == expected
    with pytest.raises(TypeError, match="bytes-like"):
        function("text")
    with pytest.raises(BufferError):
        function(memoryview(data)[::2])


@pytest.mark.parametrize("seed", [-1, 2**64, "0", 1.5])
def test_a_seed_that_is_none(seed: object) -> None:
    with pytest.raises(TypeError):
        _core.xxh64(b"", seed)  # type: ignore[arg-type]
