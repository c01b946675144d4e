"""A folder of compiled kernels that tests copy as the start of their inductor cache.

Probing the vector ISA and compiling the first kernel cost ten seconds in an empty folder, none of
them about what is being tested. The graph caches are left out, so every test still compiles its
graphs; only g++ finds its work done.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import torch
two, one = torch.ones(4, 4), torch.ones(4)
both = (lambda x: x * 2, lambda x: x * 3, lambda x: x + 1, lambda x: x + 2)
flat = (
    lambda x: x + x,
    lambda x: (x + 1) * 2,
    lambda x: x * 2 + 1,
    lambda x: x * 2 * 2,
    lambda x: torch.relu(x),
    lambda x: torch.ones(4),
)
for fn in both:
    torch.compile(fn, dynamic=False)(two)
for fn in (*both, *flat):
    torch.compile(fn, dynamic=False)(one)
torch.compile(lambda x, y: x + y)(one, two[0])
for dtype in (torch.bfloat16, torch.float16):
    with torch.autocast("cpu", dtype):
        torch.compile(lambda x: x @ x)(two)
"""


def kernel_seed(config: pytest.Config) -> Path:
    """The seed folder, made on first use and kept between runs under pytest's cache."""
    import torch

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    version = hashlib.sha256(_PROGRAM.encode()).hexdigest()[:8]
    assert config.cache is not None
    seed = Path(config.cache.mkdir(f"kernels-{python}-{torch.__version__}-{version}"))
    done = seed / ".done"
    if not done.exists():
        env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(seed))
        subprocess.run([sys.executable, "-c", _PROGRAM], env=env, check=True, timeout=300)
        for graphs in ("fxgraph", "aotautograd", "locks"):
            shutil.rmtree(seed / graphs, ignore_errors=True)
        done.touch()
    return seed
