"""Kernels travel with packages: saved beside them, and served in place of compiling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotstart._torch import cpp_kernels
from hotstart.log import logger, one_line
from hotstart.store.base import DynamoStore
from hotstart.store.disk import DiskDynamoStore
from hotstart.store.kernels import KernelStore


class Kernels:
    """The kernels of one enabled stretch. Never raises: without them torch compiles its own."""

    def __init__(self, store: DynamoStore) -> None:
        self._folder = store.path_prefix() if isinstance(store, DiskDynamoStore) else ""
        self._undo: list[tuple[Any, str, Any]] = []
        self._refused: list[str] = []

    def serve(self, environment: str) -> None:
        """From here on the inductor gets what the store has for ``environment``, the id of this
        process's, in place of compiling."""
        if self._undo or not self._folder:
            return
        try:
            store = KernelStore(self._folder, environment)
            if store.exists():
                for owner, name, value in cpp_kernels.replacements(
                    store.find, self._refuse, store.find_code
                ):
                    self._undo.append((owner, name, vars(owner)[name]))
                    setattr(owner, name, value)
        except Exception as e:
            logger.warning("kernels cannot be served: %s", one_line(e))

    def save(self, environment: str, artifacts: Iterable[Any]) -> None:
        """Keeps what the ``artifacts`` need: libraries, and the modules that call them."""
        if not self._folder:
            return
        store = KernelStore(self._folder, environment)
        for artifact in artifacts:
            try:
                for kernel, library in cpp_kernels.libraries_of(artifact):
                    store.add(kernel, library)
                for wrapper, code in cpp_kernels.wrappers_of(artifact):
                    store.add_code(wrapper, code)
            except Exception as e:
                logger.warning("kernels cannot be kept: %s", one_line(e))

    def refused(self) -> list[str]:
        """Why libraries could not be opened since this was last asked."""
        refused, self._refused = self._refused, []
        return refused

    def _refuse(self, reason: str) -> None:
        reason = f"a compiled kernel cannot be opened here: {reason}"
        logger.warning("%s", reason)
        self._refused.append(reason)

    def close(self) -> None:
        while self._undo:
            setattr(*self._undo.pop())
