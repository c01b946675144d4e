"""Compiled kernels and the modules that call them, each once however many packages use it.

    kernels/<SHA-256>.so               a library
    kernels/<environment>/<id>         the SHA-256 of the library of a kernel
    kernels/<environment>/<id>.code    the code object of a wrapper

The last two are containers, and say themselves which id they are for. A library is opened from
where it lies, after its bytes were checked. Files are only ever added, each at once, so that any
number of processes can share the folder; one that is damaged counts as missing, and is replaced
once a process has it again.
"""

from __future__ import annotations

import os
import types
from typing import Any

from hotstart._core import Container, build_container, dumps, loads, publish, sha256_hex
from hotstart.container import SectionKind
from hotstart.log import logger, one_line

_FOLDER = "kernels"


class KernelStore:
    """The kernels below ``folder`` that were made for ``environment``."""

    def __init__(self, folder: str, environment: str) -> None:
        self._libraries = os.path.join(folder, _FOLDER)
        self._index = os.path.join(self._libraries, environment)

    def exists(self) -> bool:
        return os.path.isdir(self._index)

    def find(self, kernel: str) -> tuple[str, str] | None:
        """The file of a kernel's library and its SHA-256, None where it is not here or damaged."""
        checksum = self._read(kernel, SectionKind.LIBRARY, kernel)
        if not isinstance(checksum, str):
            return None
        library = self._library(checksum)
        try:
            with open(library, "rb") as file:
                found = sha256_hex(file.read())
        except (OSError, ValueError):
            return None
        if found != checksum:
            logger.warning("the kernel library %s is damaged", library)
            return None
        return library, checksum

    def add(self, kernel: str, library: str) -> None:
        """Copies the file ``library`` into the store, unless it is there. Raises OSError."""
        if self.find(kernel) is not None:
            return
        with open(library, "rb") as file:
            content = file.read()
        checksum = sha256_hex(content)
        self._make_folders()
        publish(self._library(checksum), content)
        self._write(kernel, SectionKind.LIBRARY, kernel, checksum)

    def find_code(self, wrapper: str) -> types.CodeType | None:
        """The code object of a wrapper, None where it is not here or damaged."""
        code = self._read(f"{wrapper}.code", SectionKind.WRAPPER, wrapper)
        return code if isinstance(code, types.CodeType) else None

    def add_code(self, wrapper: str, code: types.CodeType) -> None:
        """Puts the code object of a wrapper into the store, unless it is there. Raises OSError."""
        if self.find_code(wrapper) is None:
            self._make_folders()
            self._write(f"{wrapper}.code", SectionKind.WRAPPER, wrapper, code)

    def _read(self, name: str, kind: SectionKind, of: str) -> Any:
        """What the index's file ``name`` says of the kernel or wrapper ``of``."""
        file = os.path.join(self._index, name)
        try:
            written_for, value = loads(Container.open(file).get(kind))
        except FileNotFoundError:
            return None
        except Exception as e:
            logger.warning("the kernel store's file %s cannot be read: %s", file, one_line(e))
            return None
        if written_for != of:
            logger.warning("the kernel store's file %s is that of %s", file, written_for)
            return None
        return value

    def _write(self, name: str, kind: SectionKind, of: str, value: Any) -> None:
        content = build_container([(kind, 0, 0, dumps((of, value)))])
        publish(os.path.join(self._index, name), content)

    def _make_folders(self) -> None:
        for folder in (self._libraries, self._index):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def _library(self, checksum: str) -> str:
        return os.path.join(self._libraries, f"{checksum}.so")
