"""Opening a container, getting a section, hashing and publishing.

Best and median of many rounds, in microseconds. The file is in the page cache; every round opens it
anew, so mapping, page faults and the first verification are part of it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hotstart import _core
from hotstart._core import Container, build_container, publish
from hotstart.source_hash import hash_lines

MB = 1 << 20


def measure(name: str, work: Callable[[], object], rounds: int) -> None:
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e6)
    print(f"| {name} | {min(times):.1f} | {statistics.median(times):.1f} | {rounds} |")


def bench_container(
    name: str, sections: list[tuple[int, int, int, bytes]], folder: Path, rounds: int
) -> None:
    path = folder / "a.hotstart"
    data = build_container(sections)
    publish(path, data)
    opened = Container.open(path)
    first, ordinal, *_ = sections[0]

    def get_all(container: Container) -> None:
        for kind, number, _, _ in sections:
            container.get(kind, number)

    measure(f"{name}: open (map)", lambda: Container.open(path), rounds)
    measure(f"{name}: open + get all", lambda: get_all(Container.open(path)), rounds)
    measure(f"{name}: read + get all", lambda: get_all(Container.read(path)), rounds)
    measure(f"{name}: get again", lambda: opened.get(first, ordinal), rounds)
    measure(f"{name}: build", lambda: build_container(sections), rounds // 4 + 1)
    measure(f"{name}: publish", lambda: publish(path, data), rounds // 20 + 1)


def bench_hash(rounds: int) -> None:
    data = os.urandom(3 * MB)
    small = data[:100]
    measure(f"sha256, 3 MB ({_core._sha256_implementation()})", lambda: _core.sha256(data), rounds)
    measure("sha256, 3 MB (portable)", lambda: _core._sha256_portable(data), rounds // 10 + 1)
    measure("hashlib.sha256, 3 MB", lambda: hashlib.sha256(data).digest(), rounds)
    measure("xxh64, 3 MB", lambda: _core.xxh64(data), rounds)
    measure("sha256_hex, 100 bytes", lambda: _core.sha256_hex(small), rounds)
    measure("hashlib.sha256, 100 bytes", lambda: hashlib.sha256(small).hexdigest(), rounds)


def bench_source(rounds: int) -> None:
    import inspect
    import linecache
    import typing

    path = inspect.getfile(typing)
    spans = [(first, first + 40) for first in range(1, 2000, 100)]

    def as_torch() -> list[str]:
        linecache.cache.pop(path, None)
        lines = linecache.getlines(path)
        return [
            hashlib.sha256("".join(lines[first - 1 : last - 1]).encode()).hexdigest()
            for first, last in spans
        ]

    assert hash_lines(path, spans) == as_torch()
    size = os.path.getsize(path) // 1024
    measure(f"{len(spans)} spans of typing.py ({size} KB)", lambda: hash_lines(path, spans), rounds)
    measure("the same through linecache and hashlib", as_torch, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs\n")
    print("| what | best, us | median, us | rounds |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        one = [(1, 0, 0, os.urandom(3 * MB))]
        many = [(4, i, 0, os.urandom(3 * MB // 60)) for i in range(60)]
        bench_container("one 3 MB section", one, Path(folder), rounds)
        bench_container("60 sections, 3 MB", many, Path(folder), rounds)
    bench_hash(rounds)
    bench_source(rounds)


if __name__ == "__main__":
    main()
