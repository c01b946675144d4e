"""What a measurement ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def describe() -> dict[str, str | int]:
    """Processor, cores, system and versions; nothing that names the machine or its owner."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": _version("torch"),
        "hotstart": _version("hotstart"),
    }


def one_line() -> str:
    """The same, for the head of a table."""
    it = describe()
    return (
        f"{it['processor']}, {it['cores']} cores, {it['system']}, Python {it['python']}, "
        f"torch {it['torch']}, hotstart {it['hotstart']}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
