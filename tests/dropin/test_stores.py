"""Stores keep packages under keys; the disk cache finds them by function."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from _entries import cache_entry, code_entry
from torch._dynamo.precompile_context import EagerCacheArtifact, PrecompileContext
from torch._dynamo.utils import counters

SUBJECT = """\
def fn(x):
    return x + 1


def other(x):
    return x + 2
"""

X = torch.arange(4.0)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, impl: Any, tmp_path: Path) -> Any:
    if request.param == "memory":
        return impl.InMemoryDynamoStore()
    return impl.DiskDynamoStore(str(tmp_path / "store"))


def compiled(impl: Any, fn: Any, *args: Any) -> Any:
    package = impl.CompilePackage(fn)
    impl.compile(package, fn)(*(args or (X,)))
    return package


def saved(impl: Any, store: Any, fn: Any, key: str) -> Any:
    package = compiled(impl, fn)
    impl.record_eager(package, store)
    store.save_package(package, key)
    return package


def served(package: Any, fn: Any) -> Any:
    with torch.compiler.set_stance("fail_on_recompile"):
        return torch._dynamo.optimize("eager", package=package)(fn)(X)


def test_round_trip(impl: Any, store: Any, program: Any) -> None:
    module = program(SUBJECT)
    first = saved(impl, store, module.fn, "a")
    second = saved(impl, store, module.other, "b")

    module = program.restart()
    for key, name, original in (("a", "fn", first), ("b", "other", second)):
        fn = getattr(module, name)
        package, backends = store.load_package(fn, key)
        assert isinstance(package, impl.CompilePackage)
        assert set(backends) == original.cache_entry().backend_ids
        package.install(backends)
        assert torch.equal(served(package, fn), fn(X))


def test_read_gives_back_what_was_written(impl: Any, store: Any) -> None:
    entry = cache_entry(impl, code_entry(impl, backend_ids=["__compiled_fn_1"]))
    artifact = EagerCacheArtifact(key="__compiled_fn_1", content=[1, 2])
    whole = impl.PrecompileCacheEntry(entry, {"__compiled_fn_1": artifact})
    store.write(whole, "key")
    read = store.read("key")
    assert isinstance(read, impl.PrecompileCacheEntry)
    assert read.dynamo == entry
    assert read.backends["__compiled_fn_1"].after_deserialization() == [1, 2]


def test_writing_again_replaces(impl: Any, store: Any) -> None:
    for line in (1, 2):
        entry = cache_entry(impl, code_entry(impl), fn_first_lineno=line)
        store.write(impl.PrecompileCacheEntry(entry, {}), "key")
    assert store.read("key").dynamo.fn_first_lineno == 2


def test_clear(impl: Any, store: Any) -> None:
    entry = cache_entry(impl, code_entry(impl))
    store.write(impl.PrecompileCacheEntry(entry, {}), "key")
    store.clear()
    with pytest.raises(RuntimeError):
        store.read("key")
    store.clear()  # nothing there is fine too


def test_missing_key(store: Any) -> None:
    for read in (store.read, store.load_cache_entry):
        with pytest.raises(RuntimeError, match="never_saved"):
            read("never_saved")


def test_missing_backend(impl: Any, store: Any, program: Any) -> None:
    package = compiled(impl, program(SUBJECT).fn)
    (backend_id,) = package.cache_entry().backend_ids
    for save in (
        lambda: store.save_package(package, "key"),
        lambda: store.save_cache_entry(package.cache_entry(), "key"),
    ):
        with pytest.raises(RuntimeError, match=f"Backend {backend_id} is not found"):
            save()
    with pytest.raises(RuntimeError):
        store.read("key")


def test_backend_of_the_wrong_type(
    impl: Any, store: Any, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = compiled(impl, program(SUBJECT).fn)
    (backend_id,) = package.cache_entry().backend_ids
    monkeypatch.setitem(PrecompileContext._backend_artifacts_by_key, backend_id, "not one")
    with pytest.raises(AssertionError, match="Expected BackendCacheArtifact"):
        store.save_package(package, "key")


def test_recording(impl: Any, store: Any, program: Any) -> None:
    package = compiled(impl, program(SUBJECT).fn)
    store.record_package(package)
    recorded = PrecompileContext._dynamo_cache_entries[package.source_id]
    assert recorded == package.cache_entry()
    ((backend_id, backend),) = package.cached_backends.items()
    store.record_eager_backend(backend_id, backend)
    artifact = PrecompileContext.serialize_artifact_by_key(backend_id)
    assert isinstance(artifact, EagerCacheArtifact)
    assert artifact.key == backend_id


def test_loading_records_the_backends(impl: Any, store: Any, program: Any) -> None:
    module = program(SUBJECT)
    saved(impl, store, module.fn, "key")
    program.restart()
    entry = store.load_cache_entry("key")
    (backend_id,) = entry.dynamo.backend_ids
    assert PrecompileContext.serialize_artifact_by_key(backend_id) is not None


def test_stores_are_abstract(impl: Any) -> None:
    with pytest.raises(TypeError, match="abstract"):
        impl.DynamoStore()


def test_a_store_of_ones_own(impl: Any, program: Any) -> None:
    class Mine(impl.DynamoStore):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self.kept: dict[str, bytes] = {}

        def clear(self) -> None:
            self.kept.clear()

        def write(self, cache_entry: Any, path: str) -> None:
            self.kept[path] = pickle.dumps(cache_entry)

        def read(self, path: str) -> Any:
            return pickle.loads(self.kept[path])

    store = Mine()
    module = program(SUBJECT)
    saved(impl, store, module.fn, "key")
    module = program.restart()
    package, backends = store.load_package(module.fn, "key")
    package.install(backends)
    assert torch.equal(served(package, module.fn), X + 1)


# --------------------------------------------------------------------------- disk


def test_disk_store_without_a_prefix(impl: Any, tmp_path: Path) -> None:
    store = impl.DiskDynamoStore()
    assert store.path_prefix() == ""
    entry = cache_entry(impl, code_entry(impl))
    store.write(impl.PrecompileCacheEntry(entry, {}), str(tmp_path / "deep" / "er"))
    assert store.read(str(tmp_path / "deep" / "er")).dynamo == entry
    store.clear()  # without a folder of its own it must not touch anything
    assert store.read(str(tmp_path / "deep" / "er")).dynamo == entry


def test_disk_store_is_only_what_is_on_disk(impl: Any, tmp_path: Path) -> None:
    entry = cache_entry(impl, code_entry(impl))
    impl.DiskDynamoStore(str(tmp_path / "a")).write(impl.PrecompileCacheEntry(entry, {}), "key")
    os.rename(tmp_path / "a", tmp_path / "b")
    assert impl.DiskDynamoStore(str(tmp_path / "b")).read("key").dynamo == entry
    with pytest.raises(RuntimeError):
        impl.DiskDynamoStore(str(tmp_path / "a")).read("key")


def test_unwritable_folder(impl: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = impl.DiskDynamoStore(str(tmp_path / "file"))
    entry = cache_entry(impl, code_entry(impl))
    with pytest.raises(RuntimeError, match="Failed to save package to"):
        store.write(impl.PrecompileCacheEntry(entry, {}), "key")


def test_unpicklable_content(impl: Any, tmp_path: Path) -> None:
    store = impl.DiskDynamoStore(str(tmp_path / "store"))
    artifact = EagerCacheArtifact(key="__compiled_fn_1", content=lambda: None)
    entry = cache_entry(impl, code_entry(impl, backend_ids=["__compiled_fn_1"]))
    with pytest.raises(RuntimeError, match="Failed to save package to"):
        store.write(impl.PrecompileCacheEntry(entry, {"__compiled_fn_1": artifact}), "key")
    with pytest.raises(RuntimeError):
        store.read("key")


def damage(folder: Path, how: Callable[[bytes], bytes]) -> None:
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert files
    for path in files:
        path.chmod(0o600)
        path.write_bytes(how(path.read_bytes()))


DAMAGE = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "foreign": lambda data: b"not a package" * 100,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_file(impl: Any, tmp_path: Path, how: str) -> None:
    store = impl.DiskDynamoStore(str(tmp_path / "store"))
    entry = cache_entry(impl, code_entry(impl))
    store.write(impl.PrecompileCacheEntry(entry, {}), "key")
    damage(tmp_path / "store", DAMAGE[how])
    with pytest.raises(RuntimeError, match="Failed to load package from path"):
        store.read("key")


# --------------------------------------------------------------------------- the disk cache


@pytest.fixture
def cache(impl: Any) -> Any:
    """The process's own cache; every test has a folder of its own under it."""
    return impl.DynamoCache


