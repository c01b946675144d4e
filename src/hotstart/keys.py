"""The id under which a package is filed.

It has three parts, so that a folder shows which packages are of one function and differ in what
they were made for: ``<function>-<environment>-<options>``. Where a part changes, the package is
another one; nothing is overwritten.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from hotstart._core import dumps
from hotstart._torch import eval_frame, settings
from hotstart.identity import code_fingerprint

# Hexadecimal digits of each part: 128 bits for the function, of which a store may hold very many,
# 64 for the few environments and ways of compiling that one function meets.
_FUNCTION_DIGITS, _PART_DIGITS = 32, 16

# A package that is saved by hand belongs to no one way of compiling.
BY_HAND: Mapping[str, Any] = {"backend": "by hand"}


def filing_id(fn: Any, options: Mapping[str, Any] = BY_HAND) -> str:
    """The id of the package of ``fn``, compiled with ``options`` in this process's environment."""
    return f"{function_part(fn)}-{environment_part()}-{_digest(options)[:_PART_DIGITS]}"


def environment_of(key: str) -> str:
    """The id of the environment that a package with this id was made for."""
    return key.split("-")[1]


def function_part(fn: Any) -> str:
    return _digest(describe_function(fn))[:_FUNCTION_DIGITS]


def environment_part() -> str:
    return _digest(describe_environment())[:_PART_DIGITS]


def describe_function(fn: Any) -> dict[str, str]:
    """What makes ``fn`` the function it is. Line numbers do not: a comment above it may move it.

    A method counts with the class it is bound to: `Module.compile` compiles `Module._call_impl`,
    which all models share.
    """
    innermost = eval_frame.innermost_fn(fn)
    code = innermost.__code__
    owner = type(innermost.__self__) if inspect.ismethod(innermost) else None
    module = str(innermost.__globals__.get("__name__", innermost.__module__))
    # An imported module has one file; scripts all run as `__main__` and have only their path.
    path = os.path.abspath(code.co_filename) if module == "__main__" else code.co_filename
    return {
        "module": module,
        "file": path if module == "__main__" else os.path.basename(path),
        "function": innermost.__qualname__,
        "code": code_fingerprint(code),
        "owner": "" if owner is None else f"{owner.__module__}.{owner.__qualname__}",
    }


def describe_environment() -> dict[str, Any]:
    """What besides function and options decides whether compiled code can be used here."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "abi": sys.implementation.cache_tag,
        "torch": settings.torch_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": settings.cpu_capabilities(),
        "accelerator": settings.accelerator(),
        **settings.configs(),
    }


def _digest(description: Mapping[str, Any]) -> str:
    return hashlib.sha256(dumps(dict(description))).hexdigest()
