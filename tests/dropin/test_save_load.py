"""What was compiled and saved runs in another process without compiling again.

``program.restart`` is the other process; what a real one does differently is tested in
``tests/known_failures``. "By hand" passes a package to ``torch._dynamo.optimize``; "automatic" is
what ``torch.compile`` does by itself while packages are switched on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.precompile_context import BackendCacheArtifact, PrecompileContext
from torch._dynamo.utils import counters

RECOMPILE = "Detected recompile when torch.compile stance is 'fail_on_recompile'"
X = torch.arange(4.0)

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.fixture(params=["eager", "inductor"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    # Inductor's results are kept with the graph they belong to only in this mode.
    with torch._functorch.config.patch(bundled_autograd_cache=True):
        yield request.param


class ByHand:
    """One function saved to a store under a key and loaded from there."""

    def __init__(self, impl: Any, tmp_path: Path, backend: str) -> None:
        self.impl = impl
        self.backend = backend
        self.store = impl.DiskDynamoStore(str(tmp_path / "store"))
        self.package: Any = None

    def compile(self, fn: Any) -> Any:
        self.package = self.impl.CompilePackage(fn)
        return self.impl.compile(self.package, fn, self.backend)

    def save(self) -> None:
        if self.backend == "eager":
            self.impl.record_eager(self.package, self.store)
        self.store.save_package(self.package, "key")

    def load(self, fn: Any) -> Any:
        self.package, backends = self.store.load_package(fn, "key")
        compiled = self.impl.compile(self.package, fn, self.backend)
        self.package.install(backends)
        return compiled


@pytest.fixture
def by_hand(impl: Any, tmp_path: Path, backend: str) -> ByHand:
    return ByHand(impl, tmp_path, backend)


@contextlib.contextmanager
def no_compiles() -> Iterator[None]:
    with torch.compiler.set_stance("fail_on_recompile"):
        yield


# --------------------------------------------------------------------------- by hand


def test_plain_function(by_hand: ByHand, program: Any) -> None:
    module = program("def fn(x):\n    return x + 1\n")
    expected = by_hand.compile(module.fn)(X)
    by_hand.save()

    fn = program.restart().fn
    with no_compiles():
        with pytest.raises(RuntimeError, match=RECOMPILE):
            by_hand.compile(fn)(X)
        compiled = by_hand.load(fn)
        assert torch.equal(compiled(X), expected)
        with pytest.raises(RuntimeError, match=RECOMPILE):
            compiled(X.double())
        with pytest.raises(RuntimeError, match=RECOMPILE):
            compiled(X[:3])
        assert torch.equal(compiled(X), expected)


def test_same_process_after_a_reset(by_hand: ByHand, program: Any) -> None:
    fn = program("def fn(x):\n    return x + 1\n").fn
    expected = by_hand.compile(fn)(X)
    by_hand.save()
    torch._dynamo.reset()
    with no_compiles():
        with pytest.raises(RuntimeError, match=RECOMPILE):
            by_hand.compile(fn)(X)
        assert torch.equal(by_hand.load(fn)(X), expected)


def test_dynamic_shape(by_hand: ByHand, program: Any) -> None:
    module = program("def fn(x):\n    return x + x.shape[0]\n")
    x = torch.ones(3, 2)
    torch._dynamo.mark_dynamic(x, 0, min=3, max=5)
    by_hand.compile(module.fn)(x)
    by_hand.save()

    fn = program.restart().fn
    with no_compiles():
        compiled = by_hand.load(fn)
        for size in (3, 4, 5):
            assert torch.equal(compiled(torch.ones(size, 2)), torch.full((size, 2), size + 1.0))
        for unseen in (torch.ones(7, 2), torch.ones(2, 2), torch.ones(4, 3)):
            with pytest.raises(RuntimeError, match=RECOMPILE):
                compiled(unseen)


BISECT = """\
def fn(x, low, high):
    if low > high:
        return x.sum()
    middle = (low + high) // 2
    if x.sum() == middle:
        return x.sum()
    if x.sum() < middle:
        return fn(x, low, middle)
    return fn(x, middle + 1, high)
