"""Switching hotstart on and off."""

from __future__ import annotations

import atexit
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from hotstart._torch.versions import unsupported_reason
from hotstart.log import logger

if TYPE_CHECKING:
    from hotstart.integration.patches import Patches
    from hotstart.integration.session import Session
    from hotstart.store.base import DynamoStore

_lock = threading.Lock()
_active: tuple[Session, Patches] | None = None


class Enabled:
    """What `enable` returns: leaving it as a context saves and disables."""

    def __enter__(self) -> Enabled:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        save()
        disable()


def enable(store: DynamoStore | str | os.PathLike[str] | None = None) -> Enabled:
    """From here on `torch.compile` loads and saves packages through hotstart.

    ``store`` is a store or the folder of one; None is the folder that `HOTSTART_DIR` names, else
    one in the user's cache. Calling it again changes nothing. What was compiled and not yet saved
    is saved when the interpreter exits.

    With ``HOTSTART_DISABLE=1``, or on a torch that hotstart does not know, nothing changes; the
    latter is a warning.
    """
    global _active
    with _lock:
        if _active is None and _may_enable():
            _active = _start(store)
    return Enabled()


def _may_enable() -> bool:
    if os.environ.get("HOTSTART_DISABLE") == "1":
        return False
    import torch

    reason = unsupported_reason(torch.__version__)
    if reason is not None:
        logger.warning("hotstart stays off: %s", reason)
    return reason is None


def _start(store: DynamoStore | str | os.PathLike[str] | None) -> tuple[Session, Patches]:
    from hotstart.integration import patches
    from hotstart.integration.session import Session
    from hotstart.store.base import DynamoStore
    from hotstart.store.disk import DiskDynamoCache, DynamoCache

    if store is None:
        store = DynamoCache
    elif not isinstance(store, DynamoStore):
        store = DiskDynamoCache(os.fspath(store))
    session = Session(store)
    atexit.register(session.save)
    return session, patches.apply(session)


def disable() -> None:
    """Takes everything back: torch is as it was, and what hotstart had installed is gone."""
    global _active
    with _lock:
        if _active is not None:
            session, patches = _active
            _active = None
            patches.undo()
            session.close()
            atexit.unregister(session.save)


def save() -> int:
    """Writes what was compiled and not yet saved; returns how many packages were written."""
    active = _active
    return 0 if active is None else active[0].save()
