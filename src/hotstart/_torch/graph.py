"""Graphs that Dynamo captured. Checked on torch 2.13.0, 2.14.1 and 2.15.0."""

from __future__ import annotations

from typing import Any

from torch._dynamo import graph_utils


def device_type_of(graph: Any) -> str:
    """The kind of device that ``graph`` (None: no graph) computes on, "cpu" where it says none."""
    if hasattr(graph_utils, "_graph_device_type"):  # to 2.14
        return str(graph_utils._graph_device_type(graph))
    return leading(graph_utils._graph_device_types(graph))


def leading(device_types: frozenset[str]) -> str:
    """The kind that a package records of those its graphs use: one whose name is checked at load,
    else the first that is not "cpu", in the order of the alphabet."""
    checked = [kind for kind in ("cuda", "xpu") if kind in device_types]
    return next(iter([*checked, *sorted(device_types - {"cpu"})]), "cpu")
