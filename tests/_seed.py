"""A folder of compiled kernels that tests copy as the start of their inductor cache.

Probing the vector ISA and compiling the first kernel cost ten seconds in an empty folder, none of
them about what is being tested. The graph caches are left out, so every test still compiles its
graphs; only g++ finds its work done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import torch
for shape in ((4, 4), (4,)):
    for fn in (lambda x: x * 2, lambda x: x * 3, lambda x: x + 1, lambda x: x + 2):
        torch.compile(fn, dynamic=False)(torch.ones(shape))
"""


def kernel_seed(config: pytest.Config) -> Path:
    """The seed folder, made on first use and kept between runs under pytest's cache."""
    import torch

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    seed = Path(config.cache.mkdir(f"kernels-{python}-{torch.__version__}"))  # type: ignore[union-attr]
    done = seed / ".done"
    if not done.exists():
        env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(seed))
        subprocess.run([sys.executable, "-c", _PROGRAM], env=env, check=True, timeout=300)
        for graphs in ("fxgraph", "aotautograd", "locks"):
            shutil.rmtree(seed / graphs, ignore_errors=True)
        done.touch()
    return seed
