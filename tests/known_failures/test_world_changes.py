"""The world changed between saving and loading: whatever is served must still be right.

In every scenario the second process differs from the first in one thing that the compiled code
depends on. A miss is always fine here; a wrong answer or a crash never is. ``torch`` notes what
torch's own package does on 2.13; a slow test says when that changes.

Guards alone do not make all of these right. Dynamo itself sets none, so that it serves stale code
even within one process, for: a name that appears in a module or shadows a builtin, another base or
a patched method of a class, hooks on a child and global hooks. It guards by identity alone, which
has to be given a meaning in another process: functions and closures, default arguments of helpers,
classes and their attributes, enum members, modules, builtins.
"""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from _scenario import Scenario

#: Calls ``fn`` on ``x`` in both processes.
CALL = """
X = torch.arange(4.0)

def program(phase):
    yield "call", torch.compile(fn)(X)
"""


def edit(
    name: str, torch: str, source: str, *edits: tuple[str, str], library: str = ""
) -> Scenario:
    """The source file itself changed."""
    source = textwrap.dedent(source) + CALL
    return Scenario(f"edited {name}", source, torch, edits=edits, library=library)


def change(name: str, torch: str, source: str, **more: Any) -> Scenario:
    """The same source does something else in the second process."""
    return Scenario(f"changed {name}", source, torch, **more)


EDITS = [
    edit(
        "function",
        "miss",
        """\
        def fn(x):
            return x * 2
        """,
        ("x * 2", "x * 3"),
    ),
    edit(
        "helper",
        "miss",
        """\
        def helper(x):
            return x * 2

        def fn(x):
            return helper(x)
        """,
        ("x * 2", "x * 3"),
    ),
    edit(
        "int constant",
        "crash",
        """\
        K = 2

        def fn(x):
            return x * K
        """,
        ("K = 2", "K = 3"),
    ),
    edit(
        "float constant",
        "crash",
        """\
        K = 2.0

        def fn(x):
            return x * K
        """,
        ("2.0", "3.0"),
    ),
    edit(
        "mode name",
        "crash",
        """\
        MODE = 'two'

        def fn(x):
            return x * 2 if MODE == 'two' else x * 3
        """,
        ("MODE = 'two'", "MODE = 'six'"),
    ),
    edit(
        "tuple constant",
        "crash",
        """\
        SCALES = (2, 3)

        def fn(x):
            return x * SCALES[0]
        """,
        ("(2, 3)", "(3, 2)"),
    ),
    edit(
        "dict constant",
        "crash",
        """\
        CONFIG = {'scale': 2}

        def fn(x):
            return x * CONFIG['scale']
        """,
        ("'scale': 2", "'scale': 3"),
    ),
    edit(
        "rebinding",
        "wrong",
        """\
        def two(x):
            return x * 2

        def three(x):
            return x * 3

        act = two

        def fn(x):
            return act(x)
        """,
        ("act = two", "act = three"),
    ),
    edit(
        "default",
        "miss",
        """\
        def fn(x, k=2):
            return x * k
        """,
        ("k=2", "k=3"),
    ),
    edit(
        "default of a helper",
        "miss",
        """\
        def helper(x, k=2):
            return x * k

        def fn(x):
            return helper(x)
        """,
        ("k=2", "k=3"),
    ),
    edit(
        "keyword default from a name",
        "wrong",
        """\
        K = 2

        def helper(x, *, k=K):
            return x * k

        def fn(x):
            return helper(x)
        """,
        ("K = 2", "K = 3"),
    ),
    edit(
        "closure value",
        "crash",
        """\
        def make(k):
            def fn(x):
                return x * k
            return fn

        fn = make(2)
        """,
        ("make(2)", "make(3)"),
    ),
    edit(
        "closure function",
        "wrong",
        """\
        def two(x):
            return x * 2

        def three(x):
            return x * 3

        def make(f):
            def fn(x):
                return f(x)
            return fn

        fn = make(two)
        """,
        ("make(two)", "make(three)"),
    ),
    edit(
        "lambda in a table",
        "miss",
        """\
        OPS = {'op': lambda x: x * 2}

        def fn(x):
            return OPS['op'](x)
        """,
        ("x * 2", "x * 3"),
    ),
    edit(
        "partial",
        "crash",
        """\
        import functools

        def scale(x, k):
            return x * k

        op = functools.partial(scale, k=2)

        def fn(x):
            return op(x)
        """,
        ("k=2", "k=3"),
    ),
    edit(
        "enum member",
        "wrong",
        """\
        import enum

        class Mode(enum.Enum):
            TWO = 2
            THREE = 3

        mode = Mode.TWO

        def fn(x):
            return x * 2 if mode is Mode.TWO else x * 3
        """,
        ("mode = Mode.TWO", "mode = Mode.THREE"),
    ),
    edit(
        "enum value",
        "wrong",
        """\
        import enum

        class Scale(enum.IntEnum):
            USED = 2

        def fn(x):
            return x * Scale.USED.value
        """,
        ("USED = 2", "USED = 3"),
    ),
    edit(
        "class attribute",
        "wrong",
        """\
        class Config:
            scale = 2

        def fn(x):
            return x * Config.scale
        """,
        ("scale = 2", "scale = 3"),
    ),
    edit(
        "instance attribute",
        "crash",
        """\
        class Config:
            def __init__(self):
                self.scale = 2

        config = Config()

        def fn(x):
            return x * config.scale
        """,
        ("scale = 2", "scale = 3"),
    ),
    edit(
        "property",
        "miss",
        """\
        class Config:
            @property
            def scale(self):
                return 2

        config = Config()

        def fn(x):
            return x * config.scale
        """,
        ("return 2", "return 3"),
    ),
    edit(
        "base class",
        "wrong",
        """\
        class Two:
            def op(self, x):
                return x * 2

        class Three:
            def op(self, x):
                return x * 3

        class Used(Two):
            pass

        used = Used()

        def fn(x):
            return used.op(x)
        """,
        ("Used(Two)", "Used(Three)"),
    ),
    edit(
        "library function",
        "miss",
        """\
        import importlib
        lib = importlib.import_module(LIB)

        def fn(x):
            return lib.op(x)
        """,
        ("x * 2", "x * 3"),
        library="""\
        def op(x):
            return x * 2
        """,
    ),
    edit(
        "library constant",
        "wrong",
        """\
        import importlib
        lib = importlib.import_module(LIB)

        def fn(x):
            return x * lib.K
        """,
        ("K = 2", "K = 3"),
        library="K = 2\n",
    ),
    edit(
        "library has one more name",
        "wrong",
        """\
        import importlib
        lib = importlib.import_module(LIB)

        def fn(x):
            return x * 3 if hasattr(lib, 'K') else x * 2
        """,
        ("L = 1", "L = K = 1"),
        library="L = 1\n",
    ),
    edit(
        "library has one name less",
        "crash",
        """\
        import importlib
        lib = importlib.import_module(LIB)

        def fn(x):
            return x * getattr(lib, 'K', 3)
        """,
        ("K = 2", "L = 2"),
        library="K = 2\n",
    ),
    edit(
        "builtin shadowed",
        "wrong",
        """\
        def fn(x):
            return x * len('ab')

        # shadow
        """,
        ("# shadow", "len = lambda text: 3"),
    ),
]

