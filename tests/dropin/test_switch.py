"""`hotstart.enable()` and what it does to a program: look-ups, reasons, and leaving no trace."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.package as torch_package
import torch._dynamo.precompile_context as torch_precompile_context
from torch._C._dynamo.eval_frame import _debug_get_precompile_entries
from torch._C._dynamo.guards import GuardManager
from torch._dynamo.convert_frame import ConvertFrameAssert
from torch._dynamo.guards import CheckFunctionManager, GuardBuilder
from torch._dynamo.output_graph import OutputGraph
from torch.compiler._cache import CacheArtifactFactory

import hotstart
from hotstart import report
from hotstart._torch.context import OptimizeContext
from hotstart.report import Outcome

pytestmark = pytest.mark.usefixtures("kernels")

X = torch.ones(4)


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    report.clear()
    yield
    hotstart.disable()


def last_row() -> report.FunctionRecord:
    return hotstart.explain().rows[-1]


def what_torch_is() -> dict[str, Any]:
    """Every attribute of torch that may be replaced."""
    return {
        "CompilePackage": torch_package.CompilePackage,
        "DynamoCache": torch_package.DynamoCache,
        "PrecompileCacheArtifact": torch_package.PrecompileCacheArtifact,
        "context.DynamoCache": torch_precompile_context.DynamoCache,
        "context.PrecompileCacheEntry": torch_precompile_context.PrecompileCacheEntry,
        "artifact": CacheArtifactFactory._artifact_types["precompile"],
        "call": OptimizeContext.__call__,
        "guards": CheckFunctionManager.__init__,
        "serialize": CheckFunctionManager.serialize_guards,
        "finish": CheckFunctionManager.compile_check_fn,
        "id_ref": CheckFunctionManager.id_ref,
        "hooks": GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT,
        "convert": ConvertFrameAssert.__call__,
        "globals": OutputGraph.install_global_unsafe,
        "globals by id": OutputGraph.install_global_by_id,
        "node": GuardManager.__dict__["dict_getitem_manager"],
        "leaf": GuardManager.__dict__["add_equals_match_guard"],
        "config": sys.modules["torch._dynamo.config"],
        "reset": torch._dynamo.reset,
        "flag": torch._dynamo.config.caching_precompile,
        "numbers": torch._dynamo.bytecode_transformation._unique_id_counter,
    }


# --------------------------------------------------------------------------- on and off


def changed(before: dict[str, Any]) -> set[str]:
    """The names of what is not what it was."""
    return {name for name, value in what_torch_is().items() if value is not before[name]}


def test_disable_restores_torch() -> None:
    before = what_torch_is()
    hotstart.enable()
    hotstart.enable()
    assert changed(before) == {
        "CompilePackage",
        "DynamoCache",
        "PrecompileCacheArtifact",
        "context.DynamoCache",
        "context.PrecompileCacheEntry",
        "artifact",
        "call",
        "convert",
        "guards",
        "reset",
        "flag",
    }
    hotstart.disable()
    assert not changed(before)
    hotstart.disable()


def test_a_compile_leaves_torch_as_it_was(program: Any) -> None:
    before = what_torch_is()
    with hotstart.enable():
        during = what_torch_is()
        torch.compile(program("def fn(x):\n    return x + 1\n").fn)(X)
        assert not changed(during)
    assert not changed(before)


def test_a_failing_compile_leaves_torch_as_it_was(program: Any) -> None:
    def backend(*_: Any) -> Any:
        raise ValueError("no")

    with hotstart.enable():
        during = what_torch_is()
        with pytest.raises(Exception, match="no"):
            torch.compile(program("def fn(x):\n    return x + 1\n").fn, backend=backend)(X)
        assert not changed(during)


def test_switched_off_by_the_environment(
    program: Any, monkeypatch: pytest.MonkeyPatch, backend_log: list[str]
) -> None:
    monkeypatch.setenv("HOTSTART_DISABLE", "1")
    before = what_torch_is()
    with hotstart.enable():
        assert not changed(before)
        torch.compile(program("def fn(x):\n    return x + 1\n").fn)(X)
    assert hotstart.save() == 0
    assert not hotstart.explain().rows
    assert backend_log == []


def test_an_unknown_torch_is_said_and_left_alone(
    monkeypatch: pytest.MonkeyPatch, backend_log: list[str]
) -> None:
    monkeypatch.setattr(torch, "__version__", "3.0.0")
    before = what_torch_is()
    hotstart.enable()
    assert not changed(before)
    assert backend_log == [
        "hotstart stays off: "
        "torch 3.0.0 is not one of the releases hotstart knows (2.13, 2.14, 2.15)"
    ]


def test_leaving_the_context_saves(program: Any, tmp_path: Path) -> None:
    with hotstart.enable(tmp_path / "here"):
        torch.compile(program("def fn(x):\n    return x + 1\n").fn)(X)
        assert last_row().outcome is Outcome.MISS
        assert not (tmp_path / "here").exists()
    (file,) = (tmp_path / "here").glob("*/entry")
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "here").stat().st_mode & 0o777 == 0o700
    assert last_row().saved


def test_functions_outlive_disable(program: Any, compiles: Callable[[], int]) -> None:
    """What was compiled goes on, and compiles new variants without packages."""
    module = program("def fn(x):\n    return x + 1\n")
    with hotstart.enable():
        compiled = torch.compile(module.fn, dynamic=False)
        compiled(X)
    assert torch.equal(compiled(X), X + 1)
    assert compiles() == 1
    assert torch.equal(compiled(torch.ones(5)), torch.ones(5) + 1)
    assert compiles() == 2

    fn = program.restart().fn
    with hotstart.enable():
        compiled = torch.compile(fn, dynamic=False)
        compiled(X)
        assert last_row().outcome is Outcome.HIT
        assert len(_debug_get_precompile_entries(fn.__code__)) == 1
    assert _debug_get_precompile_entries(fn.__code__) == []
    assert torch.equal(compiled(X), X + 1)
    assert torch.equal(compiled(torch.ones(6)), torch.ones(6) + 1)
    assert not [name for name in vars(module) if name.startswith("__compiled_fn")]


# --------------------------------------------------------------------------- hits and misses


def test_hit_and_a_new_variant(program: Any, compiles: Callable[[], int]) -> None:
    module = program("def fn(x):\n    return x + 1\n")
    with hotstart.enable():
        torch.compile(module.fn, dynamic=False)(X)
        assert hotstart.save() == 1
        assert hotstart.save() == 0
    for size, expected in ((5, 1), (6, 1), (5, 0)):
        fn = program.restart().fn
        with hotstart.enable():
            compiled = torch.compile(fn, dynamic=False)
            assert torch.equal(compiled(X), X + 1)
            assert last_row().outcome is Outcome.HIT
            assert compiles() == 0
            assert torch.equal(compiled(torch.ones(size)), torch.ones(size) + 1)
            assert torch.equal(compiled(X), X + 1)
            assert compiles() == expected


def test_global_defined_after_the_decorator(program: Any, compiles: Callable[[], int]) -> None:
    program(
        "@torch.compile\ndef fn(x):\n    return helper(x) * K\n"
        "def helper(x):\n    return x + 1\nK = 3\n"
    )
    for hits in (False, True):
        with hotstart.enable():
            module = program.restart()
            assert torch.equal(module.fn(X), (X + 1) * 3)
            assert compiles() == (0 if hits else 1)


def test_shifted_lines_still_hit(program: Any, compiles: Callable[[], int]) -> None:
    source = "def helper(x):\n    return x * 2\n\ndef fn(x):\n    return helper(x) + 1\n"
    with hotstart.enable():
        torch.compile(program(source).fn)(X)
    program.write("# a comment\n\n\n" + source)
    fn = program.restart().fn
    with hotstart.enable():
        assert torch.equal(torch.compile(fn)(X), 2 * X + 1)
    assert last_row().outcome is Outcome.HIT
    assert compiles() == 0


@pytest.mark.parametrize(
    ("change", "factor"),
    [
        ("def helper(x):\n    return x * 5\n", 5),
        ("def other(x):\n    return x * 7\nhelper = other\n", 7),
        ("helper = lambda x: x * 8\n", 8),
    ],
    ids=["source", "rebound", "lambda"],
)
def test_changed_helper_misses(program: Any, change: str, factor: int) -> None:
    source = "def fn(x):\n    return helper(x) + 1\n\ndef helper(x):\n    return x * 2\n"
    with hotstart.enable():
        torch.compile(program(source).fn)(X)
    program.write(source + change)
    fn = program.restart().fn
    with hotstart.enable():
        assert torch.equal(torch.compile(fn)(X), factor * X + 1)
        assert last_row().outcome is Outcome.MISS


def test_function_replaced_at_run_time_misses(program: Any) -> None:
    """The file is the same, what the module holds is not."""
    source = "def helper(x):\n    return x * 2\n\ndef fn(x):\n    return helper(x) + 1\n"
    with hotstart.enable():
        torch.compile(program(source).fn)(X)
    module = program.restart()
    module.helper = lambda x: x * 9
    with hotstart.enable():
        assert torch.equal(torch.compile(module.fn)(X), 9 * X + 1)

    module = program.restart()
    with hotstart.enable():
        compiled = torch.compile(module.fn)
        assert torch.equal(compiled(X), 2 * X + 1)
        module.helper = lambda x: x * 11
        assert torch.equal(compiled(X), 11 * X + 1)


def test_two_objects_of_one_class(program: Any, compiles: Callable[[], int]) -> None:
    source = """\
    class Model(torch.nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
        def forward(self, x):
            return x * self.k
    """
    for expected in (2, 0):
        module = program(source) if expected else program.restart()
        with hotstart.enable():
            models = [module.Model(k) for k in (2, 3)]
            compiled = [torch.compile(model) for model in models]
            for _ in range(2):
                assert [int(c(X)[0]) for c in compiled] == [2, 3]
            assert compiles() == expected


def test_functions_of_one_name_and_line(program: Any, tmp_path: Path) -> None:
    """torch files both under one id, and the second overwrites the first."""
    sources = {f"twin_{k}": f"def fn(x):\n    return x * {k}\n" for k in (2, 3)}
    for outcome in (Outcome.MISS, Outcome.HIT):
        with hotstart.enable():
            for name, source in sources.items():
                fn = program(source, name).fn
                assert torch.equal(torch.compile(fn)(X), X * int(name[-1]))
                assert last_row().outcome is outcome
        torch._dynamo.reset()


def test_one_function_compiled_in_two_ways(program: Any, compiles: Callable[[], int]) -> None:
    module = program("def fn(x):\n    return x + x.shape[0]\n")
    for outcome in (Outcome.MISS, Outcome.HIT):
        with hotstart.enable():
            static = torch.compile(module.fn, dynamic=False)
            dynamic = torch.compile(module.fn, dynamic=True)
            for size in (4, 5, 4):
                assert torch.equal(static(torch.ones(size)), torch.full((size,), size + 1.0))
                assert torch.equal(dynamic(torch.ones(size)), torch.full((size,), size + 1.0))
            assert {row.outcome for row in hotstart.explain().rows[-2:]} == {outcome}
            assert compiles() == (3 if outcome is Outcome.MISS else 0)
        module = program.restart()


def test_entries_honour_the_backend(program: Any) -> None:
    """torch serves a precompiled entry to whoever calls the code object."""
    calls: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        def run(*args: Any) -> Any:
            calls.append("mine")
            return graph.forward(*args)

        return run

    module = program("def fn(x):\n    return x + 1\n")
    with hotstart.enable():
        torch.compile(module.fn)(X)
    fn = program.restart().fn
    with hotstart.enable():
        default, mine = torch.compile(fn), torch.compile(fn, backend=backend)
        default(X)
        assert last_row().outcome is Outcome.HIT
        for count in (1, 2):
            assert torch.equal(mine(X), X + 1)
            assert calls == ["mine"] * count
            assert torch.equal(default(X), X + 1)


# --------------------------------------------------------------------------- reasons


def test_a_local_backend_is_a_bypass(program: Any) -> None:
    with hotstart.enable():
        torch.compile(program("def fn(x):\n    return x + 1\n").fn, backend=lambda g, _: g)(X)
        assert last_row().outcome is Outcome.BYPASS
        assert "no name" in last_row().reason


def test_a_builtin_is_a_bypass() -> None:
    with hotstart.enable():
        assert torch.equal(torch.compile(torch.sin)(X), torch.sin(X))
        assert last_row().outcome is Outcome.BYPASS


def test_a_backend_without_artifacts_is_not_saved(program: Any, tmp_path: Path) -> None:
    with hotstart.enable(tmp_path / "here"):
        torch.compile(program("def fn(x):\n    return x + 1\n").fn, backend="eager")(X)
        assert hotstart.save() == 0
    assert not (tmp_path / "here").exists()
    assert "gave nothing that can be saved" in last_row().given_up[0].reason


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "a folder"])
def test_damaged_file(program: Any, tmp_path: Path, backend_log: list[str], damage: str) -> None:
    module = program("def fn(x):\n    return x + 1\n")
    with hotstart.enable():
        torch.compile(module.fn)(X)
    (file,) = (tmp_path / "hotstart").glob("*/entry")
    whole = file.read_bytes()
    if damage == "a folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes({"garbage": b"x" * 500, "truncated": whole[:700], "empty": b""}[damage])
    fn = program.restart().fn
    backend_log.clear()
    with hotstart.enable():
        assert torch.equal(torch.compile(fn)(X), X + 1)
        assert last_row().outcome is Outcome.MISS
        assert "cannot load its package" in last_row().reason
        assert len(backend_log) == 1
        if damage == "a folder":
            file.rmdir()
        assert hotstart.save() == 1
    fn = program.restart().fn
    with hotstart.enable():
        torch.compile(fn)(X)
        assert last_row().outcome is Outcome.HIT


def test_unwritable_store(program: Any, tmp_path: Path, backend_log: list[str]) -> None:
    (tmp_path / "file").write_text("not a folder")
    with hotstart.enable(tmp_path / "file"):
        assert torch.equal(torch.compile(program("def fn(x):\n    return x + 1\n").fn)(X), X + 1)
        assert hotstart.save() == 0
    assert len(backend_log) == 1
    assert "cannot save its package" in last_row().notes[0]


def test_backend_that_cannot_come_to_life(
    program: Any, monkeypatch: pytest.MonkeyPatch, compiles: Callable[[], int]
) -> None:
    """As on a host without a compiler: torch initialises the package twice and stops."""
    from hotstart.store.artifact import StoredArtifact

    def fail(_: Any) -> Any:
        raise RuntimeError("no compiler here")

    with hotstart.enable():
        torch.compile(program("def fn(x):\n    return x + 1\n").fn)(X)
    fn = program.restart().fn
    before = set(fn.__globals__)
    monkeypatch.setattr(StoredArtifact, "after_deserialization", fail)
    with hotstart.enable():
        assert torch.equal(torch.compile(fn)(X), X + 1)
        assert compiles() == 1
        assert last_row().outcome is Outcome.MISS
        assert "no compiler here" in last_row().given_up[0].reason
    assert not {n for n in set(fn.__globals__) - before if n.startswith("__resume")}


def test_a_broken_look_up_is_a_bypass(
    program: Any, monkeypatch: pytest.MonkeyPatch, backend_log: list[str]
) -> None:
    from hotstart import keys

    def fail(*_: Any) -> Any:
        raise LookupError("broken")

    monkeypatch.setattr(keys, "filing_id", fail)
    with hotstart.enable():
        assert torch.equal(torch.compile(program("def fn(x):\n    return x + 1\n").fn)(X), X + 1)
        assert last_row().outcome is Outcome.BYPASS
    assert len(backend_log) == 1


# --------------------------------------------------------------------------- reset, threads, memory


@pytest.mark.parametrize("reset", [lambda: torch._dynamo.reset(), lambda: torch.compiler.reset()])
def test_reset_is_an_end_and_a_beginning(
    program: Any, reset: Callable[[], None], compiles: Callable[[], int]
) -> None:
    module = program("def fn(x):\n    return x + 1\n")
    with hotstart.enable():
        compiled = torch.compile(module.fn)
        compiled(X)
        reset()
        assert last_row().saved
        assert _debug_get_precompile_entries(module.fn.__code__) == []
        compiled(X)
        assert last_row().outcome is Outcome.HIT
        reset()
        assert _debug_get_precompile_entries(module.fn.__code__) == []
        assert not [name for name in vars(module) if name.startswith("__compiled_fn")]


def test_threads_that_call_first_at_once(program: Any, compiles: Callable[[], int]) -> None:
    module = program("def fn(x):\n    return x + 1\n")
    with hotstart.enable():
        torch.compile(module.fn)(X)
    fn = program.restart().fn
    with hotstart.enable():
        compiled = torch.compile(fn)
        results: list[Any] = []
        start = threading.Barrier(4)

        def call() -> None:
            start.wait()
            results.extend(compiled(X) for _ in range(20))

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 80
        assert all(torch.equal(result, X + 1) for result in results)
        assert compiles() == 0
        assert [row.outcome for row in hotstart.explain().rows[1:]] == [Outcome.HIT]


def test_a_compile_in_another_thread_is_saved(program: Any) -> None:
    """torch's settings belong to the thread that made them."""
    module = program("def fn(x):\n    return x + 1\n")
    with hotstart.enable():
        thread = threading.Thread(target=lambda: torch.compile(module.fn)(X))
        thread.start()
        thread.join()
        assert hotstart.save() == 1
    fn = program.restart().fn
    with hotstart.enable():
        torch.compile(fn)(X)
        assert last_row().outcome is Outcome.HIT


def test_a_deleted_model_is_freed(program: Any) -> None:
    source = """\
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1
    """
    with hotstart.enable():
        model = program(source).Model()
        compiled = torch.compile(model)
        compiled(X)
        gone = weakref.ref(model)
        del model, compiled
        torch._dynamo.reset()
        gc.collect()
        assert gone() is None


# --------------------------------------------------------------------------- torch's own packages


def save_with_torch(fn: Any) -> None:
    with torch._dynamo.config.patch(caching_precompile=True):
        torch.compile(fn)(X)
        torch_precompile_context.PrecompileContext.save_to_dynamo_cache()


def test_a_package_of_torchs_is_taken_over(
    program: Any, tmp_path: Path, compiles: Callable[[], int]
) -> None:
    save_with_torch(program("def fn(x):\n    return x + 1\n").fn)
    (torch_file,) = (tmp_path / "inductor" / "dynamo").glob("*/entry")
    for _ in range(2):
        fn = program.restart().fn
        with hotstart.enable():
            assert torch.equal(torch.compile(fn)(X), X + 1)
            assert last_row().outcome is Outcome.HIT
            assert compiles() == 0
        torch_file.unlink(missing_ok=True)
    assert len(list((tmp_path / "hotstart").glob("*/entry"))) == 1


def test_a_package_of_torchs_that_may_be_stale_is_not(program: Any) -> None:
    """torch has dropped the guard on `helper` that would have noticed."""
    source = "def one(x):\n    return x + 1\ndef two(x):\n    return x + 2\n"
    save_with_torch(program(source + "helper = one\ndef fn(x):\n    return helper(x)\n").fn)
    program.write(source + "helper = two\ndef fn(x):\n    return helper(x)\n")
    fn = program.restart().fn
    with hotstart.enable():
        assert torch.equal(torch.compile(fn)(X), X + 2)
        assert last_row().outcome is Outcome.MISS


def test_debug_shows_the_traceback(
    program: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with caplog.at_level(logging.DEBUG, "hotstart"), hotstart.enable(tmp_path / "file"):
        torch.compile(program("def fn(x):\n    return x + 1\n").fn)(X)
        hotstart.save()
    assert any(record.exc_info for record in caplog.records if record.name == "hotstart")


def test_recording_leaves_torch_as_it_was() -> None:
    """What is replaced while Dynamo compiles for a package goes back, also if the compile fails."""
    before = what_torch_is()
    with hotstart.enable():
        torch.compile(lambda x: x + 1)(X)

        def fails(x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return x

        with pytest.raises(torch._dynamo.exc.Unsupported):
            torch.compile(fails, fullgraph=True)(X)
    assert not changed(before)
