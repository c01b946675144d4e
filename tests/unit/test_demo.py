"""How the demo measures: the clock, the import hook, the figures and the table."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotstart import cli
from hotstart.demo import child, figures, machine, measure, table
from hotstart.demo.measure import HOTSTART, TORCH, MeasurementFailed, Plan, Result, Run, SideResult


class Ticks:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 0

    def perf_counter_ns(self) -> int:
        return self.now


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    fake = Ticks()
    monkeypatch.setattr(child.time, "perf_counter_ns", fake.perf_counter_ns)
    return fake


def test_each_moment_belongs_to_the_innermost_phase(ticks: Ticks) -> None:
    clock = child.PhaseClock()
    clock.start()
    ticks.now += 1
    with clock.phase("install"):
        ticks.now += 10
        with clock.phase("guards"):
            ticks.now += 100
        with clock.phase("guards"):
            ticks.now += 200
        ticks.now += 20
    ticks.now += 2
    clock.stop()
    assert clock.ns == {"other": 3, "install": 30, "guards": 300}


def test_a_phase_ends_when_its_code_raises(ticks: Ticks) -> None:
    clock = child.PhaseClock()
    clock.start()

    def fail() -> None:
        ticks.now += 5
        raise KeyError

    with pytest.raises(KeyError):
        clock.timed(fail, "read")()
    ticks.now += 1
    clock.stop()
    assert clock.ns == {"read": 5, "other": 1}


def test_outside_the_stretch_and_in_other_threads_nothing_is_timed(ticks: Ticks) -> None:
    clock = child.PhaseClock()
    work = clock.timed(lambda: None, "read")
    work()
    clock.start()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    clock.stop()
    work()
    assert clock.ns == {"other": 0}


@pytest.fixture
def watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[child.PhaseClock, child.ImportWatch]]:
    clock = child.PhaseClock()
    watch = child.ImportWatch(clock)
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    with watch.installed():
        yield clock, watch
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_imports_are_timed_and_their_functions_wrapped(
    watched: tuple[child.PhaseClock, child.ImportWatch],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, watch = watched
    (tmp_path / "stack_a.py").write_text("import stack_b")
    (tmp_path / "stack_b.py").write_text("class Store:\n    def load(self): return 7")
    monkeypatch.setitem(child.TIMED, "stack_b", {"Store.load": "read", "Gone.load": "read"})
    clock.start()
    stack = importlib.import_module("stack_a")
    assert stack.stack_b.Store().load() == 7
    clock.stop()
    assert clock.ns.keys() == {"other", "import compiler", "read"}
    assert watch.missing == ["stack_b.Gone.load"]


def test_an_import_belongs_to_whoever_owns_or_asks_for_it() -> None:
    clock = child.PhaseClock()
    watch = child.ImportWatch(clock)
    clock.start()
    assert watch._phase_of("torch._dynamo") == "import compiler"
    assert watch._phase_of("hotstart.store") == "import hotstart"
    assert watch._phase_of("sympy") == "import compiler"
    with clock.phase("import hotstart"):
        assert watch._phase_of("sqlite3") == "import hotstart"
        assert watch._phase_of("torch.fx") == "import compiler"


def run_of(total: float, **changes: object) -> Run:
    fields: dict[str, object] = {
        "import_torch_ms": 1000.0,
        "phases_ms": {"import compiler": total - 3, "read": 1.0, "other": 2.0},
        "total_ms": total,
        "second_call_ms": 0.5,
        "peak_rss_mb": 350.0,
        "compiled_frames": 0,
        "served": True,
        "not_timed": [],
        "output": {"agrees": True, "max_difference": 1e-7, "sha256": "a"},
    }
    return Run(**(fields | changes))  # type: ignore[arg-type]


def result_of(torch_ms: float, hotstart_ms: float, layers: int = 24) -> Result:
    sides = {
        TORCH: SideResult(run_of(26_000), [run_of(torch_ms + i) for i in (-5, 0, 7)]),
        HOTSTART: SideResult(run_of(25_000), [run_of(hotstart_ms) for _ in range(3)]),
    }
    return Result(Plan(layers, rounds=3), sides)


def test_medians_spread_and_ratio() -> None:
    result = result_of(3000, 20)
    torch_side = result.sides[TORCH]
    assert torch_side.total_ms() == 3000
    assert torch_side.total_mad_ms() == 5
    assert torch_side.phase_ms("read") == 1
    assert torch_side.phase_ms("never") is None
    assert result.ratio() == 150
    assert result.problems() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"served": False}, "did not find it"),
        ({"compiled_frames": 2}, "compiled 2 frames"),
        ({"output": {"agrees": False, "max_difference": 1.0, "sha256": "b"}}, "differs from eager"),
    ],
)
def test_figures_that_prove_nothing_are_a_problem(changes: dict[str, object], problem: str) -> None:
    result = result_of(3000, 20)
    result.sides[HOTSTART].loads.append(run_of(20, **changes))
    (found,) = result.problems()
    assert found.startswith("hotstart: ")
    assert problem in found
    assert f"PROBLEM: {found}" in table.text(result)


def test_the_table_has_every_phase_and_the_ratio() -> None:
    lines = [" ".join(line.split()) for line in table.text(result_of(3000, 20)).splitlines()]
    assert "ms, median torch's own hotstart ratio" in lines
    assert "import compiler 2,997 17.00 176.29x" in lines
    assert "read 1.00 1.00 1.00x" in lines
    assert "total 3,000 20.00 150.00x" in lines
    assert "all compiled outputs are equal to the bit" in lines


def test_the_table_shows_where_hotstart_is_slower() -> None:
    assert "0.50x" in table.text(result_of(1000, 2000))


def test_hotstart_warnings_are_shown_once() -> None:
    result = result_of(3000, 20)
    line = "WARNING hotstart: f: cannot read its package: ValueError"
    result.sides[HOTSTART].loads += [run_of(20, said=f"noise\n{line}\n")] * 2
    assert table.text(result).count(line) == 1


def test_markdown_has_a_line_for_each_number_of_layers_and_the_growth() -> None:
    lines = table.markdown([result_of(3000, 20, 12), result_of(3240, 26, 24)]).splitlines()
    assert lines[0] == "| layers | torch's own, ms | hotstart, ms | ratio |"
    assert lines[2] == "| 12 | 3,000 \u00b1 5.00 | 20.00 \u00b1 0.00 | 150.00x |"
    assert lines[-1] == "Growth: torch's own: 20.00 ms a layer; hotstart: 0.50 ms a layer."


FAKE_CHILD = """
    import json, os, sys
    args = dict(a[2:].split("=", 1) for a in sys.argv[1:])
    with open(os.environ["FAKE_LOG"], "a") as log:
        env = {k: v for k, v in os.environ.items() if "TORCH" in k or "HOTSTART" in k}
        log.write(json.dumps([args, env]) + "\\n")
    run = json.loads(os.environ["FAKE_RUN"])
    open(args["result"], "w").write(json.dumps(run))
