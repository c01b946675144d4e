"""A call that a loaded variant refuses is explained as a call that a compiled one refuses."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.exc import RecompileError

import hotstart
from hotstart import report

pytestmark = pytest.mark.usefixtures("kernels")

X = torch.ones(4)
PROGRAM = """\
K = 3


def fn(x, n=1):
    return x * K + n
"""
REASON = "tensor 'x' dtype mismatch. expected Float, actual Double"


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    report.clear()
    yield
    hotstart.disable()


@pytest.fixture
def loaded(program: Any, compiles: Callable[[], int]) -> Any:
    """The module of `PROGRAM` and its function, served by a package."""
    hotstart.enable()
    torch.compile(program(PROGRAM).fn)(X)
    hotstart.save()
    module = program.restart()
    compiled = torch.compile(module.fn)
    assert torch.equal(compiled(X), X * 4)
    assert compiles() == 0
    return module, compiled


def missed() -> list[tuple[str, ...]]:
    return [call.reasons for call in hotstart.explain().rows[-1].missed]


def test_a_hit_is_no_miss(loaded: Any) -> None:
    assert missed() == []


def test_explain_names_the_guard(loaded: Any) -> None:
    _, compiled = loaded
    assert torch.equal(compiled(X.double()), X.double() * 4)
    ((reason,),) = missed()
    assert reason == f"loaded: {REASON}"
    assert f"a call of fn missed: loaded: {REASON}" in str(hotstart.explain())


def test_what_the_loading_program_changed(loaded: Any) -> None:
    module, compiled = loaded
    module.K = 5
    assert torch.equal(compiled(X), X * 6)
    ((reason,),) = missed()
    assert "G['K'] == 3" in reason


def test_the_log_of_recompiles(loaded: Any, caplog: pytest.LogCaptureFixture) -> None:
    _, compiled = loaded
    torch._logging.set_logs(recompiles=True)
    log = logging.getLogger("torch._dynamo.guards.__recompiles")
    log.addHandler(caplog.handler)
    try:
        compiled(X.double())
    finally:
        log.removeHandler(caplog.handler)
        torch._logging.set_logs()
    (message,) = {r.getMessage() for r in caplog.records if "Recompiling" in r.getMessage()}
    assert "Recompiling function fn" in message
    assert REASON in message


def test_the_stance_that_forbids_recompiles(loaded: Any) -> None:
    _, compiled = loaded
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(X), X * 4)
        with pytest.raises(RuntimeError, match=re.escape("dtype mismatch. expected Float")):
            compiled(X.double())


def test_the_stance_shows_the_tree(loaded: Any) -> None:
    _, compiled = loaded
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match=r"EQUALS_MATCH: G\['K'\] == 3"),
    ):
        compiled(X.double())


def test_recompiles_are_errors_where_the_user_says_so(loaded: Any) -> None:
    _, compiled = loaded
    with (
        torch._dynamo.config.patch(error_on_recompile=True),
        pytest.raises(RecompileError, match="dtype mismatch"),
    ):
        compiled(X.double())
    assert len(missed()) == 1


def test_an_explanation_that_fails_does_not_stop_the_program(
    loaded: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("nothing to say")

    monkeypatch.setattr("hotstart.dropin.compile_package.tell_reasons", fail)
    _, compiled = loaded
    assert torch.equal(compiled(X.double()), X.double() * 4)
    assert "cannot explain a miss: ValueError: nothing to say" in caplog.text


def test_only_the_newest_misses_are_kept() -> None:
    row = report.record("m.f", report.Outcome.HIT)
    for number in range(report.MAX_MISSED + 5):
        row.missed("f", [str(number)])
    calls = hotstart.explain().rows[-1].missed
    assert len(calls) == report.MAX_MISSED
    assert calls[-1].reasons == (str(report.MAX_MISSED + 4),)
