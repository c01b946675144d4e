"""hash_lines() equals what torch computes through inspect, on generated and on real files."""

from __future__ import annotations

import codecs
import hashlib
import importlib.util
import inspect
import linecache
import os
import sysconfig
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hotstart._core import hash_source_spans, hash_source_spans_bytes
from hotstart.source_hash import hash_lines

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def expected_hash(path: Path, first: int, last: int) -> str:
    """torch._dynamo.package._hash_sourcelines, for a module that is not imported."""
    module = types.ModuleType("generated")
    module.__file__ = str(path)
    linecache.checkcache(str(path))
    linecache.cache.pop(str(path), None)
    lines = inspect.getsourcelines(module)[0][first - 1 : last - 1]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check(path: Path, data: bytes, spans: list[tuple[int, int]]) -> None:
    path.write_bytes(data)
    try:
        expected = [expected_hash(path, *span) for span in spans]
    except (OSError, UnicodeError, LookupError):
        with pytest.raises(OSError, match="could not get source code"):
            hash_lines(path, spans)
        return
    assert hash_lines(path, spans) == expected
    native = hash_source_spans(path, spans)
    assert native in (None, expected)
    assert hash_source_spans_bytes(data, spans) == native


pieces = st.sampled_from(
    [
        *("\n", "\r", "\r\n", "\n\r", "\f", "\x0b", "\x1c", "\x1d", "\x1e", "\x85", "\u2028"),
        *("\u2029", "\t", " ", "def f():", "    return 1", "# -*- coding: utf-8 -*-", "é", "€"),
        *("\U0001f600", "\ufeff", "coding=utf-8", "#coding:latin-1", "# vim: set fileencoding="),
        *("utf8", "UTF_8", "ascii", "\0", "x = '''", "\\\n", "\ud7ff", "\ue000"),
    ]
)
texts = st.lists(pieces, max_size=12).map("".join)
line_number = st.integers(-3, 15)
span_lists = st.lists(st.tuples(line_number, line_number), min_size=1, max_size=5)
ALL = [(1, 100), (1, 1), (1, 2), (2, 3), (2, 100), (3, 2), (0, 2), (-1, 5), (50, 60)]


@same_folder
@given(texts, st.booleans(), span_lists)
def test_generated_text(tmp_path: Path, text: str, bom: bool, spans: list[tuple[int, int]]) -> None:
    check(tmp_path / "m.py", (codecs.BOM_UTF8 if bom else b"") + text.encode(), spans)


@same_folder
@given(st.lists(st.one_of(pieces.map(str.encode), st.binary(max_size=4)), max_size=8), span_lists)
@example([b"\xff"], ALL)
@example([b"\xc3\x28"], ALL)
def test_generated_bytes(tmp_path: Path, parts: list[bytes], spans: list[tuple[int, int]]) -> None:
    check(tmp_path / "m.py", b"".join(parts), spans)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\r",
        b"\r\n",
        b"x",
        b"x\n",
        b"x\r",
        b"x\r\ny",
        b"a\rb\nc\r\nd\n\re",
        b"a\fb\x0bc\x1cd\x1de\x1ef\n\x0cg",
        "a\x85b\u2028c\u2029d\n".encode(),
        b"\tif x:\n\t\ty\n",
        codecs.BOM_UTF8,
        codecs.BOM_UTF8 + b"x\n",
        codecs.BOM_UTF8 * 2 + b"x\n",
        codecs.BOM_UTF8 + b"# coding: utf-8\nx\n",
        codecs.BOM_UTF8 + b"# coding: utf8\nx\n",
        codecs.BOM_UTF8 + b"# coding: latin-1\nx\n",
        b"# coding: utf-8\nx\n",
        b"#!/usr/bin/python\n# vim: set fileencoding=utf-8 :\nx\n",
        "# -*- coding: latin-1 -*-\né = 1\n".encode("latin-1"),
        "#!x\n# -*- coding: latin-1 -*-\né = 1\n".encode("latin-1"),
        "x = 1\n# -*- coding: latin-1 -*-\né = 1\n".encode("latin-1"),
        "\n\n# -*- coding: latin-1 -*-\né = 1\n".encode("latin-1"),
        b"# coding: utf-16\nx\n",
        "# coding: cp1252\r\n€\r\n".encode("cp1252"),
        "# coding: euc-jp\n日本\n".encode("euc-jp"),
        b"# coding: no-such-codec\nx\n",
        b"# coding: rot13\nx\n",
        b"# coding: undefined\nx\n",
        b"# coding:\n# coding: latin-1\n\xe9\n",
        b"# coding: coding: latin-1\n\xe9\n",
        b"# comment\r# coding: latin-1\r\xe9\r",
        b"# coding: unicode_escape\nx = '\\ud800'\n",
        b"\xef\xbb",
        b"x = '\xff'\n",
        b"ok\n" * 1000 + b"\xff\n",
        b"\xed\xa0\x80\n",
        b"\xc0\x80\n",
        b"\xf4\x90\x80\x80\n",
        b"\xe2\x82",
        b"a\0b\n",
        b"a\nb\nc\0\n",
        b"x" * 100_000,
    ],
)
def test_files_worth_a_name(tmp_path: Path, data: bytes) -> None:
    check(tmp_path / "m.py", data, ALL)