"""


def test_recursion_through_graph_breaks(by_hand: ByHand, program: Any) -> None:
    module = program(BISECT)
    calls = [(torch.tensor(n), 0, 5) for n in range(6)]
    compiled = by_hand.compile(module.fn)
    for call in calls:
        compiled(*call)
    by_hand.save()

    fn = program.restart().fn
    with no_compiles():
        for call in calls:
            with pytest.raises(RuntimeError, match=RECOMPILE):
                by_hand.compile(fn)(*call)
        compiled = by_hand.load(fn)
        for call in calls:
            assert torch.equal(compiled(*call), call[0])
        with pytest.raises(RuntimeError, match=RECOMPILE):
            compiled(torch.tensor(6), 0, 5)


def test_two_variants_and_a_dynamic_one(by_hand: ByHand, program: Any) -> None:
    module = program("def fn(x):\n    return x + 1\n")
    compiled = by_hand.compile(module.fn)
    for size in (4, 6):
        compiled(torch.ones(size))
    by_hand.save()
    (code,) = by_hand.package.cache_entry().codes
    assert len(code.guarded_codes) == 2

    fn = program.restart().fn
    with no_compiles():
        compiled = by_hand.load(fn)
        for size in (4, 6, 9):
            assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 2.0))
        with pytest.raises(RuntimeError, match=RECOMPILE):
            compiled(torch.ones(2, 2))


def test_lazy_backward(by_hand: ByHand, program: Any) -> None:
    module = program("def fn(x):\n    return x * 2\n")
    x = X.clone().requires_grad_()
    by_hand.compile(module.fn)(x).sum().backward()
    by_hand.save()

    fn = program.restart().fn
    with no_compiles():
        with pytest.raises(RuntimeError, match=RECOMPILE):
            by_hand.compile(fn)(x)
        compiled = by_hand.load(fn)
        x = X.clone().requires_grad_()
        result = compiled(x)
        assert torch.equal(result, X * 2)
        result.sum().backward()
        assert torch.equal(x.grad, torch.full((4,), 2.0))
        with pytest.raises(RuntimeError, match=RECOMPILE):
            compiled(X)  # no gradient wanted: another graph


def test_changed_source(by_hand: ByHand, program: Any) -> None:
    source = "def helper(x):\n    return x + 1\n\n\ndef fn(x):\n    return helper(x)\n"
    module = program(source)
    by_hand.compile(module.fn)(X)
    by_hand.save()

    program.write(source.replace("+ 1", "+ 2"))
    with pytest.raises(RuntimeError, match="Source code changes detected"):
        by_hand.load(program.restart().fn)

    program.write(source)
    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(by_hand.load(fn)(X), X + 1)


def test_reset_clears_an_installed_package(by_hand: ByHand, program: Any, torch_fails: Any) -> None:
    torch_fails("precompile entries stay on the code (pytorch 190664)")
    module = program("def fn(x):\n    return x + 1\n")
    by_hand.compile(module.fn)(X)
    by_hand.save()
    fn = program.restart().fn
    compiled = by_hand.load(fn)
    torch._dynamo.reset()
    with no_compiles(), pytest.raises(RuntimeError, match=RECOMPILE):
        compiled(X)


def test_cleanup_of_an_earlier_compile(by_hand: ByHand, program: Any) -> None:
    """Dynamo removes its names when code dies; what was installed under them since then stays."""
    source = "def fn(x):\n    y = x + 1\n    torch._dynamo.graph_break()\n    return y + 2\n"
    fn = program(source).fn
    by_hand.compile(fn)(X)
    by_hand.save()
    compiled = by_hand.load(fn)  # while the compiled code is alive, in the same globals
    torch._dynamo.reset()
    compiled = by_hand.load(fn)
    import gc

    gc.collect()
    with no_compiles():
        assert torch.equal(compiled(X), X + 3)


def test_bound_method(by_hand: ByHand, program: Any) -> None:
    source = """\
    class Thing:
        def __init__(self, n):
            self.n = n
            self.op = self.shift

        def shift(self, x):
            return x + self.n

        def run(self, x):
            if self.op.__name__ == "shift":
                return x + self.n
            return x
    """
    by_hand.compile(program(source).Thing(1).run)(X)
    by_hand.save()
    module = program.restart()
    with no_compiles():
        assert torch.equal(by_hand.load(module.Thing(1).run)(X), X + 1)


@pytest.mark.parametrize("backend", ["eager"], indirect=True)
def test_autocast_inside(by_hand: ByHand, program: Any, torch_fails: Any) -> None:
    torch_fails("a wrong answer: unpickling re-traces the graph, which loses its autocast region")
    module = program(
        "def fn(x):\n    with torch.autocast('cpu', torch.bfloat16):\n        return x @ x\n"
    )
    x = torch.eye(4)
    assert by_hand.compile(module.fn)(x).dtype == torch.bfloat16
    if by_hand.impl.name == "hotstart":
        with pytest.raises(RuntimeError, match="would lose call_function _enter_autocast"):
            by_hand.save()
        return
    by_hand.save()
    fn = program.restart().fn
    with no_compiles():
        assert by_hand.load(fn)(x).dtype == torch.bfloat16


# --------------------------------------------------------------------------- automatic


@pytest.fixture
def switched_on(impl: Any) -> Iterator[None]:
    with impl.automatic():
        yield


automatic = pytest.mark.usefixtures("switched_on")


@automatic
def test_automatic(impl: Any, program: Any, compiles: Callable[[], int]) -> None:
    module = program("def fn(x):\n    return x + 1\n")
    expected = torch.compile(module.fn)(X)
    assert compiles() == 1
    impl.save()

    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(torch.compile(fn)(X), expected)
    assert compiles() == 0


@automatic
def test_automatic_compiled_twice(impl: Any, program: Any, compiles: Callable[[], int]) -> None:
    fn = program("def fn(x):\n    return x + 1\n").fn
    torch.compile(fn)(X)
    torch.compile(fn)(X)
    assert compiles() == 1
    impl.save()
    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(torch.compile(fn)(X), X + 1)
        assert torch.equal(torch.compile(fn)(X), X + 1)
    assert compiles() == 0


@automatic
def test_automatic_recompiles(impl: Any, program: Any, compiles: Callable[[], int]) -> None:
    compiled = torch.compile(program("def fn(x):\n    return x + 1\n").fn)
    inputs = [torch.ones(4), torch.ones(4, 4), torch.ones(4, dtype=torch.int64)]
    for x in inputs:
        compiled(x)
    assert compiles() == 3
    impl.save()
    compiled = torch.compile(program.restart().fn)
    with no_compiles():
        for x in [*inputs, *inputs]:
            assert torch.equal(compiled(x), x + 1)
    assert compiles() == 0


NINE = (
    "def fn(x):\n" + "    x = x + 1\n    torch._dynamo.graph_break()\n" * 8 + "    return x + 1\n"
)


@automatic
def test_automatic_nine_graphs(impl: Any, program: Any, compiles: Callable[[], int]) -> None:
    fn = program(NINE).fn
    assert torch.equal(torch.compile(fn)(X), X + 9)
    (entry,) = PrecompileContext._dynamo_cache_entries.values()
    assert len(entry.codes) == len(entry.backend_ids) == 9
    impl.save()
    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(torch.compile(fn)(X), X + 9)
    assert compiles() == 0


def train(fn: Any) -> torch.Tensor:
    x = X.clone().requires_grad_()
    fn(x).sum().backward()
    assert x.grad is not None
    return x.grad


@automatic
def test_automatic_backward(impl: Any, program: Any, compiles: Callable[[], int]) -> None:
    fn = program("def fn(x):\n    return x * 2\n").fn
    assert torch.equal(train(torch.compile(fn)), torch.full((4,), 2.0))
    impl.save()
    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(train(torch.compile(fn)), torch.full((4,), 2.0))
    assert compiles() == 0


BROKEN = "def fn(x):\n    y = x * 2\n    torch._dynamo.graph_break()\n    return y * 3\n"


@automatic
def test_automatic_backward_never_run(impl: Any, program: Any) -> None:
    """Only part of the training graph was compiled before saving: the rest comes when needed."""
    fn = program("def fn(x):\n    return x * 2\n").fn
    torch.compile(fn)(X.clone().requires_grad_())
    impl.save()
    fn = program.restart().fn
    assert torch.equal(train(torch.compile(fn)), torch.full((4,), 2.0))


@automatic
def test_missing_backend_of_a_resume_function(
    impl: Any, program: Any, compiles: Callable[[], int]
) -> None:
    fn = program(BROKEN).fn
    assert torch.equal(train(torch.compile(fn)), torch.full((4,), 6.0))
    assert compiles() == 2
    (entry,) = PrecompileContext._dynamo_cache_entries.values()
    (resume,) = [c for c in entry.codes if c.install_to_global]
    (lost,) = resume.backend_ids
    del PrecompileContext._backend_artifacts_by_key[lost]
    impl.save()

    fn = program.restart().fn
    compiled = torch.compile(fn)
    assert torch.equal(train(compiled), torch.full((4,), 6.0))
    assert compiles() == 1
    assert torch.equal(train(compiled), torch.full((4,), 6.0))
    assert compiles() == 1


RESUME_CALLS = """\
@torch._dynamo.disable
def opaque(x):
    return x


