"""Compiled kernels and the modules that call them, each once however many packages use it.

    kernels/<SHA-256>.so               a library
    kernels/<environment>/<id>         the SHA-256 of the library of a kernel
    kernels/<environment>/<id>.code    the code object of a wrapper

A library is opened from where it lies, after its bytes were checked. Files are only ever added,
each at once, so that any number of processes can share the folder.
"""

from __future__ import annotations

import os
import types

from hotstart._core import dumps, loads, publish, sha256_hex
from hotstart.log import logger, one_line

_FOLDER = "kernels"
_DIGITS = 64


class KernelStore:
    """The kernels below ``folder`` that were made for ``environment``."""

    def __init__(self, folder: str, environment: str) -> None:
        self._libraries = os.path.join(folder, _FOLDER)
        self._index = os.path.join(self._libraries, environment)

    def exists(self) -> bool:
        return os.path.isdir(self._index)

    def find(self, kernel: str) -> tuple[str, str] | None:
        """The file of a kernel's library and its SHA-256, None where it is not here or damaged."""
        try:
            with open(os.path.join(self._index, kernel)) as file:
                checksum = file.read(_DIGITS)
            library = self._library(checksum)
            with open(library, "rb") as binary:
                found = sha256_hex(binary.read())
        except (OSError, ValueError):
            return None
        if found != checksum:
            logger.warning("the kernel library %s is damaged", library)
            return None
        return library, checksum

    def add(self, kernel: str, library: str) -> None:
        """Copies the file ``library`` into the store, unless it is there."""
        if self.find(kernel) is not None:
            return
        with open(library, "rb") as file:
            content = file.read()
        checksum = sha256_hex(content)
        self._make_folders()
        publish(self._library(checksum), content)
        publish(os.path.join(self._index, kernel), checksum.encode())

    def find_code(self, wrapper: str) -> types.CodeType | None:
        """The code object of a wrapper, None where it is not here or not readable."""
        file = self._code(wrapper)
        try:
            with open(file, "rb") as binary:
                code = loads(binary.read())
        except OSError:
            return None
        except ValueError as e:
            logger.warning("the wrapper %s is damaged: %s", file, one_line(e))
            return None
        return code if isinstance(code, types.CodeType) else None

    def add_code(self, wrapper: str, code: types.CodeType) -> None:
        file = self._code(wrapper)
        if not os.path.exists(file):
            self._make_folders()
            publish(file, dumps(code))

    def _make_folders(self) -> None:
        for folder in (self._libraries, self._index):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def _library(self, checksum: str) -> str:
        return os.path.join(self._libraries, f"{checksum}.so")

    def _code(self, wrapper: str) -> str:
        return os.path.join(self._index, f"{wrapper}.code")
