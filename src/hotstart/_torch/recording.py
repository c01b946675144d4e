"""How Dynamo compiles while a package records. Checked on torch 2.13.0, 2.14.1 and 2.15.0.

Dynamo holds its compile lock while it does, so what is changed here for that time is seen by no
other compile.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo import bytecode_transformation
from torch._dynamo.guards import CheckFunctionManager
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables import functions

from hotstart._torch.guard_state import all_guards_kept
from hotstart._torch.guard_tree import watching
from hotstart._torch.hooks_guard import hooks_guarded
from hotstart._torch.tape import Tape

_TOKEN = uuid.uuid4().hex[:12]


class _OwnNumbers:
    """Stands in for the counter that Dynamo numbers names with, and yields `hs<token>_<n>`.

    Dynamo's starts at zero in every process, so that `__resume_at_14_2` of two saving processes, or
    `__builtins_dict___0` of a loaded package and of a compile after it, are one name for two
    things. No other process has this token.
    """

    def __init__(self) -> None:
        self._next = 0

    def __next__(self) -> str:
        self._next += 1
        return f"hs{_TOKEN}_{self._next}"


_numbers = _OwnNumbers()


class _Watch:
    """The tape of one guard build, and what ends the watch."""

    def __init__(self) -> None:
        self.tape = Tape()
        self._open = contextlib.ExitStack()
        self._open.enter_context(watching(self.tape))

    def close(self) -> None:
        self._open.close()


def _watched(build: Callable[..., None], watches: dict[int, _Watch]) -> Callable[..., None]:
    """``CheckFunctionManager.__init__`` that watches the calls which build guards to be saved, in
    ``watches`` by its own address."""

    @functools.wraps(build)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if not kwargs.get("save_guards"):
            build(self, *args, **kwargs)
            return
        watch = watches[id(self)] = _Watch()
        try:
            build(self, *args, **kwargs)
        finally:
            watch.close()
            del watches[id(self)]

    return __init__


def keeping_all_guards(build: Callable[..., None]) -> Callable[..., None]:
    """``CheckFunctionManager.__init__`` without what torch does to guards while it makes packages:
    it drops those on identities, and builds everything twice to do so."""

    @functools.wraps(build)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        with all_guards_kept():
            build(self, *args, **kwargs)

    return __init__


@contextlib.contextmanager
def recording(
    save_guards: Callable[..., bytes],
    assumed_constant: Callable[[str], None],
    global_put: Callable[[str, Any], None],
) -> Iterator[None]:
    """While open, Dynamo's names are unique across processes, all guards are kept and built once,
    and ``save_guards(tape, serialize, builder, guards, output_graph)`` makes the bytes of them;
    ``tape`` is what was called to build them, ``serialize`` torch's own serialiser of the rest.

    ``assumed_constant(name)`` is told of each result that a graph holds unguarded, because the user
    has marked the function with ``assume_constant_result``. ``global_put(name, value)`` is told of
    what Dynamo puts into the globals of the frame.
    """
    build, serialize = CheckFunctionManager.__init__, CheckFunctionManager.serialize_guards
    store_constant = functions.invoke_and_store_as_constant
    numbers = bytecode_transformation._unique_id_counter
    put, put_by_id = OutputGraph.install_global_unsafe, OutputGraph.install_global_by_id
    watches: dict[int, _Watch] = {}

    @functools.wraps(serialize)
    def serialize_guards(self: Any, *args: Any) -> bytes:
        # The tree is complete. Nodes that a watch keeps must not outlive their tree: an address
        # that is used again would come with the Python object of what was there before.
        watch = watches[id(self)]
        watch.close()
        return save_guards(watch.tape, functools.partial(serialize, self), *args)

    @functools.wraps(store_constant)
    def invoke_and_store_as_constant(tx: Any, fn: Any, name: str, *args: Any) -> Any:
        assumed_constant(name)
        return store_constant(tx, fn, name, *args)

    @functools.wraps(put)
    def install_global_unsafe(self: Any, name: str, value: Any) -> None:
        global_put(name, value)
        put(self, name, value)

    @functools.wraps(put_by_id)
    def install_global_by_id(self: Any, prefix: str, value: Any) -> str:
        # The rest of the name is an address, which another process uses for something else.
        return put_by_id(self, f"{prefix}_hs{_TOKEN}", value)  # type: ignore[no-any-return]

    OutputGraph.install_global_unsafe = install_global_unsafe
    OutputGraph.install_global_by_id = install_global_by_id
    functions.invoke_and_store_as_constant = invoke_and_store_as_constant
    CheckFunctionManager.__init__ = _watched(keeping_all_guards(build), watches)
    CheckFunctionManager.serialize_guards = serialize_guards
    bytecode_transformation._unique_id_counter = _numbers
    try:
        with hooks_guarded():
            yield
    finally:
        OutputGraph.install_global_unsafe, OutputGraph.install_global_by_id = put, put_by_id
        functions.invoke_and_store_as_constant = store_constant
        CheckFunctionManager.__init__ = build
        CheckFunctionManager.serialize_guards = serialize
        bytecode_transformation._unique_id_counter = numbers