def test_cache_instance(impl: Any, cache: Any) -> None:
    assert isinstance(cache, impl.DiskDynamoCache)
    assert isinstance(cache, impl.DiskDynamoStore)


def test_cache_follows_the_environment(
    impl: Any, cache: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cache.path_prefix().startswith(str(tmp_path))
    assert impl.cache_dir() == str(tmp_path / "inductor")
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "HOTSTART_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert cache.path_prefix().startswith(str(tmp_path / "elsewhere"))


def test_cache_counts(impl: Any, cache: Any, program: Any) -> None:
    module = program(SUBJECT)
    assert cache.load(module.fn) is None
    assert counters["dynamo_cache"] == {"dynamo_cache_miss": 1}

    package = compiled(impl, module.fn)
    impl.record_eager(package, cache)
    cache.save(package)
    entry = cache.load(module.fn)
    assert isinstance(entry, impl.PrecompileCacheEntry)
    assert entry.dynamo.backend_ids == package.cache_entry().backend_ids
    assert counters["dynamo_cache"] == {"dynamo_cache_miss": 1, "dynamo_cache_hit": 1}
    assert cache.load(module.other) is None
    assert counters["dynamo_cache"]["dynamo_cache_miss"] == 2


@pytest.mark.parametrize("how", DAMAGE)
def test_cache_with_a_damaged_file(
    impl: Any, cache: Any, program: Any, how: str, backend_log: list[str]
) -> None:
    module = program(SUBJECT)
    package = compiled(impl, module.fn)
    impl.record_eager(package, cache)
    cache.save(package)
    damage(Path(cache.path_prefix()), DAMAGE[how])
    module = program.restart()
    backend_log.clear()
    assert cache.load(module.fn) is None
    assert counters["dynamo_cache"] == {"dynamo_cache_error": 1}
    assert len(backend_log) == 1
    assert "ailed to load" in backend_log[0]


def test_two_functions_by_hand(impl: Any, cache: Any, program: Any) -> None:
    module = program(SUBJECT)
    for fn in (module.fn, module.other):
        package = compiled(impl, fn)
        impl.record_eager(package, cache)
        cache.save(package)

    module = program.restart()
    for fn in (module.fn, module.other):
        entry = cache.load(fn)
        package = impl.CompilePackage(fn, entry.dynamo)
        package.install(entry.backends)
        assert torch.equal(served(package, fn), fn(X))
    assert counters["dynamo_cache"] == {"dynamo_cache_hit": 2}


def test_load_and_install(impl: Any, cache: Any, program: Any) -> None:
    module = program(SUBJECT)
    assert cache.load_and_install_package(module.fn) is None
    package = compiled(impl, module.fn)
    impl.record_eager(package, cache)
    cache.save(package)
    module = program.restart()
    package = cache.load_and_install_package(module.fn)
    assert isinstance(package, impl.CompilePackage)
    assert torch.equal(served(package, module.fn), X + 1)


def test_cache_clear(impl: Any, cache: Any, program: Any) -> None:
    module = program(SUBJECT)
    package = compiled(impl, module.fn)
    impl.record_eager(package, cache)
    cache.save(package)
    cache.clear()
    assert cache.load(module.fn) is None


# --------------------------------------------------------------------------- artefacts as bytes


def test_artifact_type(impl: Any) -> None:
    from torch.compiler._cache import CacheArtifactFactory, CacheInfo

    assert impl.PrecompileCacheArtifact.type() == "precompile"
    with impl.automatic():
        made = CacheArtifactFactory.create("precompile", "key", b"content")
    assert isinstance(made, impl.PrecompileCacheArtifact)
    info = CacheInfo()
    info.add(made)
    assert info.precompile_artifacts == ["key"]


def test_nothing_compiled_gives_nothing(impl: Any) -> None:
    with impl.automatic():
        assert torch.compiler.save_cache_artifacts() is None


def test_packages_travel_as_bytes(
    impl: Any, cache: Any, program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = program(SUBJECT)
    with impl.automatic():
        package = compiled(impl, module.fn)
        impl.record_eager(package, cache)
        cache.save(package)
        artifacts = torch.compiler.save_cache_artifacts()
    assert artifacts is not None
    data, info = artifacts
    assert isinstance(data, bytes)
    assert len(info.precompile_artifacts) == 1

    for variable in ("TORCHINDUCTOR_CACHE_DIR", "HOTSTART_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "another host"))
    for repeat in range(2):
        module = program.restart()
        with impl.automatic():
            if repeat == 0:
                assert cache.load(module.fn) is None
            info = torch.compiler.load_cache_artifacts(data)
            assert info is not None
            assert len(info.precompile_artifacts) == 1
            entry = cache.load(module.fn)
            package = impl.CompilePackage(module.fn, entry.dynamo)
            package.install(entry.backends)
            assert torch.equal(served(package, module.fn), X + 1)
