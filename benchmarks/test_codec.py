"""How fast code objects are written and read: hotstart, CPython's marshal, and torch's own way.

Run with ``make bench-codec``. All three get the same list of code objects, those of the functions
of some modules of the standard library and of torch. The contenders take turns, so that a busy
machine slows all alike; a figure is the median over the rounds, a ratio the median of the rounds'
ratios. torch's own is SerializedCode with pickle, its cache emptied before each turn.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import marshal
import os
import pickle
import random
import statistics
import time
import types
from collections.abc import Callable, Iterator

import pytest

from hotstart._core import Decoder, Encoder, dumps, loads

package = pytest.importorskip("torch._dynamo.package")
SerializedCode = package.SerializedCode

MODULES = """
argparse ast asyncio.base_events dataclasses inspect json.decoder logging subprocess
torch.nn.modules.activation torch.nn.modules.module torch.nn.modules.rnn
torch.nn.modules.transformer torch.optim.adam torch.optim.optimizer torch._tensor
""".split()  # noqa: SIM905
ROUNDS = int(os.environ.get("HOTSTART_BENCH_ROUNDS", "41"))
# How much slower than marshal, and how much faster than torch, hotstart has to be (write, read).
SLOWEST = {"write": 1.2, "read": 1.0}
FASTER_THAN_TORCH = 5.0
# A busy machine never measures the same twice: what fails here is missed by more than that.
NOISE = 1.25

Contender = Callable[[], object]


def functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    for value in vars(module).values():
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            yield from filter(inspect.isfunction, vars(value).values())


@pytest.fixture(scope="module")
def codes() -> Iterator[list[types.CodeType]]:
    found = [f.__code__ for name in MODULES for f in functions(importlib.import_module(name))]
    gc.collect()
    gc.freeze()  # what torch brings along is no part of anybody's turn
    yield list(dict.fromkeys(found))
    gc.unfreeze()


def torch_write(codes: list[types.CodeType]) -> bytes:
    return pickle.dumps([SerializedCode.from_code_object(code) for code in codes])


def torch_read(data: bytes) -> list[types.CodeType]:
    return [SerializedCode.to_code_object(code) for code in pickle.loads(data)]


def writers(codes: list[types.CodeType]) -> dict[str, dict[str, Contender]]:
    def shared(streams: list[object]) -> list[bytes]:
        encoder = Encoder()
        return [*map(encoder.encode, streams), encoder.string_table()]

    return {
        "a whole file": {
            "hotstart": lambda: shared([codes]),
            "marshal": lambda: marshal.dumps(codes),
            "torch": lambda: torch_write(codes),
        },
        "one at a time": {
            "hotstart": lambda: shared([*codes]),
            "marshal": lambda: [marshal.dumps(code) for code in codes],
            "torch": lambda: [torch_write([code]) for code in codes],
        },
        "one at a time, no shared table": {
            "hotstart": lambda: [dumps(code) for code in codes],
            "marshal": lambda: [marshal.dumps(code) for code in codes],
            "torch": lambda: [torch_write([code]) for code in codes],
        },
    }


def readers(codes: list[types.CodeType]) -> dict[str, dict[str, Contender]]:
    whole, each = Encoder(), Encoder()
    stream, streams = whole.encode(codes), [each.encode(code) for code in codes]
    whole_table, each_table = whole.string_table(), each.string_table()
    alone = [dumps(code) for code in codes]
    marshalled, all_marshalled = [marshal.dumps(code) for code in codes], marshal.dumps(codes)
    pickled, all_pickled = [torch_write([code]) for code in codes], torch_write(codes)
    marshal_each = {
        "marshal": lambda: [marshal.loads(data) for data in marshalled],
        "torch": lambda: [code for data in pickled for code in torch_read(data)],
    }
    return {
        "a whole file": {
            "hotstart": lambda: Decoder(whole_table).decode(stream),
            "marshal": lambda: marshal.loads(all_marshalled),
            "torch": lambda: torch_read(all_pickled),
        },
        "one at a time": {
            "hotstart": lambda: [*map(Decoder(each_table).decode, streams)],
            **marshal_each,
        },
        "one at a time, no shared table": {
            "hotstart": lambda: [loads(data) for data in alone],
            **marshal_each,
        },
    }


def one_turn(run: Contender) -> float:
    package._CODE_CACHE.clear()
    start = time.perf_counter()
    result = run()
    gc.collect(0)  # charge everyone for the objects it leaves to the garbage collector
    took = time.perf_counter() - start
    del result
    return took


def measure(contenders: dict[str, Contender]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    shuffle = random.Random(1).shuffle
    for _ in range(ROUNDS):
        shuffle(order)  # whoever follows torch finds the processor's caches cold
        for name in order:
            times[name].append(one_turn(contenders[name]))
    return times


def ratio(times: dict[str, list[float]], above: str, below: str) -> float:
    return statistics.median(a / b for a, b in zip(times[above], times[below], strict=True))


@pytest.mark.parametrize("direction", ["write", "read"])
def test_codec(codes: list[types.CodeType], direction: str, capsys: pytest.CaptureFixture) -> None:
    ways = (writers if direction == "write" else readers)(codes)
    if direction == "read":
        assert all(list(run()) == codes for way in ways.values() for run in way.values())
    lines, missed = [], []
    for way, contenders in ways.items():
        times = measure(contenders)
        each = {name: statistics.median(t) / len(codes) * 1e6 for name, t in times.items()}
        slower, faster = ratio(times, "hotstart", "marshal"), ratio(times, "torch", "hotstart")
        lines.append(
            f"{direction:5} {way:30} {each['hotstart']:8.2f} {each['marshal']:8.2f}"
            f" {each['torch']:8.2f} {slower:10.2f} {faster:10.1f}"
        )
        if way != "one at a time, no shared table":
            if slower > SLOWEST[direction] * NOISE:
                missed.append(f"{direction} {way}: {slower:.2f} times marshal's time")
            if faster < FASTER_THAN_TORCH / NOISE:
                missed.append(f"{direction} {way}: only {faster:.1f} times faster than torch")
    with capsys.disabled():
        print(f"\n{len(codes)} code objects, median of {ROUNDS} rounds, microseconds for each")
        print(f"{'':36} hotstart  marshal    torch  x marshal   torch/us", *lines, sep="\n")
    assert not missed


def test_sizes(codes: list[types.CodeType], capsys: pytest.CaptureFixture) -> None:
    encoder = Encoder()
    ours = len(encoder.encode(codes)) + len(encoder.string_table())
    with capsys.disabled():
        print(
            f"\nbytes for the whole file: hotstart {ours},"
            f" marshal {len(marshal.dumps(codes))}, torch {len(torch_write(codes))}"
        )
    assert ours < len(torch_write(codes))
