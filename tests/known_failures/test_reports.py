"""Public reports and own findings about torch's package: what ours must survive.

Each row is a small program, saved in one process and loaded in another. Whatever happens, the
program must run and be right; ``HITS`` says which rows are served from the package as well.
``torch`` notes what torch's own package does on 2.13; a slow test says when that changes.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from _scenario import Outcome, Scenario

#: The rows that hotstart serves without compiling anything it should not have to. Add a row here
#: once it does. The right outcome in the end is a hit for all of them, unless ``MISSES`` says why.
HITS = {
    "another backend after loading and a reset",
    "another backend beside the loaded one",
    "another dtype after a hit",
    "another function of the file after a hit",
    "another instance",
    "another number of threads",
    "attribute of a tensor",
    "called inside autocast",
    "class with __call__",
    "comment above the function",
    "comparison that raises",
    "dataclass output and keyword arguments",
    "graph break after a hit",
    "guard on an object that cannot be pickled, AttributeError",
    "guard on an object that cannot be pickled, RuntimeError",
    "guard on an object that cannot be pickled, TypeError",
    "hundreds of guards",
    "lambda",
    "loaded outside autocast, called inside",
    "local class",
    "loop over a module list",
    "no compiler on the loading host",
    "one function compiled in two ways",
    "only a view",
    "plain",
    "reset after loading",
    "saved inside autocast, called outside",
    "two backends, one of which cannot be saved",
    "two functions of one name and line",
    "two models of one class",
}

#: Rows where a reason is as good as a hit.
MISSES = {
    "optimizer step, SGD": "saved, or a reason why not",
    "optimizer step, Adam": "saved, or a reason why not",
    "autocast inside the function": "a hit, or a reason",
}


def row(name: str, torch: str, source: str, **more: Any) -> Scenario:
    return Scenario(name, source, torch, **more)


def unpicklable(error: str) -> Scenario:
    return row(
        f"guard on an object that cannot be pickled, {error}",
        "crash at save",
        f"""
        class Config:
            scale = 2

            def __reduce__(self):
                raise {error}("not for saving")

        def fn(x, config=None):
            return x + 1 if config is None else x * config.scale

        def program(phase):
            compiled = torch.compile(fn)
            yield "first", compiled(torch.ones(4))
            yield "second", compiled(torch.ones(4), Config())
        """,
        served=("first",),
    )


def optimizer(name: str) -> Scenario:
    return row(
        f"optimizer step, {name}",
        "crash at save",
        f"""
        def program(phase):
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 4)
            opt = torch.optim.{name}(model.parameters(), lr=0.1)
            model(torch.ones(4)).sum().backward()
            torch.compile(lambda: opt.step())()
            yield "step", [p for p in model.parameters()]
        """,
        # Both compile code of torch.optim, whose globals they would share.
        alone=True,
    )


#: ``functools.wraps`` makes the wrapper look as if it came from the wrapped function's module.
PLAIN_WRAPPER = """
import functools

