"""The records of a package: what `torch.compile` has to know to serve what it compiled before."""

from __future__ import annotations

import dataclasses
import platform
from typing import Any, ClassVar, NewType

import torch
from torch.utils._triton import get_triton_version

from hotstart._torch import telemetry
from hotstart.dropin.code import SerializedCode
from hotstart.dropin.sources import SourceInfo
from hotstart.log import logger

# A graph's name in the globals of the frame that calls it: `__compiled_fn_...`.
_BackendId = NewType("_BackendId", str)
# A resume function's name there: `__resume_at_...`, or a user function's qualified name.
_FunctionId = NewType("_FunctionId", str)

_Backends = dict[_BackendId, Any]


@dataclasses.dataclass
class _GuardedCodeCacheEntry:
    """One compilation of one code object: the bytecode Dynamo made and when it may run."""

    guards_state: bytes
    dynamo_code: SerializedCode


@dataclasses.dataclass
class _DynamoCodeCacheEntry:
    """One code object and all compilations of it.

    ``python_module`` owns the globals into which the names of ``import_sources`` (alias to module),
    ``backend_ids`` and, with ``install_to_global``, ``function_names`` are put. Without
    ``install_to_global`` the code is a user's, found by module, function name and ``code_source``.
    A ``bypassed`` entry is kept for its place, and serves nothing.
    """

    python_code: SerializedCode
    python_module: str
    function_names: list[_FunctionId]
    guarded_codes: list[_GuardedCodeCacheEntry]
    import_sources: dict[str, str]
    backend_ids: list[_BackendId]
    code_source: str | None
    install_to_global: bool
    has_compile_id: bool = False
    bypassed: bool = False


@dataclasses.dataclass(frozen=True)
class SystemInfo:
    """The versions and the GPU that a package was made with."""

    python_version: str
    torch_version: str
    toolkit_version: str | None
    triton_version: tuple[int, int] | None
    gpu_name: str | None
    CHECK_GPUS: ClassVar[tuple[str, ...]] = ("cuda", "xpu")

    @classmethod
    def current(cls) -> SystemInfo:
        """This process's; a GPU that cannot be asked counts as none."""
        gpu_name, toolkit_version = None, None
        for device_type in cls.CHECK_GPUS:
            device = getattr(torch, device_type)
            if device.is_available():
                try:
                    gpu_name = device.get_device_name()
                    toolkit_version = getattr(torch.version, device_type)
                    break
                except Exception as e:
                    logger.debug("cannot ask %s for its name: %s", device_type, e)
        return cls(
            python_version=platform.python_version(),
            torch_version=str(torch.__version__),
            toolkit_version=toolkit_version,
            triton_version=get_triton_version((0, 0)),
            gpu_name=gpu_name,
        )

    def check_compatibility(self, other: SystemInfo, device_type: str = "cpu") -> None:
        """Raises RuntimeError that names what differs, if a package made on ``self`` cannot be
        used on ``other``; what is about GPUs counts for a GPU's ``device_type`` only."""
        made_with = "Compile package was created with a different"
        if self.python_version != other.python_version:
            raise RuntimeError(f"{made_with} Python version: {self.python_version}")
        if self.torch_version != other.torch_version:
            raise RuntimeError(f"{made_with} PyTorch version: {self.torch_version}")
        if device_type not in self.CHECK_GPUS:
            return
        if not getattr(torch, device_type).is_available():
            raise RuntimeError(f"{device_type} is not available")
        if self.toolkit_version != other.toolkit_version:
            raise RuntimeError(f"{made_with} toolkit version: {self.toolkit_version}")
        if other.triton_version not in ((0, 0), self.triton_version):
            raise RuntimeError(f"{made_with} Triton version: {self.triton_version}")
        if other.gpu_name is not None and self.gpu_name != other.gpu_name:
            raise RuntimeError(
                "Compile package was created with different GPU: "
                f"cached={self.gpu_name}, current={other.gpu_name}"
            )


@dataclasses.dataclass
class _DynamoCacheEntry:
    """Everything of a package but its backends; the function's own code comes first."""

    codes: list[_DynamoCodeCacheEntry]
    source_info: SourceInfo
    device_type: str
    system_info: SystemInfo = dataclasses.field(default_factory=SystemInfo.current)
    fn_name: str | None = None
    fn_first_lineno: str | None = None

    @property
    def backend_ids(self) -> set[_BackendId]:
        return {backend_id for code in self.codes for backend_id in code.backend_ids}

    def check_versions(self) -> None:
        """Raises RuntimeError where this system cannot use the entry."""
        self.system_info.check_compatibility(SystemInfo.current(), self.device_type)

    def debug_info(self) -> dict[str, Any]:
        if not self.codes:
            raise AssertionError("Expected at least one code entry")
        return {
            "num_codes": str(len(self.codes)),
            "fn_name": self.fn_name,
            "fn_first_lineno": self.fn_first_lineno,
            "device_type": self.device_type,
            "backend_ids": list(self.backend_ids),
        }


@dataclasses.dataclass
class PrecompileCacheEntry:
    """A whole package: what Dynamo made, and each backend's artifact by its id."""

    dynamo: _DynamoCacheEntry
    backends: _Backends

    @staticmethod
    def from_cache_entry(
        cache_entry: _DynamoCacheEntry, backends: _Backends
    ) -> PrecompileCacheEntry | None:
        """Puts ``cache_entry`` and the backends it uses together.

        A code one of whose backends is missing becomes bypassed; the others stay usable.
        """
        used: _Backends = {}
        for code in cache_entry.codes:
            missing = next((b for b in code.backend_ids if b not in backends), None)
            present = code.backend_ids
            if missing is not None:
                _report_missing_backend(cache_entry, missing)
                code.bypassed = True
                present = code.backend_ids[: code.backend_ids.index(missing)]
            used.update({backend_id: backends[backend_id] for backend_id in present})
        return PrecompileCacheEntry(dynamo=cache_entry, backends=used)


def _report_missing_backend(entry: _DynamoCacheEntry, missing: _BackendId) -> None:
    logger.warning("Backend not found: %s of %s", missing, entry.fn_name)
    telemetry.trace_artifact(
        "dynamo_cache_bypass",
        lambda: {"entry": entry.debug_info(), "missing_backend": missing},
    )
