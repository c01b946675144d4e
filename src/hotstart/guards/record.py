"""From what was called while Dynamo built a guard tree to a plan that builds it again."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from hotstart._torch import guard_tree
from hotstart._torch.tape import Call, Tape
from hotstart.errors import UnsupportedValueError
from hotstart.guards import plan as plans
from hotstart.guards.names import IDENTITY, LINEAGE
from hotstart.guards.paths import path_from_class, step_of
from hotstart.guards.tape_writer import Example, NodeFlags, TapeWriter
from hotstart.guards.values import Values, has_name

# Leaves that are made with addresses of classes, and at which place.
_CLASS_ADDRESSES = {
    "add_fake_script_type_match_guard": 1,
    "add_range_iterator_match_guard": 3,
    "add_tuple_iterator_length_guard": 1,
    "add_type_match_guard": 0,
}


class NoIdentityError(UnsupportedValueError):
    """A guard on the address of an object that another process could not prove to be the same."""


@dataclasses.dataclass
class _Node:
    """A node of the tree; ``path`` leads to it from the frame's globals or from a class that has a
    name, where something does."""

    manager: Any
    source: str
    type_text: str
    root: str  # the accessor that began the way here
    path: tuple[Any, ...] | None


def record(
    tape: Tape,
    root: Any,
    scope: dict[str, Any],
    header: plans.Header,
    put_globals: dict[str, Any],
    any_threads: bool,
) -> bytes:
    """The plan of the tree at ``root``, for frames whose globals are ``scope``.

    ``put_globals`` are names that Dynamo put there, with their values; the plan brings back those
    that have a meaning in another process. ``any_threads`` says that the number of threads had no
    part in the compile. Raises UnsupportedValueError for guards that have no such meaning,
    NoIdentityError where that is for the identity of an object.
    """
    recorder = _Recorder(tape, root, Values(scope, any_threads))
    for call in tape.calls:
        recorder.take(call)
    for name, value in put_globals.items():
        recorder.take_global(name, value)
    return recorder.to_bytes(header)


class _Recorder:
    def __init__(self, tape: Tape, root: Any, values: Values) -> None:
        self.values = values
        self._objects = tape.objects
        self._writer = TapeWriter()
        self._nodes = [_Node(root, "", _type_text(root), "", None)]
        self._numbers = {id(root): 0}
        self._texts: list[plans.Texts] = []
        self._stacks: dict[plans.Stack, int] = {}
        self._globals: dict[str, int] = {}
        self._names_guarded: set[str] = set()

    def take(self, call: Call) -> None:
        """Writes one call, if it has made something of this tree."""
        if call.name in guard_tree.FUNCTIONS or call.receiver is None:
            self._take_function(call)
        elif id(call.receiver) in self._numbers:
            if call.name.startswith("mark_"):
                self._mark(call)
            elif call.name.startswith("add_"):
                self._take_leaf(call)
            elif call.name.startswith("set_"):
                raise UnsupportedValueError(f"{call.name} is not recorded")
            elif id(call.made) not in self._numbers:
                self._take_accessor(call)

    def _mark(self, call: Call) -> None:
        flag = {
            "mark_tag_safe": NodeFlags.TAG_SAFE,
            "mark_tag_safe_root": NodeFlags.TAG_SAFE_ROOT,
        }.get(call.name)
        if flag is None:
            raise UnsupportedValueError(f"{call.name} is unknown")
        self._writer.mark(self._numbers[id(call.receiver)], flag)

    def _take_accessor(self, call: Call) -> None:
        keys, source, example, kind = _accessor_arguments(call)
        if len(keys) > 1:
            raise UnsupportedValueError(f"{call.name} takes more than a key")
        receiver = self._numbers[id(call.receiver)]
        if self._nodes[receiver].path == ():
            self._names_guarded.update(key for key in keys if isinstance(key, str))
        key = [self.values.add(key) for key in keys]
        flags, example_value = self._example(call.made, example, guard_tree.is_dict_manager(kind))
        base = self._nodes[receiver].source
        kept = _common_prefix(base, source)
        self._writer.accessor(
            call.name,
            receiver,
            key[0] if key else None,
            flags,
            example_value,
            len(base) - kept,
            self.values.add(source[kept:]),
        )
        self._numbers[id(call.made)] = len(self._nodes)
        self._nodes.append(self._node(call, receiver, keys, source, example))

    def _node(self, call: Call, receiver: int, keys: list[Any], source: str, example: Any) -> _Node:
        parent = self._nodes[receiver]
        path: tuple[Any, ...] | None = None
        if call.name == "globals_dict_manager" and receiver == 0:
            path = ()
        elif parent.path is not None:
            step = step_of(call.name, *(keys or [None]))
            path = None if step is None else (*parent.path, step)
        if path is None and call.name == "type_manager" and isinstance(example, type):
            path = path_from_class(example)
        return _Node(call.made, source, _type_text(call.made), parent.root or call.name, path)

    def _example(self, made: Any, example: Any, is_dict: bool) -> tuple[int, int | None]:
        if is_dict:
            return Example.VALUE | NodeFlags.DICT_MANAGER, self.values.example_dict(example)
        if isinstance(example, torch.Tensor):
            return Example.TENSOR, None
        if made.is_guarded_value_immutable():
            return Example.NONE, None
        return (Example.DICT if isinstance(example, dict) else Example.OBJECT), None

    def _take_leaf(self, call: Call) -> None:
        kinds = guard_tree.LEAVES.get(call.name)
        if kinds is None or len(kinds) != len(call.args):
            raise UnsupportedValueError(f"{call.name} is unknown")
        node = self._nodes[self._numbers[id(call.receiver)]]
        name, values = self._leaf_values(call, node)
        if name != call.name:
            kinds = guard_tree.LEAVES[name]
        if name == "add_tensor_match_guard" and call.args[3] == node.source:
            kinds = kinds[:3] + "s" + kinds[4:]
        numbers = iter(values)
        arguments = [next(numbers) if kind == "v" else None for kind in kinds]
        self._writer.leaf(name, self._numbers[id(call.receiver)], kinds, arguments)
        position = guard_tree.LEAVES[call.name].index("m")
        self._note_texts(*call.args[position : position + 2])

    def _leaf_values(self, call: Call, node: _Node) -> tuple[str, list[int]]:
        """The operation and its values. Addresses become what leads to them."""
        args = call.args
        if call.name == "add_id_match_guard":
            return self._identity(self._object_at(args[0]), node, IDENTITY, False, call.name)
        if call.name == "add_type_match_guard":
            return self._identity(self._object_at(args[0]), node, LINEAGE, True, call.name)
        if call.name == "add_tensor_match_guard":
            value, sizes, strides, name, _, _, cls, keys, *device_is_current = args
            rest = [] if name == node.source else [self.values.add(name)]
            lists = [self.values.add(sizes), self.values.add(strides)]
            last = [self.values.cls(cls), self.values.add(keys)]
            last += map(self.values.add, device_is_current)
            return call.name, [self.values.tensor(value), *lists, *rest, *last]
        if call.name == "add_torch_function_mode_stack_guard":
            return call.name, [self.values.modes(args[0])]
        if call.name == "add_dict_version_guard":
            return call.name, [self.values.watched_dict(args[0])]
        values = []
        for place, kind in enumerate(guard_tree.LEAVES[call.name]):
            if kind == "v" and _CLASS_ADDRESSES.get(call.name) == place:
                values.append(self.values.address(self._object_at(args[place]), LINEAGE))
            elif kind == "v":
                values.append(self.values.add(args[place]))
        return call.name, values

    def _identity(
        self, value: Any, node: _Node, how: str, of_type: bool, name: str
    ) -> tuple[str, list[int]]:
        try:
            if has_name(value):
                return name, [self.values.address(value, how)]
            if node.path is not None:
                path = (*node.path, ("type",)) if of_type else node.path
                return name, [self.values.address_at(path, value)]
            return "add_lambda_guard", [self.values.first_sight(value, of_type)]
        except UnsupportedValueError as e:
            raise NoIdentityError(f"no portable form of the guard on {node.source}: {e}") from e

    def _object_at(self, address: int) -> Any:
        if address not in self._objects:
            raise UnsupportedValueError("a guard on an address of which the object is not known")
        return self._objects[address]

    def _take_function(self, call: Call) -> None:
        kinds = guard_tree.FUNCTIONS.get(call.name)
        if kinds is None or len(kinds) != len(call.args):
            raise UnsupportedValueError(f"{call.name} is unknown")
        arguments: list[Any] = []
        for kind, argument in zip(kinds, call.args, strict=True):
            if kind in "nN":
                managers = argument if kind == "N" else [argument]
                if any(id(manager) not in self._numbers for manager in managers):
                    return  # Of another tree.
                numbers = [self._numbers[id(manager)] for manager in managers]
                arguments.append(numbers if kind == "N" else numbers[0])
            else:
                arguments.append(self.values.add(argument) if kind == "v" else None)
        self._writer.function(call.name, kinds, arguments)
        position = kinds.index("m")
        self._note_texts(*call.args[position : position + 2])

    def _note_texts(self, messages: Any, stack: Any) -> None:
        number = -1
        if stack is not None:
            lines = tuple(_frame_as_data(frame) for frame in stack)
            number = self._stacks.setdefault(lines, len(self._stacks))
        self._texts.append((tuple(map(str, messages)), number))

    def take_global(self, name: str, value: Any) -> None:
        is_class = isinstance(value, type)
        add = functools.partial(self.values.cls, how=IDENTITY) if is_class else self.values.add
        try:
            self._globals[name] = add(value)
        except UnsupportedValueError as e:
            if name in self._names_guarded:
                raise NoIdentityError(f"G[{name!r}] exists in this process only") from e
            # Bytecode that needs it is refused by CompilePackage.add_guarded_code.

    def to_bytes(self, header: plans.Header) -> bytes:
        plain, special, places = self.values.tables()
        placed = {name: places[number] for name, number in self._globals.items()}
        cold = plans.Cold(
            tuple(self._texts), tuple(self._stacks), tuple(node.type_text for node in self._nodes)
        )
        return plans.to_bytes(
            dataclasses.replace(header, globals=placed),
            plain,
            special,
            len(self._nodes),
            self._writer.to_bytes(places),
            cold,
        )


def _accessor_arguments(call: Call) -> tuple[list[Any], str, Any, Any]:
    """The key, if there is one, the source, the example value and the kind of manager."""
    named = dict(call.kwargs)
    positional = list(call.args)
    kind, example, source = (
        named.pop(name) if name in named else positional.pop()
        for name in ("guard_manager_enum", "example_value", "source")
    )
    return [*positional, *named.values()], source, example, kind


def _common_prefix(a: str, b: str) -> int:
    for i, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return i
    return min(len(a), len(b))


def _type_text(manager: Any) -> str:
    return str(manager.get_type_of_guarded_value())


def _frame_as_data(frame: Any) -> tuple[str, int, str, str]:
    return frame.filename, frame.lineno or 0, frame.name, frame.line or ""
