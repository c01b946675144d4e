"""The contexts that `torch.compile` wraps functions in.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.eval_frame import OptimizeContext

__all__ = ["OptimizeContext"]


def package_of(context: Any) -> Any:
    """The package that a context's compiles are recorded in, None if in none.

    A copy of a context, such as a copied module has, forgets it; what compiles for it does not.
    """
    if context._package is not None:
        return context._package
    packages = (getattr(convert, "_package", None) for convert in _converters(context))
    return next((package for package in packages if package is not None), None)


@contextlib.contextmanager
def package_hidden(context: Any) -> Iterator[None]:
    """While open, the context reads as if it had no package; what it compiles is recorded still."""
    package, context._package = context._package, None
    try:
        yield
    finally:
        context._package = package


def detach_package(context: Any) -> None:
    """From here on the context compiles as if packages did not exist."""
    context._package = None
    for convert in _converters(context):
        if hasattr(convert, "_package"):
            convert._package = None


def _converters(context: Any) -> Iterator[Any]:
    """What a context compiles frames with, from the outermost to the innermost."""
    convert: Any = context.callback
    while convert is not None:
        yield convert
        convert = vars(convert).get("_inner_convert") or _wrapped_by(convert)


def _wrapped_by(convert: Any) -> Any:
    """The converter inside ``convert``, None at the backend function, which is none."""
    inner = vars(convert).get("_torchdynamo_orig_backend")
    return inner if hasattr(inner, "_clone_with_backend") else None


def on_enter(context: Any, hook: Callable[[], Callable[[], None]]) -> None:
    """Has every call of the context's function begin with ``hook`` and end with what it returned.

    Dynamo is switched off while either runs.
    """
    context.enter_exit_hooks.append(hook)


def callable_of(fn: Any) -> Any:
    """What `torch.compile(fn)` will run: a module's forward, a static method's function, a class's
    ``__call__``."""
    if isinstance(fn, torch.nn.Module):
        return fn.forward
    if isinstance(fn, type):
        return fn.__call__
    while isinstance(fn, staticmethod):
        fn = fn.__func__
    return fn
