"""Code objects: exact round trips of real ones and of every feature that shapes one."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import itertools
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codec_format import Table, write_code
from codec_samples import MODULES, assert_same, assert_same_code, module_code, nested_codes

from hotstart._core import Decoder, Encoder, dumps, loads, validate
from hotstart.errors import UnsupportedValueError


def again(code: types.CodeType) -> types.CodeType:
    data = dumps(code)
    validate(data)
    return loads(data)


@pytest.mark.parametrize("name", MODULES)
def test_the_standard_library(name: str) -> None:
    whole = module_code(name)
    assert_same_code(whole, again(whole))
    encoder = Encoder()
    codes = list(nested_codes(whole))
    streams = [encoder.encode(code) for code in codes]
    decoder = Decoder(encoder.string_table())
    for code, stream in zip(codes, streams, strict=False):
        assert_same_code(code, decoder.decode(stream))


def live_functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    for value in list(vars(module).values()):
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value):
            yield from filter(inspect.isfunction, list(vars(value).values()))


@pytest.mark.parametrize("name", ["ast", "argparse", "inspect", "json.decoder", "typing"])
def test_functions_that_have_run(name: str) -> None:
    importlib.import_module(name).__dict__  # noqa: B018
    for function in live_functions(importlib.import_module(name)):
        assert_same_code(function.__code__, again(function.__code__))


# -- Every feature that shapes a code object

FEATURES = '''
def positional_only(a, b, /, c, *, d=1, e): ...
def stars(*args, **kwargs): ...
def everything(a, b=1, /, c=2, *args, d, e=3, **kwargs): ...
def cell_arguments(a, /, b, *args, c, **kwargs):
    return lambda: (a, b, args, c, kwargs)
def deep_closure(x):
    def middle(y):
        def inner(z):
            nonlocal x
            x += y
            return x, y, z
        return inner
    return middle
def generator(n):
    for i in range(n):
        got = yield i
    return (yield from generator(n - 1))
async def coroutine(x):
    async with x as y:
        await y
    return [i async for i in x if await i]
async def async_generator(x):
    async for i in x:
        yield i
def comprehensions(xs):
    a = [x for x in xs]; b = {{x: (lambda: x) for x in xs}}; c = {{x for x in xs}}
    return a, b, c, list(y for x in xs for y in x)
def nested_handlers(f):
    try:
        try:
            f()
        except (KeyError, ValueError) as e:
            raise RuntimeError from e
        else:
            f()
    except* OSError if False else RuntimeError:
        pass
    finally:
        with f() as a, f() as b:
            a(b)
def constants():
    return (1, 1.0, True, -0.0, 0.0, 1j, b"x", "x", ..., None, (1, (1.0, True))), 10**40
def membership(x):
    return x in {{"a", "b", 1, None}} and x in {{1.5, b"c", (1, 2)}}
def long_jumps(x):
    while x:
        if x == 1: continue
        {}
        x -= 1
def unpacking(x):
    a, *b, c = x
    return f"{{a!r:>{{c}}}}", [*b], {{**x}}
class Body:
    z = [i for i in range(3)]
    """A docstring."""
    attribute: int = 1
    __slots__ = ("a",)
    def method(self): return __class__, super().__init__
    class Inner:
        def f(self): return self.__private
    values = [(lambda: i) for i in range(3)]
top = [a for a in (1, 2)]
top_lambda = lambda x, /, *y, z=1: (x, y, z)
global_statement = 0
def assigns():
    global global_statement
    global_statement = 1
    del global_statement
def match(x):
    match x:
        case {{"k": [a, *rest], **kw}} if a: return rest, kw
        case Body(attribute=1) | None: return 1
        case _: return x
'''.format("\n        ".join(f"x = x + {i} if x else (x, {i})" for i in range(200)))


def features() -> types.CodeType:
    source = FEATURES
    if sys.version_info < (3, 11):
        source = source.replace("except* OSError if False else RuntimeError", "except OSError")
    else:
        source = source.replace("OSError if False else RuntimeError", "OSError")
    return compile(source, "<features>", "exec")


def test_features() -> None:
    assert_same_code(features(), again(features()))


@pytest.mark.parametrize("code", list(nested_codes(features())), ids=lambda code: code.co_name)
def test_each_feature(code: types.CodeType) -> None:
    assert_same_code(code, again(code))


def test_optimised_and_annotated_code() -> None:
    future = "from __future__ import annotations\ndef f(x: int) -> 'str': 'doc'; assert x"
    for level in (0, 1, 2):
        code = compile(future, "<f>", "exec", optimize=level)
        assert_same_code(code, again(code))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of 3.12")
def test_type_parameters() -> None:
    source = "type A[T: int, *U, **P] = list[T]\ndef f[T](x: T) -> T: ...\nclass C[T]: y: T"
    code = compile(source, "<f>", "exec")
    assert_same_code(code, again(code))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.12 inlines comprehensions")
def test_hidden_locals_stay_hidden() -> None:
    source = "class C:\n  seen = [sorted(locals()) for hidden in (1,)]\n  names = sorted(locals())"
    spaces: list[dict[str, Any]] = [{}, {}]
    code = compile(source, "<f>", "exec")
    exec(code, spaces[0])
    exec(again(code), spaces[1])
    assert spaces[0]["C"].seen == spaces[1]["C"].seen
    assert spaces[0]["C"].names == spaces[1]["C"].names
    assert "hidden" not in spaces[1]["C"].names
    for line in ("x = [y for y in (1, 2)]", "x = [lambda: y for y in (1, 2)]"):
        code = compile(f"{line}\nclass C:\n  {line}", "<f>", "exec")
        assert_same_code(code, again(code))


def test_decoded_code_runs() -> None:
    space: dict[str, Any] = {}
    exec(again(features()), space)
    assert space["cell_arguments"](1, 2, 3, c=4, d=5)() == (1, 2, (3,), 4, {"d": 5})
    assert space["deep_closure"](1)(2)(3) == (3, 2, 3)
    assert list(itertools.islice(space["generator"](2), 3)) == [0, 1, 0]
    assert space["top_lambda"](1, 2) == (1, (2,), 1)
    assert [f() for f in space["comprehensions"](["a"])[1].values()] == ["a"]

    async def run() -> list[int]:
        async def numbers() -> Any:
            yield 1

        return [i async for i in space["async_generator"](numbers())]

    assert asyncio.run(run()) == [1]


def test_a_traceback_of_decoded_code_shows_its_lines() -> None:
    code = again(compile("\n\n\nx = (1 +\n  y)", "<somewhere>", "exec"))
    with pytest.raises(NameError) as caught:
        exec(code, {})
    entry = caught.traceback[-1]
    assert entry.lineno + 1 == 5
    assert str(entry.path) == "<somewhere>"


# -- Code that is running


def busy(n: int) -> int:
    total = 0
    for i in range(n):
        total += len(str(i)) + (i if i % 2 else -i)
        total = max(total, i).real
    return total


def fresh(function: Callable[..., Any]) -> types.CodeType:
    """The same code as its compiler made it."""
    source = textwrap.dedent(inspect.getsource(function))
    padding = "\n" * (function.__code__.co_firstlineno - 1)
    flags = "from __future__ import annotations;"
    module = compile(padding + flags + source, function.__code__.co_filename, "exec")
    return next(c for c in nested_codes(module) if c.co_name == function.__name__)


def test_specialised_code_is_stored_as_it_was_compiled() -> None:
    for _ in range(50):
        busy(100)
    data = dumps(busy.__code__)
    assert data == dumps(busy.__code__.replace())
    assert_same_code(busy.__code__, loads(data))


def test_traced_code_is_stored_as_it_was_compiled() -> None:
    expected = dumps(busy.__code__)
    seen = []

    def trace(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is busy.__code__ and event == "line" and len(seen) < 20:
            seen.append(dumps(frame.f_code))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        busy(20)
    finally:
        sys.settrace(before)
    assert len(seen) == 20
    assert set(seen) == {expected}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_monitored_code_is_stored_as_it_was_compiled() -> None:
    expected = dumps(busy.__code__)
    monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    tool, events = 4, monitoring.events
    monitoring.use_tool_id(tool, "codec test")
    try:
        for event in (events.LINE, events.INSTRUCTION, events.PY_START, events.BRANCH):
            monitoring.register_callback(tool, event, lambda *args: None)
        monitoring.set_local_events(
            tool, busy.__code__, events.LINE | events.INSTRUCTION | events.PY_START
        )
        busy(50)
        assert dumps(busy.__code__) == expected
        assert_same_code(busy.__code__, loads(expected))
    finally:
        monitoring.set_local_events(tool, busy.__code__, 0)
        monitoring.free_tool_id(tool)


# -- Names, numbers, strange but legal code


def test_names_come_out_interned() -> None:
    code = compile("def f(arg_x): global_y.attr_z(arg_x)", "f", "exec").co_consts[0]
    copy = again(code)
    for name in (*copy.co_names, *copy.co_varnames):
        assert name is sys.intern("".join(list(name)))


@pytest.mark.parametrize(
    "changes",
    [
        {"co_firstlineno": 0},
        {"co_firstlineno": 2**31 - 1},
        {"co_stacksize": 1000},
        {"co_filename": "\ud800/😀.py"},
        {"co_name": "not a name"},
        {"co_consts": (None, 2**70, b"x", ..., (1, ("a",)))},
        {"co_names": ("a b", "é", "\udc80")},
        {"co_flags": 0},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_replace_can_make(changes: dict[str, Any]) -> None:
    code = compile("def f(x): return x", "f", "exec").co_consts[0].replace(**changes)
    copy = again(code)
    for name in [name for name in dir(code) if name.startswith("co_") and name != "co_lnotab"]:
        if not callable(getattr(code, name)):
            assert_same(getattr(code, name), getattr(copy, name), name)
    assert copy == code


def test_constants_that_no_compiler_makes() -> None:
    code = compile("1", "f", "eval").replace(co_consts=([1], {"k": {2}}, slice(1)))
    assert_same(code.co_consts, again(code).co_consts)  # Python compares such code by identity


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="3.11 checks it")
def test_a_number_of_locals_of_its_own_is_refused() -> None:
    code = compile("def f(x): return x", "f", "exec").co_consts[0].replace(co_nlocals=5)
    with pytest.raises(UnsupportedValueError, match="co_nlocals is not its co_varnames"):
        dumps(code)


def test_code_inside_containers_and_constants() -> None:
    inner = compile("1", "f", "eval")
    outer = inner.replace(co_consts=((inner, frozenset({inner})), inner))
    value = {"a": [outer], outer: {outer, inner}}
    assert_same(value["a"], loads(dumps(value))["a"])
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("name", ["heapq", "functools"])
def test_bytes_are_what_the_format_says(name: str) -> None:
    for code in nested_codes(module_code(name)):
        if any(isinstance(const, frozenset) for const in code.co_consts):
            continue  # the second writer is too simple for the order of sets
        if sys.version_info >= (3, 12) and not code.co_flags & inspect.CO_OPTIMIZED:
            continue  # nor can it see hidden locals
        nested = [const for const in code.co_consts if isinstance(const, types.CodeType)]
        if any(not const.co_flags & inspect.CO_OPTIMIZED for const in nested):
            continue
        encoder, table = Encoder(), Table()
        try:
            expected = write_code(code, table)
        except TypeError:
            continue
        assert encoder.encode(code) == expected
        assert encoder.string_table() == table.dump()
