"""hotstart: what ``torch.compile`` compiled once starts warm, anywhere."""

from __future__ import annotations

from hotstart.errors import CorruptPackageError, HotstartError, UnsupportedValueError
from hotstart.integration.switch import disable, enable, save
from hotstart.report import explain

__version__ = "0.1.0"

__all__ = [
    "CorruptPackageError",
    "HotstartError",
    "UnsupportedValueError",
    "disable",
    "enable",
    "explain",
    "save",
]
