"""Makes the golden containers of the current format version: ``make_container.py [folder]``.

Golden files are kept for ever and never edited; this refuses to touch a folder that has some. A new
format version gets a new folder. They hold bytes that no writer bug can hide in: empty payloads,
payloads at and around the alignment, sparse ordinals, unknown kinds, flags.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from hotstart._core import Container, build_container

Section = tuple[int, int, int, bytes]

ALL_BYTES = bytes(range(256))

FILES: dict[str, list[Section]] = {
    "empty": [],
    "one": [(5, 0, 0, b"hello")],
    "kinds": [(kind, 0, 1, f"kind {kind}".encode()) for kind in range(1, 7)],
    "sizes": [
        (4, i, 0, (ALL_BYTES * 2)[:i]) for i in (0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 511)
    ],
    "ordinals": [(2, i, 0, b"x") for i in (0, 1, 7, 65536, 0xFFFF_FFFF)],
    "unknown": [(1, 0, 0, b"known"), (7, 0, 0, b"unknown"), (0xFFFF_FFFF, 3, 0, b"")],
    "flags": [(3, 0, 0xABCD_0001, b"own flags"), (99, 0, 0x8000_0000, b"high bit")],
}


def main(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} has files already; golden files are never made again")
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for name, sections in FILES.items():
        data = build_container(sections)
        (folder / f"{name}.hotstart").write_bytes(data)
        manifest[f"{name}.hotstart"] = {
            "version": Container.from_bytes(data).version,
            "sha256": hashlib.sha256(data).hexdigest(),
            "sections": [
                {"kind": k, "ordinal": o, "flags": f, "payload": p.hex()}
                for k, o, f, p in sorted(sections)
            ],
        }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    here = Path(__file__).parent / "container" / "v1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else here)
