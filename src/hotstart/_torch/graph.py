"""Graphs that Dynamo captured. Checked on torch 2.13.0 and 2.14.1."""

from __future__ import annotations

from typing import Any

from torch._dynamo.graph_utils import _graph_device_type


def device_type_of(graph: Any) -> str:
    """The kind of device that ``graph`` (None: no graph) computes on, "cpu" where it says none."""
    return str(_graph_device_type(graph))
