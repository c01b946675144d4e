"""Which torch this hotstart knows."""

from __future__ import annotations

# The releases whose private names the modules of this package were checked against.
CHECKED = ("2.13", "2.14", "2.15")


def unsupported_reason(torch_version: str) -> str | None:
    """Why ``torch_version`` cannot be served, or None where it can."""
    release = ".".join(torch_version.split("+")[0].split(".")[:2])
    if release in CHECKED:
        return None
    return f"torch {torch_version} is not one of the releases hotstart knows ({', '.join(CHECKED)})"
