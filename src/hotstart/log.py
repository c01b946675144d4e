"""hotstart's logger. What a user has to know is one WARNING line; tracebacks are at DEBUG."""

from __future__ import annotations

import logging

logger = logging.getLogger("hotstart")


def one_line(error: BaseException) -> str:
    """An exception's class and text without line breaks."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
