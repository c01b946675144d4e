"""What Container and build_container promise about good files and honest mistakes."""

from __future__ import annotations

import gc
import os
import pickle
from pathlib import Path

import pytest
import samples
import second_reader
from hypothesis import given
from hypothesis import strategies as st

from hotstart._core import Container, build_container, publish
from hotstart.container import SectionInfo, SectionKind, sections
from hotstart.errors import CorruptPackageError

u32 = st.integers(0, 2**32 - 1)
section_lists = st.lists(
    st.tuples(
        st.integers(1, 2**32 - 1),
        u32,
        st.integers(0, 2**16 - 1).map(lambda high: high << 16),
        st.binary(max_size=200),
    ),
    max_size=12,
    unique_by=lambda section: section[:2],
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "small.hotstart"
    publish(path, samples.small())
    return path


@given(section_lists)
def test_what_is_built_is_read_by_both_readers(written: list[samples.Section]) -> None:
    data = build_container(written)
    expected = {(kind, ordinal): (flags, payload) for kind, ordinal, flags, payload in written}
    container = Container.from_bytes(data)
    container.verify()
    got = {
        (kind, ordinal): (flags, bytes(container.get(kind, ordinal)))
        for kind, ordinal, flags, *_ in container.sections()
    }
    assert got == expected == second_reader.read_container(data)
    assert [tuple(e) for e in second_reader.read_entries(data)] == container.sections()
    assert container.size == len(data)


@given(section_lists, st.randoms())
def test_bytes_do_not_depend_on_the_order_of_sections(
    written: list[samples.Section], random: st.DataObject
) -> None:
    shuffled = list(written)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert build_container(shuffled) == build_container(written)


def test_every_payload_is_aligned() -> None:
    assert all(section[3] % 64 == 0 for section in Container.from_bytes(samples.small()).sections())


def test_an_empty_container() -> None:
    data = build_container([])
    assert len(data) == 40
    container = Container.from_bytes(data)
    assert container.sections() == []
    container.verify()
    assert second_reader.read_container(data) == {}


@pytest.mark.parametrize("load", [Container.open, Container.read])
def test_a_file(load, package: Path) -> None:
    container = load(package)
    assert container.path == str(package)
    assert container.version == 1
    assert container.mapped == (load is Container.open)
    assert container.size == package.stat().st_size
    for kind, ordinal, _, payload in samples.SMALL:
        assert container.has(kind, ordinal)
        view = container.get(kind, ordinal)
        assert view == payload
        assert view.readonly
        assert view.nbytes == len(payload)
        assert view.format == "B"
    assert not container.has(1, 1)
    with pytest.raises(KeyError, match=r"no section \(kind 3, ordinal 0\)"):
        container.get(3)


def test_paths_of_every_type(package: Path) -> None:
    for path in (package, str(package), os.fsencode(package)):
        assert Container.open(path).path == str(package)
    with pytest.raises(ValueError, match="null byte"):
        Container.open("a\0b")
    with pytest.raises(TypeError):
        Container.open(7)  # type: ignore[arg-type]


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\xfe.hotstart")
    publish(path, samples.small())
    name = Container.open(path).path
    assert name is not None
    assert os.fsencode(name) == path


def test_from_bytes_has_no_path() -> None:
    container = Container.from_bytes(samples.small())
    assert container.path is None
    assert not container.mapped


def test_views_are_no_copies_of_bytes() -> None:
    data = samples.small()
    whole = memoryview(data)
    container = Container.from_bytes(data)
    view = container.get(4)
    with pytest.raises(TypeError):
        view[0] = 1  # type: ignore[index]
    assert memoryview(container) == whole
    # The same memory: numpy-free proof by address.
    import ctypes

    address = ctypes.c_char_p(data)
    base = ctypes.cast(address, ctypes.c_void_p).value
    info = next(s for s in sections(container) if s.kind == SectionKind.BACKEND)
    assert base is not None
    assert ctypes.string_at(base + info.offset, info.length) == view


def test_a_writable_buffer_is_copied() -> None:
    data = bytearray(samples.small())
    container = Container.from_bytes(data)
    data[:] = bytes(len(data))
    data.clear()  # not even locked
    assert container.get(1) == b"strings"


def test_an_object_without_bytes() -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        Container.from_bytes("text")  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        Container.from_bytes(memoryview(b"abcdef")[::2])


@pytest.mark.parametrize("load", [Container.open, Container.read])
def test_a_view_outlives_container_and_file(load, package: Path) -> None:
    container = load(package)
    views = [(container.get(k, o), payload) for k, o, _, payload in samples.SMALL]
    package.unlink()
    del container
    gc.collect()
    for view, payload in views:
        assert view == payload
    part = views[3][0][10:20]
    del views, view
    gc.collect()
    assert part == bytes(range(10, 20))


def test_a_mapping_is_given_back_with_its_last_view(package: Path) -> None:
    def mapped() -> bool:
        return str(package) in Path("/proc/self/maps").read_text()

    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc")
    view = Container.open(package).get(1)
    gc.collect()
    assert mapped()
    view.release()
    del view
    gc.collect()
    assert not mapped()


def test_opening_leaks_no_descriptor(package: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    kept = [Container.open(package) for _ in range(20)]
    assert len(os.listdir("/dev/fd")) == before
    assert len(kept) == 20


def test_named_sections() -> None:
    listed = sections(Container.from_bytes(samples.small()))
    assert isinstance(listed[0], SectionInfo)
    assert listed[0].kind is SectionKind.STRINGS
    assert listed[-1].kind == 99
    assert [tuple(s) for s in listed] == Container.from_bytes(samples.small()).sections()


def test_unknown_kinds_are_kept() -> None:
    assert Container.from_bytes(samples.small()).get(99, 0xFFFF_FFFF) == samples.SMALL[-1][3]


def test_a_container_is_not_made_by_hand() -> None:
    with pytest.raises(TypeError):
        Container()
    with pytest.raises(TypeError):
        pickle.dumps(Container.from_bytes(samples.small()))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([(1, 0, 0, b""), (2, 0, 0, b""), (1, 0, 0, b"")], r"kind 1, ordinal 0\) is given twice"),
        ([(0, 0, 0, b"")], "kind 0 is reserved"),
        ([(1, 0, 2, b"")], "bits 1 to 15 are reserved"),
        ([(1, i, 0, b"") for i in range(65537)], "at most 65536 sections, found 65537"),
    ],
)
def test_what_no_container_can_hold(written: list[samples.Section], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_container(written)


@pytest.mark.parametrize(
    "section", [(1, 2), (1, 0, 0, "text"), (-1, 0, 0, b""), (1 << 32, 0, 0, b"")]
)
def test_what_is_no_section(section: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        build_container([section])  # type: ignore[list-item]


def test_the_largest_count() -> None:
    written = [(1, i, 0, b"") for i in range(65536)]
    container = Container.from_bytes(build_container(written))
    assert container.has(1, 65535)
    container.verify()


def test_any_buffer_can_be_a_payload() -> None:
    from array import array

    numbers = array("d", [1.0, 2.0])
    data = build_container([(1, 0, 0, numbers), (2, 0, 0, memoryview(b"abc")[1:])])
    container = Container.from_bytes(data)
    assert container.get(1).cast("d").tolist() == [1.0, 2.0]
    assert container.get(2) == b"bc"


def test_corrupt_errors_carry_reason_and_offset() -> None:
    with pytest.raises(CorruptPackageError, match="too short") as caught:
        Container.from_bytes(b"short")
    assert caught.value.offset == 5
    assert "expected at least 40 bytes, found 5" in caught.value.reason
