"""Checksums of source lines, equal to those that torch computes through ``inspect``.

``hash_lines(path, [(first, last)])`` is the hexadecimal
``sha256("".join(lines[first - 1 : last - 1]).encode())``, where ``lines`` is what
``inspect.getsourcelines`` returns for the module in that file. The file is read once for all spans
and never through ``linecache``'s memory, so a file that has just been changed gives its new
checksum.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence

from hotstart._core import hash_source_spans, sha256_hex

__all__ = ["hash_lines"]


def hash_lines(path: str | os.PathLike[str], spans: Sequence[tuple[int, int]]) -> list[str]:
    """The SHA-256 of each span of lines, ``first`` counted from 1 and ``last`` exclusive.

    Spans are Python slices: one that reaches beyond the file is cut off. Raises ``OSError``, like
    ``inspect``, for a file that cannot be read or is not Python source.

    UTF-8 files are hashed in C++. Where Python may see something else in the bytes (another
    declared encoding, an empty or a broken file), Python itself is asked.
    """
    hashes = hash_source_spans(path, spans)
    return _hash_as_python_reads(path, spans) if hashes is None else hashes


def _hash_as_python_reads(
    path: str | os.PathLike[str], spans: Sequence[tuple[int, int]]
) -> list[str]:
    name = os.fspath(path)
    try:
        lines = linecache.updatecache(name)
        if not lines:
            raise OSError(f"could not get source code of {name!r}")
        return [sha256_hex("".join(lines[slice(*_bounds(span))]).encode()) for span in spans]
    except (UnicodeError, LookupError) as error:  # of codecs that linecache does not expect
        raise OSError(f"could not get source code of {name!r}: {error}") from error


def _bounds(span: tuple[int, int]) -> tuple[int, int]:
    first, last = span
    return first - 1, last - 1
