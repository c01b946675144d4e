"""Makes the codec's golden files for the Python that runs it. See README.md in this folder.

Never changes a file that is there: a format that changes gets a folder of its own.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "v1"
sys.path.insert(0, str(HERE.parents[1] / "codec"))

from codec_samples import VALUES, module_code, nested_codes  # noqa: E402
from test_codec_code import features  # noqa: E402

from hotstart._core import dumps  # noqa: E402


def code_samples() -> dict[str, types.CodeType]:
    """Code whose expected value is kept in marshal's form, for compilers change."""
    heapq = {code.co_name: code for code in nested_codes(module_code("heapq"))}
    return {"features": features(), "heapq_merge": heapq["merge"]}


def put(path: Path, data: bytes) -> None:
    if path.exists():
        print(f"kept   {path.relative_to(HERE)}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    print(f"wrote  {path.relative_to(HERE)}")


def main() -> None:
    for name, value in VALUES.items():
        put(FOLDER / "any" / f"{name}.bin", dumps(value))
    python = "py{}{}".format(*sys.version_info[:2])
    for name, code in code_samples().items():
        put(FOLDER / python / f"{name}.bin", dumps(code))
        put(FOLDER / python / f"{name}.marshal", marshal.dumps(code, 2))
    manifest = {
        str(path.relative_to(FOLDER)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    (FOLDER / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