#: A module with an attribute and a few ways to look different.
MODEL = """
class Scale(torch.nn.Module):
    def __init__(self, k=2):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x * self.k

X = torch.arange(4.0)
"""

CHANGES = [
    change(
        "module attribute",
        "crash",
        MODEL
        + """
def program(phase):
    yield "call", torch.compile(Scale(2 if phase == "save" else 3))(X)
""",
    ),
    change(
        "module attribute added",
        "crash",
        """
class Scale(torch.nn.Module):
    def forward(self, x):
        return x * self.k if hasattr(self, "k") else x * 2

def program(phase):
    model = Scale()
    if phase == "load":
        model.k = 3
    yield "call", torch.compile(model)(torch.arange(4.0))
""",
    ),
    change(
        "training flag",
        "crash",
        """
class Scale(torch.nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x * 3

def program(phase):
    yield "call", torch.compile(Scale().train(phase == "save"))(torch.arange(4.0))
""",
    ),
    change(
        "forward hook",
        "crash",
        MODEL
        + """
def program(phase):
    model = Scale()
    if phase == "load":
        model.register_forward_hook(lambda module, args, output: output + 1)
    yield "call", torch.compile(model)(X)
""",
    ),
    change(
        "forward pre-hook on a child",
        "wrong",
        MODEL
        + """
def program(phase):
    model = torch.nn.Sequential(Scale())
    if phase == "load":
        model[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    yield "call", torch.compile(model)(X)
""",
    ),
    change(
        "global forward hook",
        "wrong",
        MODEL
        + """
def program(phase):
    model = Scale()
    hook = lambda module, args, output: output + 1
    handle = torch.nn.modules.module.register_module_forward_hook(hook) if phase == "load" else None
    try:
        # A compiled module would run a global hook once more.
        yield "call", torch.compile(lambda x: model(x))(X)
    finally:
        if handle:
            handle.remove()
""",
    ),
    change(
        "monkeypatched method",
        "wrong",
        MODEL
        + """
def program(phase):
    model = torch.nn.Sequential(Scale())
    if phase == "load":
        Scale.forward = lambda self, x: x * 3
    yield "call", torch.compile(model)(X)
""",
    ),
    change(
        "method of one instance",
        "crash",
        MODEL
        + """
def program(phase):
    model = torch.nn.Sequential(Scale())
    if phase == "load":
        model[0].forward = lambda x: x * 3
    yield "call", torch.compile(model)(X)
""",
    ),
    change(
        "child of another class",
        "crash",
        MODEL
        + """
class Other(Scale):
    def forward(self, x):
        return x * 3

def program(phase):
    model = torch.nn.Sequential(Scale() if phase == "save" else Other())
    yield "call", torch.compile(model)(X)
""",
    ),
    change(
        "one child more",
        "crash",
        MODEL
        + """
def program(phase):
    model = torch.nn.Sequential(*[Scale()] * (1 if phase == "save" else 2))
    yield "call", torch.compile(model)(X)
""",
    ),
    change(
        "monkeypatched torch function",
        "wrong",
        """
import torch.nn.functional as F

def fn(x):
    return F.relu(x)

def program(phase):
    real = F.relu
    if phase == "load":
        F.relu = lambda x: x + 1
    try:
        yield "call", torch.compile(fn)(torch.arange(4.0))
    finally:
        F.relu = real
""",
    ),
    change(
        "global tensor",
        "hit",
        """
W = torch.ones(4)

def fn(x):
    return x + W

def program(phase):
    global W
    if phase == "load":
        W = torch.full((4,), 5.0)
    yield "call", torch.compile(fn)(torch.arange(4.0))
""",
    ),
    change(
        "parameter shape",
        "crash",
        """
def program(phase):
    n = 4 if phase == "save" else 5
    torch.manual_seed(n)
    with torch.no_grad():
        yield "call", torch.compile(torch.nn.Linear(4, n))(torch.ones(2, 4))
""",
    ),
    change(
        "shape",
        "crash",
        """\
        def fn(x):
            return x * 2 if x.dim() == 1 else x * 3

        def program(phase):
            shape = (4,) if phase == "save" else (4, 4)
            yield "call", torch.compile(fn)(torch.ones(shape))
        """,
    ),
    change(
        "dtype",
        "crash",
        """\
        def fn(x):
            return x * 2 if x.dtype == torch.float32 else x @ x

        def program(phase):
            dtype = torch.float32 if phase == "save" else torch.float64
            yield "call", torch.compile(fn)(torch.ones(4, 4, dtype=dtype))
        """,
    ),
    change(
        "strides",
        "crash",
        """\
        def fn(x):
            return x * 2 if x.is_contiguous() else x * 3

        def program(phase):
            x = torch.arange(16.0).reshape(4, 4)
            yield "call", torch.compile(fn)(x if phase == "save" else x.t())
        """,
    ),
    change(
        "gradient wanted",
        "crash",
        """\
        def fn(x):
            return x * 3 if x.requires_grad else x * 2

        def program(phase):
            x = torch.ones(4, requires_grad=phase == "load")
            y = torch.compile(fn)(x)
            yield "call", [y, y.requires_grad]
        """,
    ),
    change(
        "no_grad",
        "crash",
        """\
        def fn(x):
            return x * 2 if torch.is_grad_enabled() else x * 3

        def program(phase):
            with torch.set_grad_enabled(phase == "save"):
                yield "call", torch.compile(fn)(torch.ones(4))
        """,
    ),
    change(
        "inference mode",
        "crash",
        """\
        def fn(x):
            return x * 3 if torch.is_inference_mode_enabled() else x * 2

        def program(phase):
            with torch.inference_mode(phase == "load"):
                y = torch.compile(fn)(torch.ones(4))
            yield "call", [y.clone(), y.is_inference()]
        """,
    ),
    change(
        "autocast",
        "crash",
        """\
        def fn(x):
            return x @ x

        def program(phase):
            with torch.autocast("cpu", torch.bfloat16, enabled=phase == "load"):
                yield "call", torch.compile(fn)(torch.ones(4, 4))
        """,
    ),
    change(
        "autocast dtype",
        "crash",
        """\
        def fn(x):
            return x @ x

        def program(phase):
            dtype = torch.bfloat16 if phase == "save" else torch.float16
            with torch.autocast("cpu", dtype):
                yield "call", torch.compile(fn)(torch.ones(4, 4))
        """,
    ),
    change(
        "default dtype",
        "crash",
        """\
        def fn(x):
            return x * 2 if torch.get_default_dtype() == torch.float32 else x * 3

        def program(phase):
            torch.set_default_dtype(torch.float32 if phase == "save" else torch.float64)
            try:
                yield "call", torch.compile(fn)(torch.ones(4, dtype=torch.float32))
            finally:
                torch.set_default_dtype(torch.float32)
        """,
    ),
    change(
        "default device",
        "wrong",
        """\
        def fn(x):
            return torch.ones(4)

        def program(phase):
            torch.set_default_device("cpu" if phase == "save" else "meta")
            try:
                y = torch.compile(fn)(torch.ones(4, device="cpu"))
                yield "call", str(y.device)
            finally:
                torch.set_default_device(None)
        """,
    ),
    change(
        "deterministic algorithms",
        "crash",
        """\
        def fn(x):
            return x * 3 if torch.are_deterministic_algorithms_enabled() else x * 2

        def program(phase):
            torch.use_deterministic_algorithms(phase == "load")
            try:
                yield "call", torch.compile(fn)(torch.ones(4))
            finally:
                torch.use_deterministic_algorithms(False)
        """,
    ),
    change(
        "number argument",
        "crash",
        """\
        def fn(x, k):
            return x * k

        def program(phase):
            yield "call", torch.compile(fn)(torch.ones(4), {"save": 2, "load": 3}[phase])
        """,
    ),
    change(
        "optional argument",
        "crash",
        """\
        def fn(x, y=None):
            return x * 2 if y is None else x + y

        def program(phase):
            x = torch.ones(4)
            yield "call", torch.compile(fn)(*([x] if phase == "save" else [x, x]))
        """,
    ),
    change(
        "length of a list",
        "crash",
        """\
        def fn(x, ks):
            for k in ks:
                x = x * k
            return x

        def program(phase):
            ks = [2] if phase == "save" else [2, 2]
            yield "call", torch.compile(fn)(torch.ones(4), ks)
        """,
    ),
    change(
        "order of dict keys",
        "crash",
        """\
        def fn(x, ks):
            first = next(iter(ks))
            return x * 2 if first == 'a' else x * 3

        def program(phase):
            ks = {"a": 1, "b": 2} if phase == "save" else {"b": 2, "a": 1}
            yield "call", torch.compile(fn)(torch.ones(4), ks)
        """,
    ),
    change(
        "type of an argument",
        "crash",
        """\
        class Config:
            k = 2

        class Other(Config):
            k = 3

        def fn(x, config):
            return x * config.k

        def program(phase):
            config = Config() if phase == "save" else Other()
            yield "call", torch.compile(fn)(torch.ones(4), config)
        """,
    ),
    change(
        "function argument",
        "wrong",
        """\
        def two(x):
            return x * 2

        def three(x):
            return x * 3

        def fn(x, f):
            return f(x)

        def program(phase):
            f = two if phase == "save" else three
            yield "call", torch.compile(fn)(torch.ones(4), f)
        """,
    ),
    change(
        "field of a dataclass",
        "crash",
        """\
        import dataclasses

        @dataclasses.dataclass
        class Config:
            k: int

        def fn(x, config):
            return x * config.k

        def program(phase):
            config = Config(2 if phase == "save" else 3)
            yield "call", torch.compile(fn)(torch.ones(4), config)
        """,
    ),
    change(
        "environment variable",
        "wrong",
        """\
        import os

        def fn(x):
            return x * 3 if os.environ.get('SCENARIO') == 'load' else x * 2

        def program(phase):
            os.environ['SCENARIO'] = phase
            yield "call", torch.compile(fn)(torch.ones(4))
        """,
    ),
]

TABLE = [*EDITS, *CHANGES]
NAMES = [pytest.param(s, id=s.name) for s in TABLE]


@pytest.mark.parametrize("scenario", NAMES)
def test_the_answer_is_right(run_table: Any, scenario: Scenario) -> None:
    outcome = run_table(TABLE, "hotstart")[scenario.name]
    assert outcome.save.correct, outcome
    assert outcome.load.correct, outcome


@pytest.mark.slow
@pytest.mark.parametrize("scenario", NAMES)
def test_the_scenario_is_sound(run_table: Any, scenario: Scenario) -> None:
    """Without packages everything is compiled, in both processes, and right."""
    outcome = run_table(TABLE, "plain")[scenario.name]
    assert outcome.verdict == "miss", outcome
    assert outcome.save.frames["call"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("scenario", NAMES)
def test_what_torch_does(run_table: Any, scenario: Scenario) -> None:
    outcome = run_table(TABLE, "torch")[scenario.name]
    assert outcome.verdict == scenario.torch, outcome
