"""What guards are about: for each case a function, the calls it was compiled for, and other calls
that the compiled variants must take (``hits``) and must refuse (``misses``).

Every process builds its arguments anew, so nothing here is the same object in the process that
compiles and in the one that loads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import itertools
import math
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.precompile_context import EagerCacheArtifact, PrecompileContext
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor


@dataclasses.dataclass
class Call:
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    within: contextlib.AbstractContextManager[Any] = dataclasses.field(
        default_factory=contextlib.nullcontext
    )


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


def within(context: contextlib.AbstractContextManager[Any], *args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs, context)


Make = Callable[[], Call]


@dataclasses.dataclass(frozen=True)
class Case:
    """``fn()`` makes the function; it runs in the process that compiles and in the one that loads.

    ``refused`` is part of the reason for which it is not saved at all.
    """

    name: str
    fn: Callable[[], Callable[..., Any]]
    saved: tuple[Make, ...]
    hits: dict[str, Make] = dataclasses.field(default_factory=dict)
    misses: dict[str, Make] = dataclasses.field(default_factory=dict)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    refused: str | None = None


CASES: list[Case] = []


def kept_eager(graph: Any, _: Any) -> Any:
    """A backend that runs the graph as it is, and keeps it for the package."""
    backend_id = getattr(graph, "_backend_id", None)  # None where nothing will be saved
    if backend_id is not None:
        PrecompileContext.record_artifact(EagerCacheArtifact(backend_id, graph))
    return graph


def case(
    name: str,
    fn: Callable[..., Any],
    *saved: Make,
    hits: dict[str, Make] | None = None,
    misses: dict[str, Make] | None = None,
    made: bool = False,
    refused: str | None = None,
    **options: Any,
) -> None:
    """``made`` says that ``fn`` makes the function rather than being it."""
    make = fn if made else lambda: fn
    CASES.append(Case(name, make, saved, hits or {}, misses or {}, options, refused))


def x(size: int = 4) -> torch.Tensor:
    return torch.arange(float(size))


@contextlib.contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """``owner.name`` is ``value``, or the entry of a dict; and afterwards what it was."""
    held = owner if isinstance(owner, dict) else vars(owner)
    missing = object()
    before = held.get(name, missing)
    put = owner.__setitem__ if isinstance(owner, dict) else lambda n, v: setattr(owner, n, v)
    take = owner.__delitem__ if isinstance(owner, dict) else lambda n: delattr(owner, n)
    put(name, value)
    try:
        yield
    finally:
        if before is missing:
            take(name)
        else:
            put(name, before)


@contextlib.contextmanager
def without(owner: Any, name: str) -> Iterator[None]:
    before = vars(owner)[name]
    delattr(owner, name)
    try:
        yield
    finally:
        setattr(owner, name, before)


# Values of Python that arrive as arguments.


def of_dict(t: Any, d: Any) -> Any:
    return t * d["a"] + d["b"]["c"] + len(d)


case(
    "dict",
    of_dict,
    lambda: call(x(), {"a": 2, "b": {"c": 3}}),
    hits={"equal": lambda: call(x(), {"a": 2, "b": {"c": 3}})},
    misses={
        "value": lambda: call(x(), {"a": 3, "b": {"c": 3}}),
        "type": lambda: call(x(), {"a": True, "b": {"c": 3}}),
        "inner value": lambda: call(x(), {"a": 2, "b": {"c": 4}}),
        "one more": lambda: call(x(), {"a": 2, "b": {"c": 3}, "d": 1}),
        "ordered": lambda: call(x(), OrderedDict(a=2, b={"c": 3})),
        "dtype": lambda: call(x().double(), {"a": 2, "b": {"c": 3}}),
    },
)


def of_items(t: Any, d: Any) -> Any:
    for key, value in d.items():
        t = t * value + len(key)
    return t


case(
    "dict items",
    of_items,
    lambda: call(x(), {"a": 2, "bb": 3}),
    hits={"equal": lambda: call(x(), {"a": 2, "bb": 3})},
    misses={
        "order": lambda: call(x(), {"bb": 3, "a": 2}),
        "key": lambda: call(x(), {"a": 2, "bbb": 3}),
        "value": lambda: call(x(), {"a": 2, "bb": 4}),
        "fewer": lambda: call(x(), {"a": 2}),
    },
)
case(
    "ordered dict",
    of_items,
    lambda: call(x(), OrderedDict([("a", 2), ("bb", 3)])),
    hits={"equal": lambda: call(x(), OrderedDict([("a", 2), ("bb", 3)]))},
    misses={
        "plain": lambda: call(x(), {"a": 2, "bb": 3}),
        "order": lambda: call(x(), OrderedDict([("bb", 3), ("a", 2)])),
    },
)
case(
    "default dict",
    of_items,
    lambda: call(x(), defaultdict(int, {"a": 2, "bb": 3})),
    hits={"equal": lambda: call(x(), defaultdict(int, {"a": 2, "bb": 3}))},
    misses={"plain": lambda: call(x(), {"a": 2, "bb": 3})},
)
case(
    "dict of numbers and tensors",
    lambda t, d: t + d[1] + d[2.5] + d[(1, "a")],
    lambda: call(x(), {1: x(), 2.5: 3, (1, "a"): 4}),
    hits={"other tensor": lambda: call(x(), {1: x() * 2, 2.5: 3, (1, "a"): 4})},
    misses={
        "shape of the tensor": lambda: call(x(), {1: x(1), 2.5: 3, (1, "a"): 4}),
        "value": lambda: call(x(), {1: x(), 2.5: 3, (1, "a"): 5}),
    },
)


def of_sequence(t: Any, items: Any) -> Any:
    for item in items:
        t = t * item
    return t + len(items)


case(
    "list",
    of_sequence,
    lambda: call(x(), [2, 3]),
    hits={"equal": lambda: call(x(), [2, 3])},
    misses={
        "value": lambda: call(x(), [2, 4]),
        "order": lambda: call(x(), [3, 2]),
        "longer": lambda: call(x(), [2, 3, 1]),
        "empty": lambda: call(x(), []),
        "tuple": lambda: call(x(), (2, 3)),
        "type of an item": lambda: call(x(), [2, 3.0]),
    },
)
case(
    "tuple",
    of_sequence,
    lambda: call(x(), (2, (3))),
    hits={"equal": lambda: call(x(), (2, 3))},
    misses={
        "value": lambda: call(x(), (2, 4)),
        "longer": lambda: call(x(), (2, 3, 4)),
        "list": lambda: call(x(), [2, 3]),
    },
)
case(
    "deque",
    of_sequence,
    lambda: call(x(), deque([2, 3])),
    hits={"equal": lambda: call(x(), deque([2, 3]))},
    misses={"value": lambda: call(x(), deque([2, 4])), "list": lambda: call(x(), [2, 3])},
)


def of_set(t: Any, items: Any) -> Any:
    return t + 1 if "a" in items else t - 1


case(
    "set",
    of_set,
    lambda: call(x(), {"a", "b"}),
    hits={"equal": lambda: call(x(), {"b", "a"})},
    misses={
        "lacks it": lambda: call(x(), {"c", "b"}),
        "empty": lambda: call(x(), set()),
        "frozen": lambda: call(x(), frozenset({"a", "b"})),
    },
)
case(
    "frozenset",
    of_set,
    lambda: call(x(), frozenset({"a", "b"})),
    hits={"equal": lambda: call(x(), frozenset({"b", "a"}))},
    misses={
        "lacks it": lambda: call(x(), frozenset({"c", "b"})),
        "set": lambda: call(x(), {"a", "b"}),
    },
)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


case(
    "enum",
    lambda t, c: t + 1 if c is Colour.RED else t - 1,
    lambda: call(x(), Colour.RED),
    hits={"equal": lambda: call(x(), Colour(1))},
    misses={"other": lambda: call(x(), Colour.BLUE), "its value": lambda: call(x(), 1)},
)
case(
    "int enum",
    lambda t, c: t + (1 if c == Size.SMALL else 2),
    lambda: call(x(), Size.SMALL),
    hits={"equal": lambda: call(x(), Size(1))},
    misses={"other": lambda: call(x(), Size.LARGE), "its value": lambda: call(x(), 1)},
)
case(
    "flag enum",
    lambda t, c: t + (1 if c == Flags.A else 2),
    lambda: call(x(), Flags.A),
    misses={"other": lambda: call(x(), Flags.B)},
)


def of_none(t: Any, n: Any) -> Any:
    return t + 1 if n is None else t + n


case(
    "none",
    of_none,
    lambda: call(x(), None),
    misses={"a number": lambda: call(x(), 3), "a tensor": lambda: call(x(), x())},
)


def of_value(t: Any, n: Any) -> Any:
    return t + (1 if n else 2) + (3 if n == 2 else 4)


case(
    "bool",
    of_value,
    lambda: call(x(), True),
    misses={"false": lambda: call(x(), False), "one": lambda: call(x(), 1)},
)
case(
    "int",
    of_value,
    lambda: call(x(), 2),
    hits={"equal": lambda: call(x(), int("2"))},
    misses={
        "other": lambda: call(x(), 3),
        "float": lambda: call(x(), 2.0),
        "bool": lambda: call(x(), True),
        "large": lambda: call(x(), 2**80),
    },
    dynamic=False,
)
case(
    "large int",
    lambda t, n: t + 1 if n > 2**70 else t,
    lambda: call(x(), 2**80),
    misses={"other": lambda: call(x(), 2**80 + 1), "small": lambda: call(x(), 2)},
    dynamic=False,
)
case(
    "str",
    lambda t, s: t + len(s),
    lambda: call(x(), "añb"),
    hits={"equal": lambda: call(x(), "".join(["a", "ñ", "b"]))},
    misses={"other": lambda: call(x(), "añc"), "bytes": lambda: call(x(), b"abc")},
)
case(
    "bytes",
    lambda t, s: t + len(s),
    lambda: call(x(), b"a\x00b"),
    misses={"other": lambda: call(x(), b"a\x00c"), "str": lambda: call(x(), "abc")},
)
case(
    "float",
    lambda t, f: t + (1 if f > 0.5 else 2),
    lambda: call(x(), 0.75),
    hits={"equal": lambda: call(x(), 3 / 4)},
    misses={
        "other": lambda: call(x(), 0.25),
        "next": lambda: call(x(), math.nextafter(0.75, 1)),
        "nan": lambda: call(x(), math.nan),
        "int": lambda: call(x(), 1),
    },
    dynamic=False,
)
ANOTHER_NAN = {"another nan": lambda: call(x(), -float("nan"))}
# From 2.15 on, a NaN is guarded bit by bit.
NAN_IS_BITWISE = not torch.__version__.startswith(("2.13", "2.14"))
case(
    "nan",
    lambda t, f: t + (1 if f == f else 2),
    lambda: call(x(), math.nan),
    hits={} if NAN_IS_BITWISE else ANOTHER_NAN,
    misses={
        "a number": lambda: call(x(), 0.5),
        "inf": lambda: call(x(), math.inf),
        **(ANOTHER_NAN if NAN_IS_BITWISE else {}),
    },
    dynamic=False,
)
case(
    "complex nan",
    lambda t, f: t + (1 if f == f else 2),
    lambda: call(x(), complex(math.nan, 0)),
    misses={"a number": lambda: call(x(), 1j)},
    dynamic=False,
)
case(
    "complex",
    lambda t, f: t + f,
    lambda: call(x(), 1 + 2j),
    misses={"other": lambda: call(x(), 1 + 3j)},
    dynamic=False,
)
case(
    "inf",
    lambda t, f: t + (1 if f > 5 else 2),
    lambda: call(x(), math.inf),
    misses={"minus": lambda: call(x(), -math.inf), "large": lambda: call(x(), 1e300)},
    dynamic=False,
)


def of_range(t: Any, r: Any) -> Any:
    for i in r:
        t = t * (i + 1)
    return t


case(
    "range",
    of_range,
    lambda: call(x(), range(1, 4)),
    hits={"equal": lambda: call(x(), range(1, 4))},
    misses={"stop": lambda: call(x(), range(1, 5)), "step": lambda: call(x(), range(1, 4, 2))},
)


def _advanced(iterator: Iterator[Any]) -> Iterator[Any]:
    next(iterator)
    return iterator


case(
    "range iterator",
    of_range,
    lambda: call(x(), iter(range(1, 4))),
    hits={"equal": lambda: call(x(), iter(range(1, 4)))},
    misses={
        "advanced": lambda: call(x(), _advanced(iter(range(1, 4)))),
        "longer": lambda: call(x(), iter(range(1, 5))),
        "a range": lambda: call(x(), range(1, 4)),
    },
)
case(
    "tuple iterator",
    of_range,
    lambda: call(x(), iter((1, 2))),
    hits={"equal": lambda: call(x(), iter((1, 2)))},
    misses={
        "advanced": lambda: call(x(), _advanced(iter((1, 2)))),
        "value": lambda: call(x(), iter((1, 3))),
    },
)
case(
    "slice",
    lambda t, s: t[s],
    lambda: call(x(), slice(0, 3)),
    hits={"equal": lambda: call(x(), slice(0, 3))},
    misses={"stop": lambda: call(x(), slice(0, 2)), "step": lambda: call(x(), slice(0, 3, 2))},
    dynamic=False,
)


@dataclasses.dataclass
class Options:
    scale: int = 2
    name: str = "a"


case(
    "data class",
    lambda t, o: t * o.scale + len(o.name),
    lambda: call(x(), Options()),
    hits={"another": lambda: call(x(), Options())},
    misses={"field": lambda: call(x(), Options(3)), "other": lambda: call(x(), Options(2, "bb"))},
)
case(
    "class as an argument",
    lambda t, c: t + (1 if c is Options else 2),
    lambda: call(x(), Options),
    misses={"other": lambda: call(x(), Colour), "its object": lambda: call(x(), Options())},
)


# What a function brings along.


def of_default(t: Any, n: Any = 2, *, m: Any = 3) -> Any:
    return t * n + m


case(
    "defaults and keyword defaults",
    of_default,
    lambda: call(x()),
    hits={"given": lambda: call(x(), 2, m=3)},
    misses={
        "argument": lambda: call(x(), 5),
        "keyword": lambda: call(x(), m=7),
        "defaults": lambda: within(_attribute(of_default, "__defaults__", (4,)), x()),
        "keyword defaults": lambda: within(_attribute(of_default, "__kwdefaults__", {"m": 4}), x()),
    },
    dynamic=False,
)


@contextlib.contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _inner(t: Any, n: Any = 2, *, m: Any = 3) -> Any:
    return t * n + m


def calls_inner(t: Any) -> Any:
    return _inner(t)


case(
    "defaults of a function called",
    calls_inner,
    lambda: call(x()),
    misses={
        "defaults": lambda: within(_attribute(_inner, "__defaults__", (5,)), x()),
        "keyword defaults": lambda: within(_attribute(_inner, "__kwdefaults__", {"m": 9}), x()),
        "redefined": lambda: within(changed(globals(), "_inner", lambda t: t - 1), x()),
        "code": lambda: within(_attribute(_inner, "__code__", (lambda t, n, m=1: t).__code__), x()),
    },
)

CELLS: dict[str, Any] = {}


def make_closure() -> Any:
    n, shift = 2, torch.ones(4)

    def closed(t: Any) -> Any:
        return t * n + shift

    CELLS["n"], CELLS["shift"] = closed.__closure__ or (None, None)
    return closed


case(
    "closure",
    make_closure,
    lambda: call(x()),
    hits={
        "other tensor": lambda: within(_attribute(CELLS["shift"], "cell_contents", x() * 5), x())
    },
    misses={
        "number": lambda: within(_attribute(CELLS["n"], "cell_contents", 3), x()),
        "dtype": lambda: within(_attribute(CELLS["shift"], "cell_contents", x().half()), x()),
    },
    made=True,
)

SCALE = 2
TABLE = {"a": [1, 2], "b": {"c": 3}}


def of_globals(t: Any) -> Any:
    return t * SCALE + TABLE["a"][1] + TABLE["b"]["c"]


case(
    "globals",
    of_globals,
    lambda: call(x()),
    hits={"equal": lambda: within(changed(globals(), "TABLE", {"a": [1, 2], "b": {"c": 3}}), x())},
    misses={
        "number": lambda: within(changed(globals(), "SCALE", 3), x()),
        "inside": lambda: within(changed(TABLE, "b", {"c": 4}), x()),
        "type": lambda: within(changed(globals(), "SCALE", 2.0), x()),
    },
)


def of_builtins(t: Any, d: Any) -> Any:
    return t + len(d) + max(d) + torch.sin(t).sum()


case(
    "functions of torch and builtins",
    of_builtins,
    lambda: call(x(), [1, 2]),
    misses={
        "torch changed": lambda: within(_attribute(torch, "sin", torch.cos), x(), [1, 2]),
    },
)


class Callme:
    scale = 2

    def __init__(self) -> None:
        self.shift = 1

    def __call__(self, t: Any) -> Any:
        return t * self.scale + self.shift


def of_object(t: Any, o: Any) -> Any:
    return o(t)


class Derived(Callme):
    pass


def _with(value: Any, **attributes: Any) -> Any:
    for name, attribute in attributes.items():
        setattr(value, name, attribute)
    return value


case(
    "object with attributes",
    of_object,
    lambda: call(x(), Callme()),
    hits={"another": lambda: call(x(), Callme())},
    misses={
        "attribute": lambda: call(x(), _with(Callme(), shift=5)),
        "hides the class's": lambda: call(x(), _with(Callme(), scale=5)),
        "class attribute": lambda: within(_attribute(Callme, "scale", 3), x(), Callme()),
        "derived": lambda: call(x(), Derived()),
        "method": lambda: within(_attribute(Callme, "__call__", lambda s, t: t), x(), Callme()),
    },
)

HELD: dict[str, Any] = {}


class Held:
    """What can be referred to weakly."""


def _weak(alive: bool) -> Any:
    held = Held()
    HELD["it"] = held if alive else None
    return weakref.ref(held)


case(
    "weak reference",
    lambda t, r: t + 1 if r() is not None else t - 1,
    lambda: call(x(), _weak(True)),
    misses={"dead": lambda: call(x(), _weak(False)), "none": lambda: call(x(), lambda: None)},
)


# Modules.


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lin = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.scale = 2

    def forward(self, t: Any) -> Any:
        if hasattr(self, "extra"):
            t = t + self.extra
        return self.norm(self.lin(t[None].expand(2, -1))) * self.scale


def of_module(t: Any, m: Any) -> Any:
    return m(t)


def _without_scale() -> Any:
    net = Net().eval()
    net.lin.register_parameter("bias", None)
    return net


case(
    "module",
    of_module,
    lambda: call(x(), Net().eval()),
    hits={"created twice": lambda: call(x(), Net().eval())},
    misses={
        "train": lambda: call(x(), Net()),
        "attribute added": lambda: call(x(), _with(Net().eval(), extra=1)),
        "attribute changed": lambda: call(x(), _with(Net().eval(), scale=1)),
        "parameter removed": lambda: call(x(), _without_scale()),
        "frozen": lambda: call(x(), Net().eval().requires_grad_(False)),
        "double": lambda: call(x().double(), Net().eval().double()),
        "child trains": lambda: call(x(), _with(Net().eval(), norm=torch.nn.BatchNorm1d(4))),
    },
)


def _hooked(register: str, hook: Any, child: str | None = None) -> Any:
    net = Net().eval()
    getattr(getattr(net, child) if child else net, register)(hook)
    return net


case(
    "hooks",
    of_module,
    lambda: call(x(), Net().eval()),
    hits={"none": lambda: call(x(), Net().eval())},
    misses={
        "forward": lambda: call(x(), _hooked("register_forward_hook", lambda m, a, o: o + 1)),
        "of a child": lambda: call(
            x(), _hooked("register_forward_hook", lambda m, a, o: o + 1, "lin")
        ),
        "before": lambda: call(x(), _hooked("register_forward_pre_hook", lambda m, a: (a[0] + 1,))),
    },
)


class Sequence(torch.nn.Module):
    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)
        self.by_name = torch.nn.ModuleDict({"relu": torch.nn.ReLU()})
        self.register_buffer("shift", torch.ones(4))

    def forward(self, t: Any) -> Any:
        for layer in self.layers:
            t = layer(t)
        return self.by_name["relu"](t) + self.shift


def _layers(*kinds: Any) -> Any:
    torch.manual_seed(0)
    return Sequence(*(kind(4, 4) for kind in kinds))


Linear = torch.nn.Linear


class Bilinear(torch.nn.Linear):
    def forward(self, t: Any) -> Any:
        return super().forward(t) + 1


case(
    "list and dict of modules",
    of_module,
    lambda: call(x(), _layers(Linear, Linear)),
    hits={"another": lambda: call(x(), _layers(Linear, Linear))},
    misses={
        "longer": lambda: call(x(), _layers(Linear, Linear, Linear)),
        "another class": lambda: call(x(), _layers(Linear, Bilinear)),
        "buffer": lambda: call(x(), _with(_layers(Linear, Linear), shift=torch.ones(1))),
    },
)


def make_net() -> Any:
    return Net().eval()


case(
    "compiled module",
    make_net,
    lambda: call(x()),
    hits={"other values": lambda: call(x() * 3)},
    misses={"dimensions": lambda: call(x().reshape(1, 1, 4))},
    made=True,
)


class Decorated:
    """Its method has an object in its closure that is known by its place only."""


def _decorate(held: Any) -> Any:
    def method(_: Decorated, t: Any) -> Any:
        return t * held.scale + held.shift

    return method


def _scaling(scale: int) -> Any:
    class Local:
        shift = 1

        def __init__(self) -> None:
            self.scale = scale

    return Local()


Decorated.method = _decorate(_scaling(2))  # type: ignore[attr-defined]
case(
    "object behind a decorated method",
    lambda t, o: o.method(t),
    lambda: call(x(), Decorated()),
    hits={"another": lambda: call(x(), Decorated())},
    misses={
        "decorated anew": lambda: within(
            _attribute(Decorated, "method", _decorate(_scaling(3))), x(), Decorated()
        ),
    },
)


# Tensors.

case(
    "tensor",
    lambda t: t + 1,
    lambda: call(x()),
    hits={"other values": lambda: call(x() * 7)},
    misses={
        "dtype": lambda: call(x().double()),
        "size": lambda: call(x(5)),
        "dimensions": lambda: call(x()[None]),
        "stride": lambda: call(x(8)[::2]),
        "requires grad": lambda: call(x().requires_grad_()),
        "parameter": lambda: call(torch.nn.Parameter(x(), requires_grad=False)),
        "device": lambda: call(x().to("meta")),
    },
    dynamic=False,
)


def of_two(t: Any, u: Any) -> Any:
    return t + u * 2 if t is u else t * u


def _same() -> Call:
    value = x()
    return call(value, value)


case(
    "the same tensor twice",
    of_two,
    _same,
    hits={"another, twice": _same},
    misses={"two": lambda: call(x(), x())},
)
case(
    "two tensors",
    of_two,
    lambda: call(x(), x()),
    hits={"others": lambda: call(x() + 1, x() + 2)},
    misses={"one twice": _same},
)


def writes(t: Any, u: Any) -> Any:
    t.add_(1)
    return t + u


def _overlapping(first: int, second: int) -> Call:
    base = x(12)
    return call(base[first : first + 4], base[second : second + 4])


case(
    "overlapping inputs",
    writes,
    lambda: _overlapping(0, 2),
    hits={"the same overlap": lambda: _overlapping(0, 2)},
    misses={"apart": lambda: _overlapping(0, 4)},
    backend="inductor",
    dynamic=True,
)
case(
    "inputs that share storage, apart",
    writes,
    lambda: _overlapping(0, 6),
    hits={"the same": lambda: _overlapping(0, 6)},
    misses={"overlapping": lambda: _overlapping(0, 2)},
    backend="inductor",
    dynamic=True,
)


def _marked(size: int, **bounds: int) -> torch.Tensor:
    value = x(size)
    torch._dynamo.mark_dynamic(value, 0, **bounds)
    return value


case(
    "dynamic shape, marked",
    lambda t: t * t.shape[0],
    lambda: call(_marked(6)),
    hits={"other size": lambda: call(_marked(9)), "not marked": lambda: call(x(11))},
    misses={"one": lambda: call(x(1)), "dimensions": lambda: call(x(6)[None])},
)
case(
    "dynamic shape, bounded",
    lambda t: t * t.shape[0],
    lambda: call(_marked(6, min=4, max=10)),
    hits={"lowest": lambda: call(_marked(4, min=4, max=10))},
    misses={"too small": lambda: call(x(3)), "too large": lambda: call(x(11))},
)
case(
    "dynamic shape, automatic",
    lambda t: t + t.shape[0],
    lambda: call(x(4)),
    lambda: call(x(6)),
    hits={"first": lambda: call(x(4)), "other size": lambda: call(x(17))},
    misses={"dtype": lambda: call(x(17).double())},
)
case(
    "dynamic shape, with conditions",
    lambda t, u: t + u[: t.shape[0]] if t.shape[0] * 2 <= u.shape[0] else t * 2,
    lambda: call(x(4), x(9)),
    hits={"fits": lambda: call(x(5), x(10))},
    misses={"does not fit": lambda: call(x(5), x(9))},
    dynamic=True,
)
case(
    "dynamic number",
    lambda t, n: t * n,
    lambda: call(x(), 5),
    lambda: call(x(), 7),
    hits={"other": lambda: call(x(), 11)},
    misses={"type": lambda: call(x(), "a" * 0 or 2.5)},
)
case(
    "sizes that are equal",
    lambda t, u: t + u,
    lambda: call(x(5), x(5)),
    hits={"other size": lambda: call(x(8), x(8))},
    misses={"one broadcasts": lambda: call(x(5), x(1))},
    dynamic=True,
)


def _two(a: torch.Tensor, b: torch.Tensor) -> TwoTensor:
    return TwoTensor(a, b)


case(
    "tensor subclass",
    lambda t: t * 2 + 1,
    lambda: call(_two(x(), x())),
    hits={"other values": lambda: call(_two(x() + 1, x() * 3))},
    misses={
        "plain": lambda: call(x()),
        "dtype inside": lambda: call(_two(x().double(), x().double())),
    },
)


class Labelled(torch.Tensor):
    """A subclass without metadata."""


case(
    "tensor subclass without metadata",
    lambda t: t + 1,
    lambda: call(x().as_subclass(Labelled)),
    hits={"another": lambda: call((x() * 2).as_subclass(Labelled))},
    misses={"plain": lambda: call(x())},
)
case(
    "attribute of a tensor",
    lambda t: t + t.shift,
    lambda: call(_with(x(), shift=2)),
    hits={"equal": lambda: call(_with(x() * 3, shift=2))},
    misses={"other": lambda: call(_with(x(), shift=3))},
)


# Control flow.


def breaks(t: Any, n: Any) -> Any:
    t = t * n
    torch._dynamo.graph_break()
    t = t + n
    torch._dynamo.graph_break()
    return t - SCALE


case(
    "graph breaks and resume functions",
    breaks,
    lambda: call(x(), 3),
    hits={"equal": lambda: call(x() * 2, 3)},
    misses={
        "number": lambda: call(x(), 4),
        "only after the breaks": lambda: within(changed(globals(), "SCALE", 9), x(), 3),
    },
    dynamic=False,
)


def breaks_within(t: Any) -> Any:
    with torch.no_grad():
        t = t + 1
        torch._dynamo.graph_break()
        t = t * 2
    return t + 1


case(
    "graph break in a context",
    breaks_within,
    lambda: call(x()),
    misses={"requires grad": lambda: call(x().requires_grad_())},
    backend="inductor",
)


def of_iteration(t: Any, items: Any) -> Any:
    for a, b in itertools.zip_longest(items, [1], fillvalue=3):
        t = t * a + b
    return t


case(
    "functions of the standard library",
    of_iteration,
    lambda: call(x(), [1, 2]),
    misses={"value": lambda: call(x(), [1, 3])},
)

# State of the thread.


def matmul(t: Any) -> Any:
    return t[None] @ t[:, None]


case(
    "grad mode",
    lambda t: t * 2,
    lambda: call(x()),
    misses={"no grad": lambda: within(torch.no_grad(), x())},
)
case(
    "no grad",
    lambda t: t * 2,
    lambda: within(torch.no_grad(), x()),
    hits={"no grad": lambda: within(torch.no_grad(), x())},
    misses={"grad": lambda: call(x())},
)
case(
    "inference mode",
    lambda t: t * 2,
    lambda: within(torch.inference_mode(), x()),
    hits={"again": lambda: within(torch.inference_mode(), x())},
    misses={"grad": lambda: call(x())},
)
case(
    "autocast",
    matmul,
    lambda: within(torch.autocast("cpu", torch.bfloat16), x()),
    hits={"again": lambda: within(torch.autocast("cpu", torch.bfloat16), x() * 2)},
    misses={
        "outside": lambda: call(x()),
        "dtype": lambda: within(torch.autocast("cpu", torch.float16), x()),
    },
)


@contextlib.contextmanager
def set_to(setter: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(before)


deterministic = torch.use_deterministic_algorithms
case(
    "deterministic algorithms",
    lambda t: t + 1,
    lambda: within(set_to(deterministic, True, False), x()),
    hits={"again": lambda: within(set_to(deterministic, True, False), x())},
    misses={"not": lambda: call(x())},
)
case(
    "default dtype",
    lambda t: t + torch.ones(4),
    lambda: call(x()),
    misses={
        "double": lambda: within(
            set_to(torch.set_default_dtype, torch.float64, torch.float32), torch.arange(4.0)
        )
    },
    backend="inductor",
)
case(
    "default device",
    lambda t: t + torch.ones(4),
    lambda: within(torch.device("cpu"), x()),
    hits={"again": lambda: within(torch.device("cpu"), x())},
    misses={"none": lambda: call(x())},
    backend="inductor",
)


class Mode(TorchFunctionMode):
    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class OtherMode(Mode):
    pass


case(
    "torch function mode",
    lambda t: t + 1,
    lambda: within(Mode(), x()),
    hits={"again": lambda: within(Mode(), x())},
    misses={"none": lambda: call(x()), "another": lambda: within(OtherMode(), x())},
)


def _traced_hooks() -> Any:
    """Hooks that a compile takes into its graphs; others it leaves alone."""
    pack, unpack = (torch.fx.symbolic_trace(fn) for fn in (lambda t: t * 2, lambda t: t / 2))
    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


case(
    "hooks on saved tensors",
    lambda t: (t * t).sum(),
    lambda: call(x().requires_grad_()),
    hits={"none": lambda: call(x().requires_grad_())},
    misses={"in the graph": lambda: within(_traced_hooks(), x().requires_grad_())},
    backend="inductor",
)


# What Dynamo itself does not save.


def make_step() -> Any:
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step() -> Any:
        with torch.no_grad():
            weight.fill_(1)
        weight.grad = torch.ones(4)
        optimizer.step()
        return weight.detach().clone()

    return step


case("optimizer step", make_step, lambda: call(), made=True, refused="known by its address only")

_CASE_NAMES = [c.name for c in CASES]
assert len(set(_CASE_NAMES)) == len(_CASE_NAMES)
