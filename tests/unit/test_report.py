"""The record of what hit, what missed and why."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from hotstart import report
from hotstart.report import GivenUp, GuardCount, Outcome


@pytest.fixture(autouse=True)
def empty_record() -> Iterator[None]:
    report.clear()
    yield
    report.clear()


def only_row() -> report.FunctionRecord:
    (row,) = report.explain().rows
    return row


def test_nothing_recorded_says_so() -> None:
    assert "no compiled function" in str(report.explain())
    assert report.explain().to_dict() == {"functions": []}


def test_a_row_starts_as_recorded() -> None:
    report.record("m.f", Outcome.MISS, "there is no package", key="k")
    row = only_row()
    assert (row.function, row.outcome, row.reason, row.key) == (
        "m.f",
        Outcome.MISS,
        "there is no package",
        "k",
    )
    assert not row.saved


@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_last_outcome_and_its_reason_count(outcome: Outcome) -> None:
    row = report.record("m.f", Outcome.MISS, "first")
    getattr(row, outcome.value)("last")
    assert (only_row().outcome, only_row().reason) == (outcome, "last")


def test_phases_add_up_and_survive_exceptions() -> None:
    row = report.record("m.f", Outcome.HIT)
    row.add_ms("read", 1.5)
    row.add_ms("read", 0.25)
    with pytest.raises(ZeroDivisionError), row.phase("guards"):
        _ = 1 / 0
    phases = only_row().phases_ms
    assert phases["read"] == 1.75
    assert phases["guards"] > 0


def test_a_phase_does_not_count_those_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(report.time, "perf_counter_ns", lambda: now)
    row = report.record("m.f", Outcome.HIT)
    with row.phase("install"):
        now += 1_000_000
        with row.phase("guards"):
            now += 20_000_000
            with row.phase("read"):
                now += 300_000_000
        with row.phase("guards"):
            now += 4_000_000
        now += 2_000_000
    with row.phase("install"):
        now += 5_000_000
    assert only_row().phases_ms == {"read": 300, "guards": 24, "install": 8}


def test_guards_are_counted_by_kind() -> None:
    row = report.record("m.f", Outcome.HIT)
    row.count_guards({"TENSOR_MATCH": 3}, kept=True)
    row.count_guards({"TENSOR_MATCH": 2, "ID_MATCH": 1}, kept=False)
    assert only_row().guards == {
        "TENSOR_MATCH": GuardCount(5, 3, 2),
        "ID_MATCH": GuardCount(1, 0, 1),
    }


def test_an_explanation_does_not_change_afterwards() -> None:
    row = report.record("m.f", Outcome.MISS)
    before = report.explain()
    row.hit("2 variants")
    row.note("later")
    row.give_up("m.f", "later")
    row.add_ms("read", 1)
    row.count_guards({"A": 1}, kept=True)
    assert before.rows[0] == report.FunctionRecord("m.f", Outcome.MISS)


def test_find_returns_the_newest_row_of_a_key() -> None:
    report.record("m.f", Outcome.MISS, key="k")
    second = report.record("m.f", Outcome.HIT, key="k")
    assert report.find("k") is second
    assert report.find("unknown") is None


def test_rows_written_after_clear_are_not_seen() -> None:
    row = report.record("m.f", Outcome.MISS)
    report.clear()
    row.hit("late")
    assert report.explain().rows == ()


def test_the_oldest_rows_go_first() -> None:
    for i in range(report.MAX_ROWS + 5):
        report.record(f"m.f{i}", Outcome.MISS)
    rows = report.explain().rows
    assert len(rows) == report.MAX_ROWS
    assert rows[0].function == "m.f5"


def test_printed_form() -> None:
    row = report.record("models.GPT.forward", Outcome.HIT)
    row.hit("1 variant")
    row.add_ms("read", 0.4)
    row.add_ms("guards", 14)
    row.saved = True
    row.note("cannot save its package: OSError: disk full")
    row.give_up("models.helper", "a guard on a local class")
    row.count_guards({"TENSOR_MATCH": 2}, kept=True)
    row.count_guards({"TENSOR_MATCH": 1, "ID_MATCH": 3}, kept=False)
    report.record("models.g", Outcome.MISS, "there is no package").add_ms("install", 1)
    lines = str(report.explain()).splitlines()
    assert [" ".join(line.split()) for line in lines[:3]] == [
        "function outcome read ms guards ms install ms saved reason",
        "models.GPT.forward hit 0.40 14.00 - yes 1 variant",
        "models.g miss - - 1.00 - there is no package",
    ]
    assert lines[3:] == [
        "",
        "models.GPT.forward:",
        "  cannot save its package: OSError: disk full",
        "  gave up a variant of models.helper: a guard on a local class",
        "  guards: 6 recorded, 2 kept, 4 given up (ID_MATCH 3, TENSOR_MATCH 1)",
    ]


def test_dict_form_is_json() -> None:
    row = report.record("m.f", Outcome.BYPASS, "no code object", key="k")
    row.give_up("m.g", "why")
    row.count_guards({"A": 1}, kept=True)
    (function,) = json.loads(json.dumps(report.explain().to_dict()))["functions"]
    assert function["outcome"] == "bypass"
    assert function["given_up"] == [{"function": "m.g", "reason": "why"}]
    assert function["guards"]["A"] == {"recorded": 1, "kept": 1, "given_up": 0}


def test_threads_lose_nothing() -> None:
    shared = report.record("m.shared", Outcome.MISS)
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for i in range(200):
            shared.add_ms("read", 1.0)
            shared.count_guards({"A": 1}, kept=True)
            shared.give_up("m.shared", f"{number}.{i}")
            report.record(f"m.f{number}.{i}", Outcome.MISS)
            report.explain()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = report.explain().rows
    assert len(rows) == 1 + 8 * 200
    assert rows[0].phases_ms == {"read": 1600.0}
    assert rows[0].guards == {"A": GuardCount(1600, 1600, 0)}
    assert len(set(rows[0].given_up)) == 1600
    assert GivenUp("m.shared", "7.199") in rows[0].given_up


def test_a_failure_is_one_warning_line(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("hotstart")
    with caplog.at_level(logging.DEBUG, "hotstart"):
        reason = report.failure(logger, "m.f", "read its package", ValueError("two\n  lines"))
    assert reason == "cannot read its package: ValueError: two lines"
    warning, debug = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.getMessage() == f"m.f: {reason}"
    assert warning.exc_info is None
    assert debug.levelno == logging.DEBUG
    assert debug.exc_info is not None


def test_a_failure_without_text_names_its_class() -> None:
    logger = logging.getLogger("hotstart")
    assert report.failure(logger, "m.f", "load", KeyError()) == "cannot load: KeyError"


def test_imports_no_torch() -> None:
    code = "import sys, hotstart.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
