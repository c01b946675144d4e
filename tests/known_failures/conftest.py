"""Runs a table of scenarios once for each mode and keeps the outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from _scenario import Outcome, Scenario, run
from _seed import kernel_seed

Outcomes = Callable[[str], dict[str, Outcome]]


@pytest.fixture(scope="session")
def run_table(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Sequence[Scenario], str], dict[str, Outcome]]:
    """The outcomes of a table in a mode, from one run however many tests ask for them."""
    known: dict[tuple[str, str], dict[str, Outcome]] = {}

    def outcomes(table: Sequence[Scenario], mode: str) -> dict[str, Outcome]:
        pytest.importorskip("torch")
        if mode == "hotstart":
            pytest.importorskip("hotstart.package")
        key = (table[0].name, mode)
        if key not in known:
            folder: Path = tmp_path_factory.mktemp(f"scenarios-{mode}-")
            known[key] = run(table, mode, folder, kernel_seed(pytestconfig))
        return known[key]

    return outcomes
