"""AOTAutograd's cache, which bundles the artifacts that packages are made of.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._functorch._aot_autograd import graph_compile
from torch._inductor.output_code import OutputCode

__all__ = ["graph_compile", "only_compiled_code"]


def only_compiled_code(should_save: Callable[..., bool]) -> Callable[..., bool]:
    """`graph_compile._should_save_cache` that declines what the cache would raise for.

    A graph in which nothing is computed, such as one that hands on an int, is not compiled: what
    the inductor returns is the graph's own method, and torch asserts that it is none.
    """

    @functools.wraps(should_save)
    def _should_save_cache(*compiled: Any) -> bool:
        return should_save(*compiled) and all(_is_compiled_code(fn) for fn in compiled)

    return _should_save_cache


def _is_compiled_code(fn: Any) -> bool:
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
    return fn is None or isinstance(fn, OutputCode)