def helper(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1


def fn(x):
    y = opaque(x)
    z = helper(y)
    return z * 3
"""


@automatic
def test_call_out_of_a_resume_function(
    impl: Any, program: Any, compiles: Callable[[], int]
) -> None:
    fn = program(RESUME_CALLS).fn
    expected = torch.compile(fn)(X)
    assert torch.equal(expected, (X * 2 + 1) * 3)
    impl.save()
    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(torch.compile(fn)(X), expected)
    assert compiles() == 0


@automatic
def test_backward_in_a_resume_function(
    impl: Any, program: Any, compiles: Callable[[], int]
) -> None:
    source = """\
    def fn(x):
        y = x * 2
        torch._dynamo.graph_break()
        (y * 3).sum().backward()
        return x.grad
    """
    fn = program(source).fn
    for _ in range(2):
        result = torch.compile(fn)(X.clone().requires_grad_())
        assert torch.equal(result, torch.full((4,), 6.0))
    impl.save()
    fn = program.restart().fn
    with no_compiles():
        result = torch.compile(fn)(X.clone().requires_grad_())
    assert torch.equal(result, torch.full((4,), 6.0))
    assert compiles() == 0


@automatic
def test_generator_expression(impl: Any, program: Any, compiles: Callable[[], int]) -> None:
    source = """\
    def fn(x, parts):
        return sum(x + part for part in parts)
    """
    fn = program(source).fn
    expected = torch.compile(fn)(X, [1, 2])
    assert torch.equal(expected, 2 * X + 3)
    impl.save()
    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(torch.compile(fn)(X, [1, 2]), expected)
    assert compiles() == 0


@automatic
def test_module_that_prints(
    impl: Any, program: Any, compiles: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    source = """\
    class Noisy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x):
            y = self.inner(x)
            print("half way")
            return y * 2
    """
    torch.manual_seed(0)
    model = program(source).Noisy()
    weights = model.state_dict()
    with torch.no_grad():
        expected = model(X)
        assert torch.allclose(torch.compile(model)(X), expected)
    impl.save()

    model = program.restart().Noisy()
    model.load_state_dict(weights)
    capsys.readouterr()
    with no_compiles(), torch.no_grad():
        assert torch.allclose(torch.compile(model)(X), expected)
    assert capsys.readouterr().out == "half way\n"
    assert compiles() == 0


@automatic
def test_classmethod(impl: Any, program: Any, compiles: Callable[[], int]) -> None:
    source = """\
    class Thing:
        n = 1

        @classmethod
        def shift(cls, x):
            torch._dynamo.graph_break()
            return x + 1

    def fn(x):
        return Thing.shift(x) * 2
    """
    fn = program(source).fn
    assert torch.equal(torch.compile(fn)(X), (X + 1) * 2)
    impl.save()
    fn = program.restart().fn
    with no_compiles():
        assert torch.equal(torch.compile(fn)(X), (X + 1) * 2)
    assert compiles() == 0


@automatic
def test_changed_source_is_compiled_anew(
    impl: Any, program: Any, compiles: Callable[[], int], backend_log: list[str]
) -> None:
    source = "def helper(x):\n    return x + 1\n\n\ndef fn(x):\n    return helper(x)\n"
    assert torch.equal(torch.compile(program(source).fn)(X), X + 1)
    impl.save()
    program.write(source.replace("+ 1", "+ 2"))
    fn = program.restart().fn
    backend_log.clear()
    assert torch.equal(torch.compile(fn)(X), X + 2)
    assert compiles() == 1
    assert backend_log


# --------------------------------------------------------------------------- bypasses

UNPICKLABLE = """\
class Config:
    scale = 2

    def __reduce__(self):
        raise {error}("not for saving")