def scaled(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper
"""
WRAPPER = "THERE = 2\n" + PLAIN_WRAPPER.replace("f(*args)\n", "f(*args) * THERE\n")

TABLE = [
    row(
        "plain",
        "hit",
        """
        def fn(x):
            return x * 2

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4))
        """,
    ),
    # pytorch 192071
    row(
        "class with __call__",
        "crash at save",
        """
        @torch.compile
        class Double:
            def __call__(self, x):
                return x * 2

        def program(phase):
            yield "call", Double()(torch.ones(4))
        """,
    ),
    # pytorch 190659
    row(
        "above staticmethod",
        "crash at save",
        """
        class Ops:
            @torch.compile
            @staticmethod
            def double(x):
                return x * 2

        def program(phase):
            yield "call", Ops.double(torch.ones(4))
        """,
    ),
    # pytorch 175025
    row(
        "called inside autocast",
        "crash",
        """
        def fn(x):
            return x + 1 * x

        def program(phase):
            compiled = torch.compile(fn)
            with torch.autocast("cpu", torch.bfloat16):
                yield "inside", compiled(torch.ones(4))
            if phase == "load":
                yield "outside", compiled(torch.ones(4))
        """,
        served=("inside",),
    ),
    # trap 5
    row(
        "saved inside autocast, called outside",
        "crash",
        """
        def fn(x):
            return x @ x

        def program(phase):
            with torch.autocast("cpu", torch.bfloat16, enabled=phase == "save"):
                yield "call", torch.compile(fn)(torch.ones(4, 4))
        """,
        served=(),
    ),
    row(
        "loaded outside autocast, called inside",
        "crash",
        """
        def fn(x):
            return x @ x

        def program(phase):
            compiled = torch.compile(fn)
            with torch.autocast("cpu", torch.bfloat16):
                yield "inside", compiled(torch.ones(4, 4))
        """,
    ),
    # pytorch 187736
    row(
        "pytree leaf",
        "crash",
        """
        import torch.utils._pytree

        def fn(x):
            return x * 2 if torch.utils._pytree.tree_is_leaf(x) else x

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4))
        """,
    ),
    # pytorch 190664
    row(
        "reset after loading",
        "wrong",
        """
        from torch._C._dynamo.eval_frame import _debug_get_precompile_entries

        def fn(x):
            return x * 2

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4))
            torch._dynamo.reset()
            yield "entries", len(_debug_get_precompile_entries(fn.__code__))
            yield "again", torch.compile(fn)(torch.ones(4))
        """,
        served=("call",),
    ),
    # pytorch 196505
    unpicklable("AttributeError"),
    unpicklable("RuntimeError"),
    unpicklable("TypeError"),
    # found
    optimizer("SGD"),
    optimizer("Adam"),
    # pytorch 196822, trap 1
    row(
        "another dtype after a hit",
        "crash",
        """
        def fn(x):
            return x @ x

        def program(phase):
            compiled = torch.compile(fn, dynamic=False)
            yield "float32", compiled(torch.ones(4, 4))
            if phase == "load":
                yield "float64", compiled(torch.ones(4, 4, dtype=torch.float64))
                yield "float32 again", compiled(torch.ones(4, 4))
                yield "float64 again", compiled(torch.ones(4, 4, dtype=torch.float64))
        """,
        served=("float32", "float32 again", "float64 again"),
    ),
    row(
        "another function of the file after a hit",
        "crash",
        """
        def fn(x):
            return x * 2

        def other(x):
            return x * 3

        def program(phase):
            yield "first", torch.compile(fn)(torch.ones(4))
            if phase == "load":
                yield "second", torch.compile(other)(torch.ones(4))
        """,
        served=("first",),
    ),
    row(
        "graph break after a hit",
        "crash",
        """
        def fn(x):
            y = x * 2
            torch._dynamo.graph_break()
            return y + 1

        def program(phase):
            compiled = torch.compile(fn, dynamic=False)
            yield "first", compiled(torch.ones(4))
            if phase == "load":
                yield "second", compiled(torch.ones(4, 4))
                yield "first again", compiled(torch.ones(4))
        """,
        served=("first", "first again"),
    ),
    # pytorch 195353
    row(
        "wrapped forward",
        "crash",
        """
        import functools

        def wraps_defaults(f):
            @functools.wraps(f)
            def wrapper(*args):
                extra = len(f.__defaults__ or ())
                return f(*args) if extra else f(*args) * 3

            return wrapper

        class Model(torch.nn.Module):
            @wraps_defaults
            def forward(self, x, k=2):
                return x * k

        def program(phase):
            yield "call", torch.compile(Model())(torch.ones(4))
        """,
    ),
    row(
        "wrapper of another module",
        "crash",
        """
        import importlib

        lib = importlib.import_module(LIB)
        HERE = 2

        class Model(torch.nn.Module):
            @lib.scaled
            def forward(self, x):
                return x * HERE

        def program(phase):
            yield "call", torch.compile(Model())(torch.ones(4))
        """,
        library=PLAIN_WRAPPER,
    ),
    row(
        "wrapper of another module with a constant",
        "miss",
        """
        import importlib

        lib = importlib.import_module(LIB)
        HERE = 2

        class Model(torch.nn.Module):
            @lib.scaled
            def forward(self, x):
                return x * HERE

        def program(phase):
            yield "call", torch.compile(Model())(torch.ones(4))
        """,
        library=WRAPPER,
    ),
    row(
        "wrapper of another module with a graph break",
        "hit",
        """
        import importlib

        lib = importlib.import_module(LIB)
        HERE = 2

        class Model(torch.nn.Module):
            @lib.scaled
            def forward(self, x):
                y = x * HERE
                torch._dynamo.graph_break()
                return y + 1

        def program(phase):
            yield "call", torch.compile(Model())(torch.ones(4))
        """,
        library=PLAIN_WRAPPER,
    ),
    # pytorch 194317
    row(
        "attribute of a tensor",
        "crash",
        """
        def fn(x):
            return x * x._scale

        def program(phase):
            compiled = torch.compile(fn, dynamic=False)
            x = torch.ones(4)
            x._scale = 2
            yield "same", compiled(x)
            if phase == "load":
                x._scale = 3
                yield "changed", compiled(x)
        """,
        served=("same",),
    ),
    # found: graphs without a kernel
    row(
        "only a view",
        "hit",
        """
        def program(phase):
            y = torch.compile(lambda x: x.view(-1))(torch.ones(2, 2, requires_grad=True))
            yield "call", [y, y.requires_grad]
        """,
    ),
    row(
        "only a detach",
        "crash at save",
        """
        def program(phase):
            y = torch.compile(lambda x: x.detach())(torch.ones(4, requires_grad=True))
            yield "call", [y, y.requires_grad]
        """,
    ),
    row(
        "training step with a graph break",
        "crash at save",
        """
        def step(w, x):
            y = w * x
            torch._dynamo.graph_break()
            loss = y.sum()
            loss.backward()
            return loss.detach()

        def program(phase):
            w = torch.ones(4, requires_grad=True)
            yield "call", torch.compile(step)(w, torch.arange(4.0))
            yield "gradient", w.grad
        """,
    ),
    # found
    row(
        "comment above the function",
        "miss",
        """
        # here

        def fn(x):
            return x * 2

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4))
        """,
        edits=(("# here", "# here\n        # and here"),),
    ),
    row(
        "autocast inside the function",
        "miss",
        """
        def fn(x):
            with torch.autocast("cpu", torch.bfloat16):
                return x @ x

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4, 4))
        """,
    ),
    # found on transformers models: kinds of guards and names they bring along
    row(
        "loop over a module list",
        "hit",
        """
        class Block(torch.nn.Module):
            def forward(self, x):
                return x * 2

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = torch.nn.ModuleList([Block(), Block()])

            def forward(self, x):
                for block in self.blocks:
                    x = block(x)
                return x

        def program(phase):
            yield "call", torch.compile(Model())(torch.ones(4))
        """,
    ),
    row(
        "function found in a dict of the class",
        "hit",
        """
        ACTS = {"double": lambda x: x * 2, "relu": torch.relu}

        class Config:
            act = "double"

        class Model(torch.nn.Module):
            def __init__(self, config):
                super().__init__()
                self.config = config
                self.act = ACTS[config.act]

            def forward(self, x):
                return self.act(x)

        def program(phase):
            yield "call", torch.compile(Model(Config()))(torch.ones(4))
        """,
    ),
    row(
        "dataclass output and keyword arguments",
        "hit",
        """
        import collections
        import dataclasses

        @dataclasses.dataclass
        class Output(collections.OrderedDict):
            logits: object = None
            hidden: object = None

        class Model(torch.nn.Module):
            def forward(self, x, *, mask=None, **kwargs):
                if mask is not None and kwargs.get("use"):
                    x = x + mask
                return Output(logits=x * 2, hidden=x)

        def program(phase):
            out = torch.compile(Model())(torch.ones(4), use=True)
            yield "call", [out.logits, out.hidden]
        """,
    ),
    row(
        "local class",
        "crash at save",
        """
        def make():
            class Config:
                scale = 2

            return Config()

        def fn(x, config):
            return x * config.scale

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4), make())
        """,
        served=(),
    ),
    row(
        "lambda",
        "hit",
        """
        fn = torch.compile(lambda x: x * 2)

        def program(phase):
            yield "call", fn(torch.ones(4))
        """,
    ),
    row(
        "nested function with closures",
        "hit",
        """
        def make(k):
            def scale(x):
                return x * k

            def fn(x):
                y = scale(x)
                torch._dynamo.graph_break()
                return y + k

            return fn

        def program(phase):
            yield "call", torch.compile(make(2))(torch.ones(4))
        """,
    ),
    row(
        "two models of one class",
        "miss",
        """
        class Scale(torch.nn.Module):
            def __init__(self, k):
                super().__init__()
                self.k = k

            def forward(self, x):
                return x * self.k

        def program(phase):
            two, three = torch.compile(Scale(2)), torch.compile(Scale(3))
            yield "two", two(torch.ones(4))
            yield "three", three(torch.ones(4))
        """,
    ),
    row(
        "two functions of one name and line",
        "crash",
        """
        import importlib

        lib = importlib.import_module(LIB)


        def fn(x):
            return x * 3

        assert lib.fn.__code__.co_firstlineno == fn.__code__.co_firstlineno

        def program(phase):
            yield "there", torch.compile(lib.fn)(torch.ones(4))
            yield "here", torch.compile(fn)(torch.ones(4))
        """,
        library="# padding\n" * 8 + "def fn(x):\n    return x * 2\n",
    ),
    row(
        "one function compiled in two ways",
        "hit",
        """
        def fn(x):
            return x @ x

        def program(phase):
            a = torch.compile(fn)
            b = torch.compile(fn, options={"max_autotune": False, "epilogue_fusion": False})
            yield "first", a(torch.ones(4, 4))
            yield "second", b(torch.ones(4, 4))
            yield "dynamic", torch.compile(fn, dynamic=True)(torch.ones(5, 5))
        """,
        served=("first", "second"),
    ),
    row(
        "two backends, one of which cannot be saved",
        "miss",
        """
        def fn(x):
            return x * 2

        def program(phase):
            yield "inductor", torch.compile(fn)(torch.ones(4))
            torch._dynamo.reset()
            yield "eager", torch.compile(fn, backend="eager")(torch.ones(4))
        """,
        served=("inductor",),
    ),
    # trap 3
    row(
        "another backend after loading and a reset",
        "wrong",
        """
        def fn(x):
            return x * 2

        def program(phase):
            seen = []

            def backend(graph, inputs):
                seen.append(graph)
                return graph.forward

            yield "inductor", torch.compile(fn)(torch.ones(4))
            if phase == "load":
                torch._dynamo.reset()
                yield "custom", torch.compile(fn, backend=backend)(torch.ones(4))
                yield "custom was asked", bool(seen) or EAGER
        """,
        served=("inductor",),
    ),
    row(
        "another backend beside the loaded one",
        "wrong",
        """
        def fn(x):
            return x * 2

        def program(phase):
            seen = []

            def backend(graph, inputs):
                seen.append(graph)
                return graph.forward

            inductor = torch.compile(fn)
            if phase == "load":
                custom = torch.compile(fn, backend=backend)
                yield "custom", custom(torch.ones(4))
                yield "custom was asked", bool(seen) or EAGER
            yield "inductor", inductor(torch.ones(4))
        """,
        served=("inductor",),
    ),
    # trap 4
    row(
        "another instance",
        "crash",
        """
        class Scale(torch.nn.Module):
            def __init__(self, k):
                super().__init__()
                self.k = k

            def forward(self, x):
                return x * self.k

        def program(phase):
            first, other = Scale(2), Scale(3)
            yield "first", torch.compile(first)(torch.ones(4))
            if phase == "load":
                yield "other", torch.compile(other)(torch.ones(4))
                yield "never compiled", other(torch.ones(4))
        """,
        served=("first", "never compiled"),
    ),
    # trap 7
    row(
        "comparison that raises",
        "crash",
        """
        import torch.utils._pytree as pytree

        class Config:
            broken = False

            def __init__(self, k):
                self.k = k

            def __eq__(self, other):
                if Config.broken:
                    raise RuntimeError("not comparable")
                return self.k == other.k

            def __hash__(self):
                return hash(self.k)

        pytree.register_constant(Config)

        def fn(x, config):
            return x * config.k

        def program(phase):
            Config.broken = phase == "load"
            yield "call", torch.compile(fn)(torch.ones(4), Config(2))
        """,
        served=(),
    ),
    # trap 6
    row(
        "another number of threads",
        "crash",
        """
        def fn(x):
            return x * 2

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4))
        """,
        load_env=(("OMP_NUM_THREADS", "1"),),
        alone=True,
    ),
    # found
    row(
        "no compiler on the loading host",
        "crash",
        """
        def fn(x):
            return x * 2

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4))
        """,
        load_env=(("PATH", "/nonexistent"), ("CXX", "/nonexistent/g++")),
        excuse="InvalidCxxCompiler",
        alone=True,
    ),
    row(
        "no compiler on the loading host, and none needed",
        "hit",
        """
        def fn(x):
            return x @ x

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4, 4))
        """,
        load_env=(("PATH", "/nonexistent"), ("CXX", "/nonexistent/g++")),
        alone=True,
    ),
    row(
        "hundreds of guards",
        "crash",
        """
        class Node:
            def __init__(self, depth):
                self.k = depth
                self.child = Node(depth - 1) if depth else None
                for i in range(10):
                    setattr(self, f"attribute_{i}", i)

        def fn(x, node):
            total = 0
            while node is not None:
                total += sum(getattr(node, f"attribute_{i}") for i in range(10)) - 44
                node = node.child
            return x * (total - 19)

        def program(phase):
            compiled = torch.compile(fn, dynamic=False)
            node = Node(20)
            yield "same", compiled(torch.ones(4), node)
            if phase == "load":
                deep = node
                while deep.child:
                    deep = deep.child
                deep.attribute_9 += 1
                yield "changed", compiled(torch.ones(4), node)
        """,
        served=("same",),
    ),
]

#: Left to the slow tests: each of these takes two processes, and shows little that others do not.
SLOW = {
    "optimizer step, Adam",
    "no compiler on the loading host, and none needed",
}
SLOW_TABLE = [s for s in TABLE if s.name in SLOW]
TABLE = [s for s in TABLE if s.name not in SLOW]

NAMES = [pytest.param(s, id=s.name) for s in TABLE]
SLOW_NAMES = [pytest.param(s, id=s.name, marks=pytest.mark.slow) for s in SLOW_TABLE]


def outcome_of(run_table: Any, scenario: Scenario, mode: str) -> Outcome:
    table = SLOW_TABLE if scenario.name in SLOW else TABLE
    return run_table(table, mode)[scenario.name]


def check(outcome: Outcome) -> None:
    name = outcome.scenario.name
    assert outcome.save.correct, outcome
    assert outcome.load.correct or outcome.excused, outcome
    if name in HITS:
        assert outcome.missed() == [], outcome


@pytest.mark.parametrize("scenario", [*NAMES, *SLOW_NAMES])
def test_it_runs_and_is_right(run_table: Any, scenario: Scenario) -> None:
    check(outcome_of(run_table, scenario, "hotstart"))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*NAMES, *SLOW_NAMES])
def test_what_torch_does(run_table: Any, scenario: Scenario) -> None:
    outcome = outcome_of(run_table, scenario, "torch")
    assert outcome.verdict == scenario.torch, outcome


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*NAMES, *SLOW_NAMES])
def test_it_is_sound(run_table: Any, scenario: Scenario) -> None:
    """Without packages the program is right, and compiles in both processes."""
    outcome = outcome_of(run_table, scenario, "plain")
    assert outcome.verdict in ("miss", "right") or outcome.excused, outcome


def test_the_tables_name_rows() -> None:
    assert {s.name for s in [*TABLE, *SLOW_TABLE]} >= HITS | MISSES.keys()


# --------------------------------------------------------------------------- another user


def sealed(mode: int) -> Scenario:
    return row(
        f"somebody else's cache, mode {mode:o}",
        "crash",
        """
        def fn(x):
            return x * 2

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4))
        """,
        sealed=mode,
        alone=True,
    )


@pytest.mark.skipif(
    os.getuid() == 0 and not shutil.which("setpriv"), reason="root can write anywhere"
)
@pytest.mark.parametrize(
    "folder_mode", [pytest.param(0o555, marks=pytest.mark.slow), 0o700], ids=["555", "700"]
)
@pytest.mark.parametrize("mode", ["hotstart", pytest.param("torch", marks=pytest.mark.slow)])
def test_cache_of_another_user(run_table: Any, mode: str, folder_mode: int) -> None:
    if os.getuid() != 0 and folder_mode == 0o700:
        pytest.skip("nobody else's folder without root")
    scenario = sealed(folder_mode)
    outcome = run_table([scenario], mode)[scenario.name]
    if mode == "hotstart":
        check(outcome)
    else:
        assert outcome.verdict == scenario.torch, outcome
