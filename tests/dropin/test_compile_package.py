"""``CompilePackage``: what it notes down while Dynamo compiles, and what installing it does."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._C._dynamo.eval_frame import _debug_get_precompile_entries
from torch._dynamo.exc import PackageError
from torch._subclasses.fake_tensor import FakeTensorMode

SUBJECT = """\
def fn(x):
    return x + helper(x)


def helper(x):
    return x * 2


def breaks(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def breaks_with_closure(x):
    y = x + 1

    def later(z):
        return z * y

    torch._dynamo.graph_break()
    return later(x)


class Thing:
    def method(self, x):
        return x + 1


def make(n):
    def local(x):
        return x + n

    return local
"""


@pytest.fixture
def module(program: Any) -> types.ModuleType:
    return program(SUBJECT)


@pytest.fixture
def fn(module: types.ModuleType) -> Callable[[Any], Any]:
    return module.fn


X = torch.arange(4.0)


def compiled(impl: Any, fn: Any, *args: Any) -> tuple[Any, dict[str, Any]]:
    """The saved form of ``fn`` compiled for ``args`` with the eager backend."""
    package = impl.CompilePackage(fn)
    impl.compile(package, fn)(*(args or (X,)))
    store = impl.InMemoryDynamoStore()
    impl.record_eager(package, store)
    store.save_package(package, "key")
    entry = store.load_cache_entry("key")
    return entry.dynamo, entry.backends


# --------------------------------------------------------------------------- initialising


def test_waits_for_its_function(impl: Any, fn: Any) -> None:
    package = impl.CompilePackage(None)
    assert not package.is_initialized()
    with pytest.raises(AssertionError, match="_innermost_fn is not set"):
        _ = package.source_id
    with pytest.raises(AssertionError):
        package.validate()
    package.initialize(fn)
    assert package.is_initialized()
    package.validate()
    assert package.source_id == impl.CompilePackage.source_id_from_fn(fn)


@pytest.mark.parametrize("late", [True, False])
def test_initialising_twice_is_an_error(impl: Any, fn: Any, late: bool) -> None:
    package = impl.CompilePackage(None if late else fn)
    if late:
        package.initialize(fn)
    with pytest.raises(AssertionError, match="already initialized"):
        package.initialize(fn)


def test_entry_of_the_wrong_type(impl: Any, fn: Any) -> None:
    with pytest.raises(AssertionError, match="Expected _DynamoCacheEntry"):
        impl.CompilePackage(fn, {"codes": []})


def test_source_id(impl: Any, module: Any) -> None:
    method = module.Thing.method
    digest = hashlib.sha256(b"Thing.method" + str(method.__code__.co_firstlineno).encode())
    assert impl.CompilePackage.source_id_from_fn(method) == digest.hexdigest()
    assert impl.CompilePackage.source_id_from_fn(torch.compile(method)) == digest.hexdigest()
    assert impl.CompilePackage(module.Thing().method).source_id == digest.hexdigest()


def test_package_of_a_compiled_function_is_that_of_the_function(impl: Any, fn: Any) -> None:
    package = impl.CompilePackage(torch.compile(fn))
    assert package.source_id == impl.CompilePackage(fn).source_id
    assert package.cache_entry() == impl.CompilePackage(fn).cache_entry()


def test_fresh_package(impl: Any, fn: Any) -> None:
    entry = impl.CompilePackage(fn).cache_entry()
    assert (entry.fn_name, entry.fn_first_lineno) == ("fn", fn.__code__.co_firstlineno)
    assert entry.device_type == "cpu"
    assert entry.backend_ids == set()
    assert entry.source_info.inlined_sources == set()
    (code,) = entry.codes
    assert impl.SerializedCode.to_code_object(code.python_code) == fn.__code__
    assert (code.python_module, code.function_names) == (fn.__module__, [])
    assert [code.guarded_codes, code.backend_ids, code.import_sources] == [[], [], {}]
    assert [code.install_to_global, code.has_compile_id, code.bypassed] == [False] * 3


# --------------------------------------------------------------------------- taking notes


def bypass_of(package: Any) -> Callable[[], None]:
    """The method that gives the current compile up, by the name it has since 2.15 or had before."""
    bypass: Callable[[], None] = getattr(package, "bypass_current_compile", None) or (
        package.bypass_current_entry
    )
    return bypass


def test_notes_need_a_current_code(impl: Any, fn: Any) -> None:
    package = impl.CompilePackage(fn)
    for note in (
        lambda: package.add_guarded_code(b"", fn.__code__),
        lambda: package.add_inlined_source([fn.__code__]),
        lambda: package.add_import_source("alias", "os"),
        lambda: package.add_backend_id("__compiled_fn_1"),
        bypass_of(package),
    ):
        with pytest.raises(AssertionError, match="_current_entry is not set"):
            note()


def test_notes(impl: Any, module: Any) -> None:
    package = impl.CompilePackage(module.fn)
    with package.code_context(module.fn.__code__):
        package.add_guarded_code(b"first", module.fn.__code__)
        package.add_guarded_code(b"second", module.helper.__code__)
        package.add_inlined_source([module.fn.__code__, module.helper.__code__])
        package.add_import_source("__import_os", "os")
        package.add_backend_id("__compiled_fn_1")
        package.add_backend_id("__compiled_fn_2", "backend")
        with pytest.raises(AssertionError, match="_current_entry should be None"):
            package.validate()
        with pytest.raises(AssertionError), package.code_context(module.fn.__code__):
            pass
    entry = package.cache_entry()
    (code,) = entry.codes
    assert [g.guards_state for g in code.guarded_codes] == [b"first", b"second"]
    assert code.import_sources == {"__import_os": "os"}
    assert code.backend_ids == ["__compiled_fn_1", "__compiled_fn_2"]
    assert code.has_compile_id
    assert package.cached_backends == {"__compiled_fn_2": "backend"}
    lines = {s.firstlineno for s in entry.source_info.inlined_sources}
    assert lines == {f.__code__.co_firstlineno for f in (module.fn, module.helper)}


@pytest.mark.parametrize("name", ["compiled_fn_1", "__compiled_1", "", "x__compiled_fn_1"])
def test_backend_ids_have_a_prefix(impl: Any, fn: Any, name: str) -> None:
    package = impl.CompilePackage(fn)
    with package.code_context(fn.__code__):  # noqa: SIM117
        with pytest.raises(AssertionError, match="must start with '__compiled_fn_'"):
            package.add_backend_id(name)


def test_bypassed_code_takes_no_more_notes(impl: Any, module: Any) -> None:
    if impl.name == "torch" and not hasattr(impl.CompilePackage, "bypass_current_entry"):
        pytest.skip("from 2.15 on, torch leaves that to its caller")
    package = impl.CompilePackage(module.fn)
    with package.code_context(module.fn.__code__):
        bypass_of(package)()
        package.add_guarded_code(b"late", module.fn.__code__)
        package.add_inlined_source([module.helper.__code__])
    entry = package.cache_entry()
    assert entry.codes[0].bypassed
    assert entry.codes[0].guarded_codes == []
    assert entry.source_info.inlined_sources == set()


def test_functions_that_dynamo_could_not_inline(impl: Any, module: Any) -> None:
    package = impl.CompilePackage(module.fn)
    for function in (module.Thing.method, module.helper, module.helper):
        with package.code_context(function.__code__):
            pass
    codes = package.cache_entry().codes
    assert [(c.function_names, c.code_source) for c in codes] == [
        ([], None),
        (["Thing.method"], "__code__"),
        (["helper"], "__code__"),
    ]
    assert not any(c.install_to_global for c in codes)


def test_function_that_cannot_be_named(impl: Any, module: Any) -> None:
    package = impl.CompilePackage(module.fn)
    code = compile("lambda x: x", module.__file__, "eval").co_consts[0]
    if impl.name == "torch":  # which stops the program that called the function
        with pytest.raises(PackageError), package.code_context(code):
            pass
    else:
        with package.code_context(code):
            package.add_guarded_code(b"guards", module.helper.__code__)
    package.validate()
    (main,) = package.cache_entry().codes
    assert main.guarded_codes == []


def test_resume_functions(impl: Any, module: Any) -> None:
    package = impl.CompilePackage(module.fn)
    resume = module.helper.__code__
    package.add_resume_function(resume, module.__name__, "__resume_at_1")
    package.add_resume_function(resume, module.__name__, "__resume_at_2")
    with package.code_context(resume):
        # Its source is that of the function it continues.
        package.add_inlined_source([resume])
    _, code = package.cache_entry().codes
    assert code.install_to_global
    assert code.function_names == ["__resume_at_1", "__resume_at_2"]
    assert package.cache_entry().source_info.inlined_sources == set()


def test_resume_function_of_two_modules(impl: Any, module: Any) -> None:
    package = impl.CompilePackage(module.fn)
    package.add_resume_function(module.helper.__code__, module.__name__, "__resume_at_1")
    with pytest.raises(AssertionError, match="python_module mismatch"):
        package.add_resume_function(module.helper.__code__, "os", "__resume_at_1")


def test_device_type(impl: Any, fn: Any) -> None:
    package = impl.CompilePackage(fn)
    graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
    for device in ("cpu", "cuda"):
        for node in graph.nodes:
            with FakeTensorMode():
                node.meta["example_value"] = torch.empty(1, device=device)
        package.update_device_type(graph)
        assert package.cache_entry().device_type == device
    # To 2.14, torch forgets the device at the next graph without one, and then checks no GPU.
    package.update_device_type(None)
    forgets = impl.name == "torch" and hasattr(impl.CompilePackage, "bypass_current_entry")
    assert package.cache_entry().device_type == ("cpu" if forgets else "cuda")


@pytest.mark.parametrize(
    ("used", "recorded"),
    [
        ([], "cpu"),
        (["cpu"], "cpu"),
        (["cpu", "mps"], "mps"),
        (["cpu", "hpu", "xpu"], "xpu"),
        (["xpu", "cuda", "cpu"], "cuda"),
        (["privateuse", "mps"], "mps"),
    ],
)
def test_leading_device_type(impl: Any, used: list[str], recorded: str) -> None:
    if not hasattr(impl.package, "_collapse_device_types"):
        pytest.skip("torch has this from 2.15 on")
    assert impl.package._collapse_device_types(frozenset(used)) == recorded


def test_what_dynamo_notes(impl: Any, module: Any) -> None:
    entry, backends = compiled(impl, module.breaks)
    main, resume = entry.codes
    assert impl.SerializedCode.to_code_object(main.python_code) == module.breaks.__code__
    assert [len(c.guarded_codes) for c in (main, resume)] == [1, 1]
    assert resume.install_to_global
    assert set(backends) == entry.backend_ids == {*main.backend_ids, *resume.backend_ids}
    # The ids are the names under which the bytecode looks the backends up.
    for code in (main, resume):
        (guarded,) = code.guarded_codes
        assert set(code.backend_ids) <= set(guarded.dynamo_code.co_names)
    assert entry.device_type == "cpu"


def test_inlined_functions_are_noted(impl: Any, module: Any) -> None:
    entry, _ = compiled(impl, module.fn)
    lines = {s.firstlineno for s in entry.source_info.inlined_sources}
    assert module.helper.__code__.co_firstlineno in lines


def test_guards_on_functions(impl: Any, module: Any, torch_fails: Any) -> None:
    torch_fails("'check_fn.guards_state must not be None' out of the first call")
    package = impl.CompilePackage(module.fn)
    # No filter: `helper` is guarded by identity, which torch cannot serialise.
    assert torch.equal(torch._dynamo.optimize("eager", package=package)(module.fn)(X), 3 * X)


# --------------------------------------------------------------------------- loading


def test_other_versions_are_refused(impl: Any, fn: Any) -> None:
    entry, _ = compiled(impl, fn)
    old = impl.SystemInfo("2.7.18", torch.__version__, None, (0, 0), None)
    entry.system_info = old
    with pytest.raises(RuntimeError, match=r"different Python version: 2\.7\.18"):
        impl.CompilePackage(fn, entry)


def test_changed_source_is_refused(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    entry, backends = compiled(impl, module.fn)
    line = module.helper.__code__.co_firstlineno

    program.write(SUBJECT.replace("x * 2", "x * 3"))
    module = program.restart()
    message = (
        rf"Source code changes detected for {module.__name__} \(line {line} - line {line + 2}\)"
    )
    with pytest.raises(RuntimeError, match=message):
        impl.CompilePackage(module.fn, entry)
    assert impl.CompilePackage(module.fn, entry, ignore_inlined_sources=True).is_initialized()

    program.write(SUBJECT)
    module = program.restart()
    package = impl.CompilePackage(module.fn, entry)
    package.install(backends)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(torch._dynamo.optimize("eager", package=package)(module.fn)(X), 3 * X)


def test_source_of_something_else_may_change(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    entry, _ = compiled(impl, module.fn)
    program.write(SUBJECT.replace("return z * y", "return z / y"))
    impl.CompilePackage(program.restart().fn, entry)


def test_loaded_package_saves_again(impl: Any, module: Any) -> None:
    entry, _ = compiled(impl, module.breaks)
    again = impl.CompilePackage(module.breaks, entry).cache_entry()
    assert [c.backend_ids for c in again.codes] == [c.backend_ids for c in entry.codes]
    assert [c.guarded_codes for c in again.codes] == [c.guarded_codes for c in entry.codes]
    assert again.source_info == entry.source_info


# --------------------------------------------------------------------------- installing


def entries(function: Any) -> int:
    return len(_debug_get_precompile_entries(function.__code__))


@pytest.mark.parametrize("name", ["fn", "breaks", "breaks_with_closure"])
def test_install_and_uninstall(impl: Any, program: Any, name: str, torch_fails: Any) -> None:
    if name != "fn":
        torch_fails("KeyError: an alias that two codes share is removed twice")
    module = program(SUBJECT)
    fn = getattr(module, name)
    entry, backends = compiled(impl, fn)
    module = program.restart()
    fn = getattr(module, name)
    before = set(vars(module))

    package = impl.CompilePackage(fn, entry)
    assert entries(fn) == 0
    package.install(backends)
    assert entries(fn) == 1
    installed = set(vars(module)) - before
    assert installed
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(torch._dynamo.optimize("eager", package=package)(fn)(X), fn(X))

    package.install(backends)  # replaces, and does not pile up
    assert entries(fn) == 1
    package.uninstall()
    assert entries(fn) == 0
    # The dict of builtins is the only name that torch leaves behind.
    left = set(vars(module)) - before
    assert not {name for name in left if not name.startswith("__builtins_dict__")}


def test_missing_backend(impl: Any, module: Any) -> None:
    entry, backends = compiled(impl, module.breaks)
    lost = entry.codes[1].backend_ids[0]
    package = impl.CompilePackage(module.breaks, entry)
    with pytest.raises(RuntimeError, match=f"Backend {lost} is not found in the given backends"):
        package.install({k: v for k, v in backends.items() if k != lost})


def test_bypassed_code_is_not_installed(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    entry, _ = compiled(impl, module.fn)
    entry.codes[0].bypassed = True
    module = program.restart()
    package = impl.CompilePackage(module.fn, entry)
    package.install({})
    assert entries(module.fn) == 0
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(torch._dynamo.optimize("eager", package=package)(module.fn)(X), 3 * X)


def test_code_without_graphs_is_skipped(
    impl: Any, program: Any, compiles: Callable[[], int]
) -> None:
    module = program("def fn(x):\n    return x\n")
    package = impl.CompilePackage(module.fn)
    with package.code_context(module.fn.__code__):
        pass
    entry = package.cache_entry()
    module = program.restart()
    package = impl.CompilePackage(module.fn, entry)
    package.install({})
    assert torch._dynamo.optimize("eager", package=package)(module.fn)(X) is X
    assert compiles() == 0


def test_backends_come_to_life_on_install(impl: Any, program: Any) -> None:
    module = program(SUBJECT)
    entry, backends = compiled(impl, module.fn)
    calls: list[str] = []

    class Late:
        def after_deserialization(self) -> Any:
            calls.append("alive")

            def backend(*args: Any) -> Any:
                calls.append("called")
                assert torch.compiler.is_compiling() is False
                return (torch.full((4,), 7.0),)

            return backend

    module = program.restart()
    package = impl.CompilePackage(module.fn, entry)
    assert calls == []
    package.install(dict.fromkeys(backends, Late()))
    assert calls == ["alive"]
    result = torch._dynamo.optimize("eager", package=package)(module.fn)(X)
    assert calls == ["alive", "called"]
    assert torch.equal(result, torch.full((4,), 7.0))


def test_import_aliases_are_installed(impl: Any, program: Any) -> None:
    helper = program("SCALE = 3\n\n\ndef scale(x):\n    return x * SCALE\n")
    module = program(
        f"""\
        import {helper.__name__} as other

        def fn(x):
            return other.scale(x) + other.SCALE
        """
    )
    entry, backends = compiled(impl, module.fn)
    assert helper.__name__ in entry.codes[0].import_sources.values()
    module = program.restart()
    package = impl.CompilePackage(module.fn, entry)
    before = set(vars(module))
    package.install(backends)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(
            torch._dynamo.optimize("eager", package=package)(module.fn)(X), X * 3 + 3
        )
    package.uninstall()
    assert {n for n in set(vars(module)) - before if "import" in n} == set()


def test_guards_can_be_loaded_by_hand(impl: Any, module: Any) -> None:
    entry, _ = compiled(impl, module.fn)
    state = impl.load_guards_state(entry.codes[0].guarded_codes[0].guards_state)
    name = state.output_graph.name_of_builtins_dict_key_in_fglobals
    scope = dict(vars(module))
    if name:
        scope[name] = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)
    manager = impl.load_guard_manager(state, module.fn.__code__, scope)
    assert manager.check({"x": X})
    assert not manager.check({"x": X.double()})
    assert not manager.check({"x": torch.ones(5)})
