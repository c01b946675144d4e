"""Code objects, system info, sources and entries: the records that a package is made of."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from _entries import cache_entry, code_entry, plain

# --------------------------------------------------------------------------- code objects


def with_cells(x: int) -> Callable[[], int]:
    def inner() -> int:
        nonlocal x
        x += 1
        return x

    return inner


def with_handlers(x: Any) -> str:
    try:
        return str(1 / x)
    except ZeroDivisionError:
        return "zero"
    finally:
        x = None


def generator(n: int) -> Any:
    yield from (i * i for i in range(n))


async def coroutine() -> None:
    return None


def constants() -> tuple[Any, ...]:
    return (1, -0.0, 2j, b"\x00", "\ud800", None, ..., frozenset({1, 2}), ((), ((3,),)))


CODES = [
    pytest.param(f.__code__, id=f.__name__)
    for f in (plain, with_cells, with_handlers, generator, coroutine, constants)
] + [
    pytest.param(compile("x = [i for i in y]\nclass A: z = lambda s: s", "?", "exec"), id="module")
]


@pytest.mark.parametrize("code", CODES)
def test_code_round_trip(impl: Any, code: types.CodeType) -> None:
    serialized = impl.SerializedCode.from_code_object(code)
    # Through bytes, or the identity cache would hand back the original.
    copy = impl.SerializedCode.to_code_object(pickle.loads(pickle.dumps(serialized)))
    assert copy is not code
    assert copy == code
    assert list(copy.co_lines()) == list(code.co_lines())
    for name in (
        n for n in dir(code) if n.startswith("co_") and n not in ("co_lnotab", "co_consts")
    ):
        if not callable(getattr(code, name)):
            assert getattr(copy, name) == getattr(code, name), name


def test_rebuilt_code_runs(impl: Any) -> None:
    def rebuilt(f: types.FunctionType) -> types.FunctionType:
        wire = pickle.dumps(impl.SerializedCode.from_code_object(f.__code__))
        code = impl.SerializedCode.to_code_object(pickle.loads(wire))
        return types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__)

    assert rebuilt(with_handlers)(0) == "zero"
    assert list(rebuilt(generator)(4)) == [0, 1, 4, 9]
    assert rebuilt(with_cells)(1)() == 2
    assert repr(rebuilt(constants)()) == repr(constants())


def test_rebuilt_code_keeps_line_numbers(impl: Any) -> None:
    wire = pickle.dumps(impl.SerializedCode.from_code_object(with_handlers.__code__))
    code = impl.SerializedCode.to_code_object(pickle.loads(wire))
    broken = types.FunctionType(code, with_handlers.__globals__)
    with pytest.raises(TypeError) as caught:
        broken("text")
    raised_at = caught.traceback[-1].lineno
    assert raised_at == with_handlers.__code__.co_firstlineno + 1


def test_nested_code_is_serialized_as_well(impl: Any) -> None:
    serialized = impl.SerializedCode.from_code_object(with_cells.__code__)
    nested = [c for c in serialized.co_consts if isinstance(c, impl.SerializedCode)]
    assert [n.co_name for n in nested] == ["inner"]
    assert not any(isinstance(c, types.CodeType) for c in serialized.co_consts)


def test_code_is_cached_by_identity(impl: Any) -> None:
    cls = impl.SerializedCode
    serialized = cls.from_code_object(plain.__code__)
    assert cls.from_code_object(plain.__code__) is serialized
    code = cls.to_code_object(serialized)
    assert cls.to_code_object(serialized) is code
    twin = plain.__code__.replace()
    assert twin == plain.__code__
    assert cls.from_code_object(twin) is not serialized


def test_serialized_code_is_frozen(impl: Any) -> None:
    serialized = impl.SerializedCode.from_code_object(plain.__code__)
    with pytest.raises(dataclasses.FrozenInstanceError):
        serialized.co_name = "other"


# --------------------------------------------------------------------------- system info


def info(impl: Any, **changes: Any) -> Any:
    base = impl.SystemInfo("3.11.1", "2.13.0", "12.8", (3, 4), "GPU A")
    return dataclasses.replace(base, **changes)


def test_current_system(impl: Any) -> None:
    now = impl.SystemInfo.current()
    assert now.python_version == ".".join(map(str, sys.version_info[:3]))
    assert now.torch_version == torch.__version__
    assert impl.SystemInfo.CHECK_GPUS == ("cuda", "xpu")
    assert now == impl.SystemInfo.current()
    now.check_compatibility(impl.SystemInfo.current())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"python_version": "3.9.0"}, "different Python version: 3.11.1"),
        ({"torch_version": "1.0"}, "different PyTorch version: 2.13.0"),
    ],
)
def test_incompatible_anywhere(impl: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=f"Compile package was created with a {message}"):
        info(impl).check_compatibility(info(impl, **change))


@pytest.mark.parametrize("device", ["cuda", "xpu"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"toolkit_version": "11.0"}, "created with a different toolkit version: 12.8"),
        ({"triton_version": (2, 0)}, r"created with a different Triton version: \(3, 4\)"),
        ({"gpu_name": "GPU B"}, "created with different GPU: cached=GPU A, current=GPU B"),
    ],
)
def test_incompatible_gpu_package(
    impl: Any, monkeypatch: Any, device: str, change: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(getattr(torch, device), "is_available", lambda: True)
    with pytest.raises(RuntimeError, match=f"Compile package was {message}"):
        info(impl).check_compatibility(info(impl, **change), device)
    # The same differences do not matter to what was compiled for the CPU.
    info(impl).check_compatibility(info(impl, **change), "cpu")
    info(impl).check_compatibility(info(impl, **change))


def test_gpu_package_needs_the_device(impl: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="cuda is not available"):
        info(impl).check_compatibility(info(impl), "cuda")


def test_gpu_package_where_little_is_known(impl: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    info(impl).check_compatibility(info(impl, triton_version=(0, 0)), "cuda")
    info(impl).check_compatibility(info(impl, gpu_name=None), "cuda")


# --------------------------------------------------------------------------- sources

SUBJECT = """\
def first(x):
    return x + 1


