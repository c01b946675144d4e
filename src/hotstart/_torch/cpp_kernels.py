"""The C++ kernels of the inductor's graphs: which libraries a graph calls, and opening them.

torch finds a kernel's library by the command that would compile it, which takes the compiler, a
second of trying out vector instructions and a precompiled header, even if nothing is compiled in
the end. Here it is found by what it was made of. Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hotstart._core import dumps, sha256_hex
from hotstart.log import one_line

# From a kernel's id to its library's file and the checksum of that; None if there is none.
Find = Callable[[str], "tuple[str, str] | None"]
# Told why a library that was found cannot be opened.
Refuse = Callable[[str], None]
# From a wrapper's id to its code object; None if it is not there.
FindCode = Callable[[str], "types.CodeType | None"]

_ADDRESS = "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"
_ENTRY = "kernel"
_CLASS = "CppPythonBindingsCodeCache"


def kernel_id(argument_types: Any, source: str) -> str:
    """The id of the kernel that `CppPythonBindingsCodeCache` would make of these."""
    return sha256_hex(dumps((tuple(argument_types), source)))


def libraries_of(artifact: Any) -> Iterator[tuple[str, str]]:
    """The id and the library's file of each C++ kernel that an inductor artifact calls.

    The process has compiled the artifact, or loaded it.
    """
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    for source in _wrappers(artifact):
        for argument_types, kernel in _kernels_in(source):
            function = CppPythonBindingsCodeCache.load_pybinding(argument_types, kernel)
            yield kernel_id(argument_types, kernel), function.__self__.__file__


def wrappers_of(artifact: Any) -> Iterator[tuple[str, types.CodeType]]:
    """The id and the code object of each Python module that calls the kernels of an artifact."""
    for source in _wrappers(artifact):
        wrapper = wrapper_id(source)
        yield wrapper, compile(source, _file_of(wrapper), "exec", dont_inherit=True)


def wrapper_id(source: str) -> str:
    return sha256_hex(source.encode())


def _file_of(wrapper: str) -> str:
    return f"<inductor wrapper {wrapper[:16]}>"


def _wrappers(artifact: Any) -> Iterator[str]:
    """The Python source that calls the kernels, of the forward and the backward graph."""
    bundle = getattr(artifact, "content", artifact)
    for name in ("compiled_fw", "compiled_bw"):
        graph = getattr(getattr(bundle, name, None), "result", None)
        source = getattr(graph, "source_code", None)
        if isinstance(source, str):
            yield source


def _kernels_in(source: str) -> Iterator[tuple[list[str], str]]:
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "cpp_pybinding"
            and len(node.args) == 2
            and not node.keywords
        ):
            argument_types, kernel = (ast.literal_eval(argument) for argument in node.args)
            yield argument_types, kernel


def replacements(find: Find, refuse: Refuse, find_code: FindCode) -> Iterator[tuple[Any, str, Any]]:
    """What torch's inductor has to be given (owner, name, value) to take what is found."""
    from torch._inductor.codecache import CppPythonBindingsCodeCache
    from torch._inductor.output_code import CompiledFxGraph

    for name, is_async in (("load_pybinding", False), ("load_pybinding_async", True)):
        original = vars(CppPythonBindingsCodeCache)[name]
        yield CppPythonBindingsCodeCache, name, serving(find, refuse, original, is_async)
    wrapped = in_memory(find_code, CompiledFxGraph.after_deserialization)
    yield CompiledFxGraph, "after_deserialization", wrapped


def serving(find: Find, refuse: Refuse, original: Any, is_async: bool) -> Any:
    """``load_pybinding`` or its asynchronous sibling, that takes what ``find`` has. A library that
    the dynamic loader refuses is compiled anew."""

    @functools.wraps(original.__func__)
    def load(cls: Any, argtypes: Any, main_code: str, *args: Any, **kwargs: Any) -> Any:
        # Classes derived from it make other things of the same arguments.
        if cls.__name__ == _CLASS and not args and kwargs.keys() <= {"submit_fn"}:
            found = find(kernel_id(argtypes, main_code))
            function = None if found is None else open_library(*found, refuse)
            if function is not None:
                return (lambda: function) if is_async else function
        return original.__func__(cls, argtypes, main_code, *args, **kwargs)

    return classmethod(load)


class _Source:
    """Gives the lines of a wrapper to tracebacks, which ask a module's loader."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, _name: str) -> str:
        return self._source


def in_memory(find_code: FindCode, original: Callable[..., str]) -> Callable[..., str]:
    """``CompiledFxGraph.after_deserialization`` that writes no file, and compiles none it finds."""

    @functools.wraps(original)
    def after_deserialization(self: Any, constants: Any) -> str:
        wrapper = wrapper_id(self.source_code)
        code = find_code(wrapper)
        if code is None:
            return original(self, constants)
        module = types.ModuleType(f"inductor_wrapper_{wrapper}")
        module.__file__ = code.co_filename
        module.__loader__ = _Source(self.source_code)  # type: ignore[assignment]
        exec(code, vars(module))
        vars(module).update(constants.unwrap(self))
        _note_lines(code.co_filename, self.cache_linemap)
        self.current_callable = module.call
        self.recursively_apply_fns = getattr(module, "recursively_apply_fns", None)
        self.compiled_fn_runner = getattr(module, "runner", None)
        return code.co_filename

    return after_deserialization


def _note_lines(file: str, lines: Any) -> None:
    """Tells torch's profiler which line of the wrapper is which line of the user's."""
    from torch._inductor.codecache import PyCodeCache

    PyCodeCache.linemaps[file] = list(zip(*(lines or ()), strict=False))


def open_library(file: str, checksum: str, refuse: Refuse) -> Any:
    """The function of a kernel's library, which is opened once in a process; None where it cannot
    be, and ``refuse`` is told why."""
    name = f"hotstart_kernels.{checksum}.{_ENTRY}"
    module = sys.modules.get(name)
    if module is None:
        os.environ[_ADDRESS] = str(torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr)
        loader = importlib.machinery.ExtensionFileLoader(name, file)
        spec = importlib.util.spec_from_file_location(name, file, loader=loader)
        assert spec is not None
        try:
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
        except ImportError as e:
            refuse(one_line(e))
            return None
        sys.modules[name] = module
    return getattr(module, _ENTRY)