"""


@pytest.fixture
def fake_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(FAKE_CHILD))
    log = tmp_path / "log"
    fields = vars(run_of(10)).copy()
    del fields["said"]
    monkeypatch.setattr(measure, "_CHILD", script)
    monkeypatch.setenv("FAKE_LOG", str(log))
    monkeypatch.setenv("FAKE_RUN", json.dumps(fields))
    return log


def test_sides_compile_once_and_take_turns(
    fake_child: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    monkeypatch.setenv("HOTSTART_DISABLE", "1")
    said: list[str] = []
    result = measure.measure(Plan(layers=3, rounds=2, warmups=1), said.append)
    calls = [json.loads(line) for line in fake_child.read_text().splitlines()]
    assert [(args["mode"], args["side"]) for args, _ in calls] == [
        ("save", "torch"),
        ("save", "hotstart"),
        ("load", "hotstart"),
        ("load", "torch"),
        ("load", "torch"),
        ("load", "hotstart"),
        ("load", "hotstart"),
        ("load", "torch"),
    ]
    assert {args["layers"] for args, _ in calls} == {"3"}
    assert [len(side.loads) for side in result.sides.values()] == [2, 2]
    assert len(said) == len(calls)
    for args, env in calls:
        assert "TORCH_LOGS" not in env
        assert "HOTSTART_DISABLE" not in env
        assert ("TORCH_CACHING_PRECOMPILE" in env) == (args["side"] == "torch")
    folders = {(args["side"], env["TORCHINDUCTOR_CACHE_DIR"]) for args, env in calls}
    assert len(folders) == len({folder for _, folder in folders}) == 2


def test_a_process_that_fails_says_why(fake_child: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_RUN", "not json")
    with pytest.raises(MeasurementFailed, match=r"(?s)the torch process that should save.*JSON"):
        measure.measure(Plan(layers=3), lambda _: None)


def test_the_machine_is_described_without_its_name() -> None:
    described = machine.describe()
    assert described.keys() == {"processor", "cores", "system", "python", "torch", "hotstart"}
    assert str(described["python"]) in machine.one_line()


def test_figures_are_written_as_json(tmp_path: Path) -> None:
    file = figures.new_file(str(tmp_path / "figures.json"))
    figures.write(file, [result_of(3000, 20)])
    written = json.loads(file.read_text())
    assert written["machine"] == machine.describe()
    (run,) = written["runs"]
    assert (run["layers"], run["rounds"], run["ratio"], run["problems"]) == (24, 3, 150, [])
    torch_side = run["sides"]["torch"]
    assert torch_side["median_ms"]["total_mad"] == 5
    assert [load["total_ms"] for load in torch_side["loads"]] == [2995, 3000, 3007]


def test_a_folder_that_is_not_there_is_refused_before_measuring(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["demo", f"--json={tmp_path / 'none' / 'x.json'}"])
    assert "there is no such folder" in capsys.readouterr().err
