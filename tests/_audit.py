"""What a process starts and writes, heard through Python's audit events."""

from __future__ import annotations

import os
import sys
from typing import Any

_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system")
_WRITES = ("os.link", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

started: list[str] = []
wrote: list[str] = []


def listen() -> None:
    """From here on `started` and `wrote` are filled."""
    sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event in _STARTS:
        started.append(f"{event} {args[:2]}")
    elif _is_write(event, args) and not _is_probe():
        wrote.append(f"{event} {args[0]}")


def _is_write(event: str, args: tuple[Any, ...]) -> bool:
    if event == "open":
        return bool(args[2] & _WRITING) and args[0] != os.devnull
    # torch makes its cache folder again and again, whether it is there or not.
    return event in _WRITES or (event == "os.mkdir" and not os.path.isdir(args[0]))


def _is_probe() -> bool:
    """Whether this is `tempfile.gettempdir()`, which torch calls when it is imported, looking for a
    folder by writing to it."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "_get_default_tempdir":
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None