def second(x):
    # a comment
    return x + 2
"""


def test_inlined_source(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    sources = impl.SourceInfo(inlined_sources=set())
    sources.add_code(module.second.__code__)
    sources.add_code(module.second.__code__)
    (source,) = sources.inlined_sources
    lines, first = inspect.getsourcelines(module.second)
    assert source == impl.InlinedSource(
        module=module.__name__,
        firstlineno=first,
        lastlineno=first + len(lines),
        checksum=hashlib.sha256("".join(lines).encode()).hexdigest(),
        content=inspect.getsource(module),
    )
    sources.add_code(module.first.__code__)
    assert len(sources.inlined_sources) == 2


def test_code_without_a_module_is_skipped(impl: Any) -> None:
    space: dict[str, Any] = {}
    exec(compile("def f(x): return x", "<nowhere>", "exec"), space)
    sources = impl.SourceInfo(inlined_sources=set())
    sources.add_code(space["f"].__code__)
    assert sources.inlined_sources == set()


def test_source_of_another_module_is_an_error(impl: Any, program: Any, monkeypatch: Any) -> None:
    module = program(SUBJECT)
    other = program("# nothing but\n# a few comments\n\n\n# in here\n\n\n\n")
    monkeypatch.setattr(inspect, "getmodule", lambda *a, **k: other)
    sources = impl.SourceInfo(inlined_sources=set())
    with pytest.raises(AssertionError, match=f"Source mismatch for {other.__name__}"):
        sources.add_code(module.second.__code__)


def test_source_helpers(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    lines = inspect.getsourcelines(module)[0]
    assert impl._get_sourcelines(module, 3, 5) == lines[2:4]
    assert impl._hash_source("é") == hashlib.sha256("é".encode()).hexdigest()
    assert impl._hash_sourcelines(module, 3, 5) == impl._hash_source("".join(lines[2:4]))
    assert impl._get_module_content(module) == inspect.getsource(module)


# --------------------------------------------------------------------------- entries


def test_cache_entry(impl: Any) -> None:
    entry = cache_entry(
        impl,
        code_entry(impl, backend_ids=["__compiled_fn_1", "__compiled_fn_2"]),
        code_entry(impl, with_cells, backend_ids=["__compiled_fn_2"]),
    )
    assert entry.backend_ids == {"__compiled_fn_1", "__compiled_fn_2"}
    assert entry.system_info == impl.SystemInfo.current()
    debug = entry.debug_info()
    assert sorted(debug.pop("backend_ids")) == ["__compiled_fn_1", "__compiled_fn_2"]
    assert debug == {
        "num_codes": "2",
        "fn_name": "plain",
        "fn_first_lineno": 17,
        "device_type": "cpu",
    }
    entry.check_versions()


def test_cache_entry_of_another_version(impl: Any) -> None:
    entry = cache_entry(impl, code_entry(impl))
    entry.system_info = dataclasses.replace(entry.system_info, torch_version="0.4")
    with pytest.raises(RuntimeError, match=r"different PyTorch version: 0\.4"):
        entry.check_versions()


def test_cache_entry_without_codes_has_nothing_to_tell(impl: Any) -> None:
    with pytest.raises(AssertionError, match="at least one code entry"):
        cache_entry(impl).debug_info()


def test_entries_survive_pickling(impl: Any) -> None:
    guarded = impl._GuardedCodeCacheEntry(
        guards_state=b"guards", dynamo_code=impl.SerializedCode.from_code_object(plain.__code__)
    )
    entry = cache_entry(impl, code_entry(impl, guarded_codes=[guarded], has_compile_id=True))
    assert pickle.loads(pickle.dumps(entry)) == entry


# --------------------------------------------------------------------------- whole packages


def test_packages_backends_are_picked(impl: Any) -> None:
    entry = cache_entry(impl, code_entry(impl, backend_ids=["__compiled_fn_1"]))
    backends = {"__compiled_fn_1": object(), "__compiled_fn_unrelated": object()}
    whole = impl.PrecompileCacheEntry.from_cache_entry(entry, backends)
    assert whole.dynamo is entry
    assert whole.backends == {"__compiled_fn_1": backends["__compiled_fn_1"]}
    assert not entry.codes[0].bypassed


def test_code_without_its_backend_is_bypassed(
    impl: Any, monkeypatch: Any, backend_log: list[str]
) -> None:
    traced: list[dict[str, Any]] = []

    def trace_structured(name: str, metadata_fn: Any = dict, **rest: Any) -> None:
        traced.append(metadata_fn() | {"payload": rest.get("payload_fn", str)()})

    monkeypatch.setattr(torch._logging, "trace_structured", trace_structured)
    lost = code_entry(impl, backend_ids=["__compiled_fn_lost"])
    kept = code_entry(impl, with_cells, backend_ids=["__compiled_fn_kept"])
    whole = impl.PrecompileCacheEntry.from_cache_entry(
        cache_entry(impl, lost, kept), {"__compiled_fn_kept": 1}
    )
    assert (lost.bypassed, kept.bypassed) == (True, False)
    assert whole.backends == {"__compiled_fn_kept": 1}
    assert any("Backend not found" in message for message in backend_log)
    (trace,) = [t for t in traced if t.get("name") == "dynamo_cache_bypass"]
    assert trace["encoding"] == "json"
    assert "__compiled_fn_lost" in trace["payload"]
