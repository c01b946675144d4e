"""Backend artifacts as they lie in a package: pickled, until someone needs what is inside."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from torch._dynamo.precompile_context import BackendCacheArtifact, EagerCacheArtifact

from hotstart.errors import UnsupportedValueError


class StoredArtifact(BackendCacheArtifact[Any]):
    """Stands for the artifact pickled in ``data``, which is unpickled at first use.

    A package that is loaded and saved again keeps the bytes it came with, unless the artifact was
    edited meanwhile. Copies share the bytes.
    """

    def __init__(self, key: str, data: bytes) -> None:
        self.key = key
        self._data: bytes | None = data
        self._artifact: Any = None

    @property
    def content(self) -> Any:
        return self._unpickled().content

    def _unpickled(self) -> Any:
        if self._artifact is None:
            assert self._data is not None
            self._artifact = pickle.loads(self._data)
        return self._artifact

    def after_deserialization(self) -> Any:
        """Brings the backend to life. The artifact itself is not kept: that may change it."""
        artifact = self._unpickled()
        if self._data is not None:
            self._artifact = None
            _copied_from(artifact, self._data)
        return artifact.after_deserialization()

    def edit_contents(self, edit_fn: Callable[..., Any]) -> None:
        self._unpickled().edit_contents(edit_fn)
        self._data = None

    def __deepcopy__(self, memo: dict[int, Any]) -> StoredArtifact:
        return StoredArtifact(self.key, self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        return pickle.dumps(self._artifact) if self._data is None else self._data


def _copied_from(artifact: Any, data: bytes) -> None:
    """Has a deep copy of what is in ``artifact`` come from its pickle, a tenth of the time: torch
    makes one before it brings a bundle to life."""
    content = getattr(artifact, "content", None)
    if isinstance(getattr(content, "__dict__", None), dict):
        vars(content)["__deepcopy__"] = lambda memo: pickle.loads(data).content


def to_bytes(artifact: Any) -> bytes:
    """The pickle of an artifact of any kind.

    Raises UnsupportedValueError for a graph that would come back as another one: torch pickles a
    graph as source and traces that again, which loses what happens while tracing, such as entering
    an autocast region.
    """
    if isinstance(artifact, StoredArtifact):
        return artifact.to_bytes()
    data = pickle.dumps(artifact)
    if isinstance(artifact, EagerCacheArtifact):
        try:
            again = pickle.loads(data)
        except Exception as e:
            raise UnsupportedValueError(f"the graph does not survive a pickle: {e}") from e
        before, after = _steps(artifact.content), _steps(again.content)
        if before != after:
            lost = sorted(set(before) - set(after)) or ["the order of its steps"]
            raise UnsupportedValueError(f"the graph would lose {lost[0]} in a pickle")
    return data


def _steps(compiled: Any) -> list[str]:
    """What the graph behind a callable does, step by step; nothing where there is no graph."""
    graph = getattr(getattr(compiled, "__self__", compiled), "graph", None)
    nodes = () if graph is None else graph.nodes
    return [f"{node.op} {getattr(node.target, '__name__', node.target)}" for node in nodes]
