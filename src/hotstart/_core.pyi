"""Types of the native core. The classes and functions are implemented in ``csrc/``."""

import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, final, overload

if sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    from typing_extensions import Buffer

_EncodeHook: TypeAlias = Callable[[Any], tuple[str, object] | None]
_DecodeHook: TypeAlias = Callable[[str, Any], object]

# -- Codec

class Encoder:
    """Turns values into streams that share one string table.

    Encodes None, bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset,
    Ellipsis, slice and code objects, of exactly these types. A value of another type, a subclass
    included, is shown to ``hook``, which returns ``(tag, payload)`` with a payload that can be
    encoded (or hooked in its turn), or None to refuse it. While a set is encoded, an answer of the
    hook may be used twice, so it should depend on the value alone.

    Equal values of equal types in equal order give equal bytes, in every process: sets are sorted,
    dicts keep their order. That an object occurs twice is not recorded: it is encoded twice (only
    strings are shared). A container inside itself is an error.
    """

    def __init__(self, hook: _EncodeHook | None = None) -> None: ...
    def encode(self, value: object) -> bytes:
        """One stream, to be decoded with the string table of this encoder.

        Raises UnsupportedValueError, which names the place, for what cannot be encoded. Strings met
        before the error stay in the table.
        """

    def string_table(self) -> bytes:
        """The strings of everything encoded so far. Streams encoded before stay valid with it."""

class Decoder:
    """Turns streams back into values.

    Keeps ``string_table`` alive and reads it in place; a string is made on its first use and then
    shared by all streams of this decoder. The bytes must not change meanwhile. ``hook`` is called
    with ``(tag, payload)`` for what a hook encoded, and returns the value. Decoding runs no Python
    code other than the hook and the methods of what the hook returns.
    """

    def __init__(self, string_table: Buffer, hook: _DecodeHook | None = None) -> None: ...
    def decode(self, data: Buffer) -> Any:
        """The value of one stream.

        Raises CorruptPackageError for bytes that no encoder wrote, UnsupportedValueError for code
        objects of another Python and for hooked values without a hook, and what the hook raises.
        """

def dumps(value: object, hook: _EncodeHook | None = None) -> bytes:
    """One value with its own string table: see Encoder."""

def loads(data: Buffer, hook: _DecodeHook | None = None) -> Any:
    """The value that ``dumps`` wrote: see Decoder."""

@overload
def validate(data: Buffer, /) -> None: ...
@overload
def validate(string_table: Buffer, stream: Buffer, /) -> None:
    """Walks through what ``dumps`` wrote, or a stream and its table, without building anything.

    Raises CorruptPackageError, whose offset counts in the stream or the table, whichever is wrong.
    Looks at every string of the table, where a decoder looks at those that it needs. What passes
    can still be refused by the decoder, for what only Python can tell: keys that are equal or
    cannot be hashed, instructions that this Python does not have, code of another Python.
    """

# -- Hash, container and file publishing

TEMPORARY_PREFIX: Final[str]

def sha256(data: Buffer, /) -> bytes: ...
def sha256_hex(data: Buffer, /) -> str: ...
def code_digest(code: types.CodeType, /) -> bytes:
    """The SHA-256 of what ``code`` does: its name, arguments, flags, instructions as the compiler
    wrote them, constants, names of all kinds and exception table, and those of the code inside it.
    Its file, lines, qualified name and stack size do not count.

    Constants differ where their types or bits do (``1``, ``1.0`` and ``True``, ``0.0`` and
    ``-0.0``); sets are equal in any order. Raises UnsupportedValueError for a constant that
    ``dumps`` refuses. Not to be compared between versions of Python.
    """

def xxh64(data: Buffer, seed: int = 0) -> int: ...
def hash_source_spans(
    path: str | bytes | os.PathLike[str], spans: Sequence[tuple[int, int]]
) -> list[str] | None: ...
def hash_source_spans_bytes(data: Buffer, spans: Sequence[tuple[int, int]]) -> list[str] | None: ...
def _sha256_portable(data: Buffer, /) -> bytes: ...
def _sha256_implementation() -> Literal["sha-ni", "portable"]: ...

@final
class Container:
    @staticmethod
    def open(path: str | bytes | os.PathLike[str]) -> Container: ...
    @staticmethod
    def read(path: str | bytes | os.PathLike[str]) -> Container: ...
    @staticmethod
    def from_bytes(data: Buffer) -> Container: ...
    @property
    def version(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def mapped(self) -> bool: ...
    @property
    def path(self) -> str | None: ...
    def sections(self) -> list[tuple[int, int, int, int, int, int]]: ...
    def has(self, kind: int, ordinal: int = 0) -> bool: ...
    def get(self, kind: int, ordinal: int = 0) -> memoryview: ...
    def verify(self) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def build_container(sections: Sequence[tuple[int, int, int, Buffer]]) -> bytes: ...
def publish(path: str | bytes | os.PathLike[str], data: Buffer) -> None: ...

# -- Guard plans

@final
class FirstSight:
    """A guard on the identity of an object that has no name.

    The first object for which ``verify`` is true is the one; from then on only it passes. With
    ``of_type`` the class of what is passed counts. Calls never raise.
    """

    def __init__(self, verify: Callable[[Any], object], *, of_type: bool = False) -> None: ...
    def __call__(self, found: object, /) -> bool: ...

@final
class SeenDicts:
    """Dicts that `NoHooks` guards came by. Called with anything: whether all are empty still."""

    def __call__(self, _: object, /) -> bool: ...

@final
class NoHooks:
    """A guard on a module's ``__dict__``: what it has under ``names`` are empty dicts, which go
    into ``seen``. Calls never raise."""

    names: tuple[str, ...]
    seen: SeenDicts
    def __init__(self, names: tuple[str, ...], seen: SeenDicts) -> None: ...
    def __call__(self, attributes: object, /) -> bool: ...

def replay_guards(
    plan: Buffer, values: tuple[Any, ...], texts: tuple[Any, ...] | None, face: tuple[Any, ...]
) -> list[Any]:
    """Makes the calls of a plan's tape; returns the nodes of the tree, the root first.

    ``values`` are those of the plan; ``texts``, where given, has for each guard in order its
    messages and its stack; ``face`` is torch's root, manager and dict manager class, where its
    functions are, the two kinds of managers, and a tensor without dimensions.

    Raises CorruptPackageError for bytes that are no plan, and what torch raises.
    """

def validate_plan(plan: Buffer) -> None:
    """Walks through a plan without calling anything. Raises CorruptPackageError."""
