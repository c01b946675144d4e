"""Which way of compiling is being called right now, and guards that ask for one.

A precompiled entry hangs on a code object, and torch serves it to every caller whatever backend
that asked for. So each call of a compiled function says what it was compiled with, and each entry
that hotstart installs has a guard that only accepts its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hotstart._torch.guard_state import add_globals_guard
from hotstart.guards.load import add_guard

_calling = threading.local()


class BackendScope:
    """Called at the start of a compiled function's call; what it returns is called at the end."""

    def __init__(self, options_id: str | None) -> None:
        self.options_id = options_id

    def __call__(self) -> Callable[[], None]:
        before = getattr(_calling, "options_id", None)
        _calling.options_id = self.options_id

        def leave() -> None:
            _calling.options_id = before

        return leave


def add_backend_guard(manager: Any, scope: dict[str, Any], options_id: str) -> None:
    """Makes the guards of ``manager`` refuse calls of functions compiled in another way."""

    def is_calling(_globals: object) -> bool:
        return getattr(_calling, "options_id", None) == options_id

    def add(tree: Any) -> None:
        add_globals_guard(tree, scope, is_calling, f"compiled with options {options_id}")

    add_guard(manager, add)