def test_utf8_is_done_natively() -> None:
    for data in (b"x\n", "é\r\nx".encode(), b"# coding: utf-8\nx", codecs.BOM_UTF8 + b"x"):
        assert hash_source_spans_bytes(data, [(1, 2)]) is not None
    # Anything that some Python version might read in another way is left to Python.
    for data in (b"# coding: latin-1\nx", b"#\r# coding: utf-8\nx", b"", b"\0\n", b"\xff\n"):
        assert hash_source_spans_bytes(data, [(1, 2)]) is None


def stdlib_files() -> list[str]:
    folder = sysconfig.get_path("stdlib")
    names = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    for package in ("email", "json", "unittest", "xml/dom", "test"):
        path = os.path.join(folder, package)
        if os.path.isdir(path):
            names += [os.path.join(path, name) for name in sorted(os.listdir(path))]
    return [name for name in names if name.endswith(".py")]


def test_every_file_of_the_standard_library(tmp_path: Path) -> None:
    files = stdlib_files()
    assert len(files) > 150
    native = 0
    for name in files:
        data = Path(name).read_bytes()
        check(tmp_path / "m.py", data, [(1, 10**6), (2, 40), (len(data) // 80, len(data) // 60)])
        native += hash_source_spans_bytes(data, [(1, 2)]) is not None
    assert native > 0.9 * len(files)


def test_a_real_module() -> None:
    import json.decoder

    code = json.decoder.JSONDecoder.decode.__code__
    lines, first = inspect.getsourcelines(code)
    got = hash_lines(json.decoder.__file__, [(first, first + len(lines))])
    assert got == [hashlib.sha256("".join(lines).encode()).hexdigest()]


def test_a_changed_file_gives_its_new_hash(tmp_path: Path) -> None:
    """Also by the slow path, although size and time stamp are the same."""
    for head in (b"", b"# coding: latin-1\n"):
        path = tmp_path / "m.py"
        path.write_bytes(head + b"x = 1\n")
        os.utime(path, (1, 1))
        before = hash_lines(path, [(1, 9)])
        path.write_bytes(head + b"x = 2\n")
        os.utime(path, (1, 1))
        assert hash_lines(path, [(1, 9)]) != before


def test_no_spans(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("x\n")
    assert hash_lines(path, []) == []


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        hash_lines(tmp_path / "none.py", [(1, 2)])
    assert caught.value.filename == str(tmp_path / "none.py")
    with pytest.raises(IsADirectoryError):
        hash_lines(tmp_path, [(1, 2)])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Invalid argument"):
        hash_lines(tmp_path / "pipe", [(1, 2)])


@pytest.mark.parametrize("span", [(1,), 1, ("a", 2), (1, 2, 3), (1.5, 2)])
def test_what_is_no_span(span: object) -> None:
    with pytest.raises(TypeError, match=r"expected \(first, last\)"):
        hash_source_spans_bytes(b"x\n", [span])  # type: ignore[list-item]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.torch
def test_torch_computes_the_same() -> None:
    import json.encoder

    from torch._dynamo.package import _hash_sourcelines

    spans = [(1, 20), (35, 180), (400, 10**6)]
    expected = [_hash_sourcelines(json.encoder, first, last) for first, last in spans]
    assert hash_lines(json.encoder.__file__, spans) == expected