def fn(x, config):
    return x * config.scale
"""

UNSAVEABLE = """\
def fn(x, weights=None):
    if weights is None:
        return x + 1
    for weight in weights.values():
        x = x * weight
    return x
"""


def weights() -> dict[Any, float]:
    """Dynamo guards on the address of the key, which has no name."""
    return {torch.nn.Identity(): 2.0}


@pytest.mark.parametrize("error", ["TypeError", "RuntimeError", "AttributeError"])
@automatic
def test_guard_on_what_cannot_be_pickled(
    impl: Any, program: Any, compiles: Callable[[], int], torch_fails: Any, error: str
) -> None:
    torch_fails("a guard that cannot be pickled crashes the first call")
    module = program(UNPICKLABLE.format(error=error))
    assert torch.equal(torch.compile(module.fn)(X, module.Config()), X * 2)
    impl.save()
    module = program.restart()
    assert torch.equal(torch.compile(module.fn)(X, module.Config()), X * 2)
    assert compiles() == 0


@automatic
def test_earlier_variant_survives_a_bypass(
    impl: Any, program: Any, compiles: Callable[[], int]
) -> None:
    module = program(UNSAVEABLE)
    compiled = torch.compile(module.fn)
    assert torch.equal(compiled(X), X + 1)
    assert torch.equal(compiled(X, weights()), X * 2)
    impl.save()

    module = program.restart()
    compiled = torch.compile(module.fn)
    with no_compiles():
        assert torch.equal(compiled(X), X + 1)
    assert compiles() == 0
    assert torch.equal(compiled(X, weights()), X * 2)


@automatic
def test_wholly_bypassed_function_still_compiles(
    impl: Any, program: Any, compiles: Callable[[], int]
) -> None:
    """No saved code does not mean that there is nothing worth compiling."""
    module = program(UNSAVEABLE)
    torch.compile(module.fn)(X, weights())
    impl.save()
    module = program.restart()
    assert torch.equal(torch.compile(module.fn)(X, weights()), X * 2)
    assert compiles() == 1


# --------------------------------------------------------------------------- precompile context


@automatic
def test_context_after_one_compile(impl: Any, program: Any) -> None:
    fn = program("def fn(x):\n    return x + 1\n").fn
    torch.compile(fn)(X)
    entries = PrecompileContext._dynamo_cache_entries
    (key,) = entries
    if impl.name == "torch":
        assert key == impl.CompilePackage.source_id_from_fn(fn)
    (entry,) = entries.values()
    (backend_id,) = PrecompileContext._backend_artifacts_by_key
    assert entry.backend_ids == {backend_id}
    artifact = PrecompileContext.serialize_artifact_by_key(backend_id)
    assert isinstance(artifact, BackendCacheArtifact)
    assert artifact.key == backend_id
    assert PrecompileContext.serialize_artifact_by_key("something else") is None


@automatic
def test_context_makes_whole_entries(impl: Any, program: Any) -> None:
    fn = program(BROKEN).fn
    torch.compile(fn)(X)
    entries, debug = PrecompileContext.create_cache_entries()
    (entry,) = entries.values()
    assert isinstance(entry, impl.PrecompileCacheEntry)
    assert set(entry.backends) == entry.dynamo.backend_ids
    assert len(entry.backends) == 2
    (info,) = debug["dynamo"]
    assert info["fn_name"] == "fn"
    assert sorted(debug["backends"]) == sorted(entry.backends)


@automatic
def test_edits_of_an_artifact_are_saved(impl: Any, program: Any) -> None:
    from torch._dynamo.precompile_context import EagerCacheArtifact

    fn = program("def fn(x):\n    return x + 1\n").fn
    package = impl.CompilePackage(fn)
    impl.compile(package, fn)(X)
    impl.DynamoCache.record_package(package)
    (backend_id,) = package.cache_entry().backend_ids
    PrecompileContext.record_artifact(EagerCacheArtifact(key=backend_id, content=1))
    PrecompileContext.edit_artifact(backend_id, lambda content: content + 41)
    impl.save()
    fn = program.restart().fn
    entry = impl.DynamoCache.load(fn)
    assert entry.backends[backend_id].after_deserialization() == 42


# --------------------------------------------------------------------------- artefacts as bytes


@automatic
@pytest.mark.parametrize("autocast", [False, True])
def test_hot_load(
    impl: Any,
    program: Any,
    compiles: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    autocast: bool,
) -> None:
    def run(fn: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return torch.compile(fn)(torch.eye(4))

    expected = run(program("def fn(x):\n    return x @ x\n").fn)
    impl.save()
    artifacts = torch.compiler.save_cache_artifacts()
    assert artifacts is not None

    for repeat in range(2):
        for variable in ("TORCHINDUCTOR_CACHE_DIR", "HOTSTART_DIR"):
            monkeypatch.setenv(variable, str(tmp_path / f"host {repeat}"))
        fn = program.restart().fn
        info = torch.compiler.load_cache_artifacts(artifacts[0])
        assert info is not None
        assert len(info.precompile_artifacts) == 1
        with no_compiles():
            result = run(fn)
        assert result.dtype == expected.dtype
        assert torch.equal(result, expected)
        assert compiles() == 0
        assert counters["dynamo_cache"]["dynamo_cache_hit"] == 1


# --------------------------------------------------------------------------- higher-order operators


@pytest.mark.parametrize("backend", ["eager"], indirect=True)
def test_cond(by_hand: ByHand, program: Any, torch_fails: Any) -> None:
    torch_fails("unpickling re-traces the graph, which torch.cond does not take (pytorch 194300)")
    source = """\
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x + 2, (x,))
    """
    by_hand.compile(program(source).fn)(X)
    if by_hand.impl.name == "hotstart":
        with pytest.raises(RuntimeError, match="the graph does not survive a pickle"):
            by_hand.save()
        return
    by_hand.save()
    fn = program.restart().fn
    with no_compiles():
        compiled = by_hand.load(fn)
        assert torch.equal(compiled(X), X + 1)
        assert torch.equal(compiled(-X), -X + 2)
