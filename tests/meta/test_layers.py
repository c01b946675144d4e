"""The house keeps its order: imports and includes go down, never up, and never in a circle."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hotstart"
CSRC = ROOT / "csrc"

# Lowest first. A part may import what stands before it and itself.
PYTHON_ORDER = [
    "errors",
    "log",
    "_core",
    "container",
    "codec",
    "source_hash",
    "identity",
    "report",
    "_torch",
    "guards",
    "dropin",
    "keys",
    "store",
    "inspection",
    "package",
    "integration",
    "examples",
    "demo",
    "cli",
    "__main__",
    "__init__",
]
NATIVE_ORDER = ["base", "container", "store", "python", "codec", "guards", "bind", "fuzz"]


def part_of(module: str) -> str:
    """`hotstart.store.disk` belongs to `store`; the package itself is `__init__`."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def imports_of(path: Path) -> set[str]:
    """The hotstart modules that a file imports, also inside functions, not for types only."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "hotstart"}


PYTHON_FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_python_imports_go_down(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = PYTHON_ORDER[: PYTHON_ORDER.index(own) + 1]
    upward = {
        name
        for name in imports_of(path)
        if name != "hotstart" and part_of(name) in PYTHON_ORDER and part_of(name) not in allowed
    }
    assert not upward, f"{own} must not import {sorted(upward)}"


def test_every_part_has_a_place() -> None:
    parts = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in PYTHON_FILES}
    assert parts <= set(PYTHON_ORDER)


def test_private_names_of_torch_stay_in_their_place() -> None:
    """Outside `_torch/` and the switch, no attribute of torch that begins with an underscore is
    read, but for modules and classes that the drop-in's contract names."""
    private = re.compile(r"\btorch\._C\b|\btorch\._dynamo\.(?!exc|precompile_context|package)\w")
    allowed = {"_torch", "integration", "demo"}
    offenders = {
        str(path.relative_to(PACKAGE))
        for path in PYTHON_FILES
        if path.relative_to(PACKAGE).parts[0] not in allowed and private.search(path.read_text())
    }
    assert not offenders


@pytest.mark.parametrize(
    "path",
    sorted(p for p in CSRC.rglob("*") if p.suffix in {".h", ".cpp"}),
    ids=lambda p: str(p.relative_to(CSRC)),
)
def test_native_includes_go_down(path: Path) -> None:
    own = path.relative_to(CSRC).parts[0]
    included = set(re.findall(r'#include "(\w+)/', path.read_text()))
    allowed = NATIVE_ORDER[: NATIVE_ORDER.index(own) + 1]
    assert included <= set(allowed), f"{own} must not include {sorted(included - set(allowed))}"


def test_pybind11_is_included_in_one_place() -> None:
    users = [p.name for p in CSRC.rglob("*.h") if "#include <pybind11/" in p.read_text()]
    users += [p.name for p in CSRC.rglob("*.cpp") if "#include <pybind11/" in p.read_text()]
    assert users == ["prelude.h"]


def test_public_names() -> None:
    import hotstart

    assert sorted(hotstart.__all__) == [
        "CorruptPackageError",
        "HotstartError",
        "UnsupportedValueError",
        "disable",
        "enable",
        "explain",
        "save",
    ]
    assert all(hasattr(hotstart, name) for name in hotstart.__all__)


def test_versions_agree() -> None:
    """pyproject's range of Pythons, its classifiers and torch's range are what the code says."""
    text = (ROOT / "pyproject.toml").read_text()
    minors = sorted(int(m) for m in re.findall(r"Python :: 3\.(\d+)", text))
    low, high = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', text).groups()  # type: ignore[union-attr]
    assert minors == list(range(int(low), int(high)))
    checked = re.search(r"CHECKED = \(([^)]*)\)", (PACKAGE / "_torch/versions.py").read_text())
    releases = re.findall(r'"(\d+)\.(\d+)"', checked.group(1))  # type: ignore[union-attr]
    low_torch, high_torch = re.search(r"torch>=2\.(\d+),<2\.(\d+)", text).groups()  # type: ignore[union-attr]
    assert all(int(low_torch) <= int(minor) < int(high_torch) for _, minor in releases)
    assert int(releases[0][1]) == int(low_torch)
