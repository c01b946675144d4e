"""What the environments were that a store has packages for, so that a miss can say what differs.

environments/<environment>    the description that the id of the environment is made of
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hotstart._core import dumps, loads, publish

_FOLDER = "environments"
_MOST_NAMED = 6


class Environments:
    """The notes below ``folder``. Whatever is not readable is not there."""

    def __init__(self, folder: str) -> None:
        self._packages = folder
        self._folder = os.path.join(folder, _FOLDER)

    def note(self, part: str, description: Mapping[str, Any]) -> None:
        """Keeps what the environment with the id ``part`` is. Raises OSError."""
        file = os.path.join(self._folder, part)
        if not os.path.exists(file):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            publish(file, dumps(dict(description)))

    def why_not(self, key: str, here: Mapping[str, Any]) -> str | None:
        """What sets ``here`` apart from an environment that there is a package of the same function
        and options for; None where there is no such package."""
        function, _, options = key.split("-")
        for name in self._names():
            parts = name.split("-")
            if len(parts) == 3 and (parts[0], parts[2]) == (function, options):
                return "another " + ", ".join(self._differences(parts[1], here))
        return None

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._packages))
        except OSError:
            return []

    def _differences(self, part: str, here: Mapping[str, Any]) -> list[str]:
        try:
            with open(os.path.join(self._folder, part), "rb") as file:
                there = loads(file.read())
        except (OSError, ValueError):
            return ["environment"]
        found = list(_differing(there, here))
        more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
        return [*found[:_MOST_NAMED], *more] or ["environment"]


def _differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(there.keys() | here.keys()):
        was, now = there.get(name), here.get(name)
        if was == now:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            yield from (f"{name}.{inner}" for inner in _differing(was, now))
        else:
            yield name
