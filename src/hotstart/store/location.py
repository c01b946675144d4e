"""The folder of the store."""

from __future__ import annotations

import os
import sys


def store_folder() -> str:
    """`HOTSTART_DIR`; else `hotstart` under `TORCHINDUCTOR_CACHE_DIR`; else under the user's cache
    folder."""
    if chosen := os.environ.get("HOTSTART_DIR"):
        return os.path.abspath(chosen)
    if inductor := _chosen_inductor_folder():
        return os.path.join(os.path.abspath(inductor), "hotstart")
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(user_cache, "hotstart")


def _chosen_inductor_folder() -> str | None:
    """`TORCHINDUCTOR_CACHE_DIR` as the user set it.

    torch sets it too, to a default below /tmp, once anything asks for its cache folder.
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    utils = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    if utils is not None and folder == utils.default_cache_dir():
        return None
    return folder
