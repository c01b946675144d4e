"""As `_child.py`, and what the process started and wrote: its lists `started` and `wrote`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import _audit
import torch  # noqa: F401  (builds of torch for GPUs start a process when they are imported)

if __name__ == "__main__":
    _audit.listen()
    out, sys.stdout = sys.stdout, sys.stderr
    import _child

    said = _child.main(*sys.argv[1:])
    print(json.dumps({**said, "started": _audit.started, "wrote": _audit.wrote}), file=out)
