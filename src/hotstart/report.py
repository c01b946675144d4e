"""What happened to each compiled function, and why: the record behind `hotstart.explain`.

Plain data without torch, so that nothing in it can fail or import anything while a model loads.
One lock guards every row; it is held for assignments and copies only, never while other code
runs. The module is not called ``explain`` because the function of that name is an attribute of the
package.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hotstart.log import one_line

MAX_ROWS = 10_000
"""A program that compiles without end must not fill its memory with our notes: the oldest go."""

MAX_MISSED = 20
"""Calls of one function whose misses are explained."""

_NS_PER_MS = 1_000_000


class Outcome(enum.Enum):
    """What a function got from the store when it was first called."""

    HIT = "hit"
    """A package was there and serves at least one variant."""
    MISS = "miss"
    """No package, or none that fits: compiled as usual, and saved for the next time."""
    BYPASS = "bypass"
    """Compiled as usual and not saved: hotstart cannot keep this function."""


@dataclass(frozen=True)
class GuardCount:
    """Guards of one kind: each one recorded is kept or given up."""

    recorded: int = 0
    kept: int = 0
    given_up: int = 0

    def __add__(self, other: GuardCount) -> GuardCount:
        return GuardCount(
            self.recorded + other.recorded,
            self.kept + other.kept,
            self.given_up + other.given_up,
        )


@dataclass(frozen=True)
class GivenUp:
    """One compiled variant that is not in the package, or could not be served from it."""

    function: str
    reason: str


@dataclass(frozen=True)
class MissedCall:
    """A call that no loaded variant served: for each, the guard that refused, as torch words it."""

    function: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class FunctionRecord:
    """What happened to one function, at the moment `explain` was called."""

    function: str
    outcome: Outcome
    reason: str = ""
    key: str = ""
    saved: bool = False
    notes: tuple[str, ...] = ()
    phases_ms: Mapping[str, float] = field(default_factory=dict)
    given_up: tuple[GivenUp, ...] = ()
    missed: tuple[MissedCall, ...] = ()
    guards: Mapping[str, GuardCount] = field(default_factory=dict)


class Row:
    """One function's record while it is being written. Safe to use from several threads."""

    def __init__(self, function: str, outcome: Outcome, reason: str, key: str) -> None:
        self._now = FunctionRecord(function, outcome, reason, key)

    @property
    def function(self) -> str:
        return self._now.function

    @property
    def outcome(self) -> Outcome:
        return self._now.outcome

    @property
    def reason(self) -> str:
        return self._now.reason

    @property
    def key(self) -> str:
        return self._now.key

    @key.setter
    def key(self, key: str) -> None:
        self._change(key=key)

    @property
    def saved(self) -> bool:
        return self._now.saved

    @saved.setter
    def saved(self, saved: bool) -> None:
        self._change(saved=saved)

    def hit(self, reason: str = "") -> None:
        self._change(outcome=Outcome.HIT, reason=reason)

    def miss(self, reason: str) -> None:
        self._change(outcome=Outcome.MISS, reason=reason)

    def bypass(self, reason: str) -> None:
        self._change(outcome=Outcome.BYPASS, reason=reason)

    def note(self, text: str) -> None:
        """Something to know that does not change the outcome, such as a failed save."""
        with _lock:
            self._now = replace(self._now, notes=(*self._now.notes, text))

    def give_up(self, function: str, reason: str) -> None:
        """One variant of ``function`` is left out of the package, or is not served from it."""
        with _lock:
            given_up = (*self._now.given_up, GivenUp(function, reason))
            self._now = replace(self._now, given_up=given_up)

    def missed(self, function: str, reasons: Sequence[str]) -> None:
        """A call of ``function`` was served by no loaded variant: for each, the guard that
        refused. The newest `MAX_MISSED` are kept."""
        with _lock:
            missed = (*self._now.missed, MissedCall(function, tuple(reasons)))
            self._now = replace(self._now, missed=missed[-MAX_MISSED:])

    def count_guards(self, kinds: Mapping[str, int], kept: bool) -> None:
        """Adds the guards of one compiled variant, by kind: all are kept, or all given up."""
        with _lock:
            counts = dict(self._now.guards)
            for kind, n in kinds.items():
                new = GuardCount(n, n, 0) if kept else GuardCount(n, 0, n)
                counts[kind] = counts.get(kind, GuardCount()) + new
            self._now = replace(self._now, guards=counts)

    def add_ms(self, phase: str, milliseconds: float) -> None:
        """Adds to the time of a phase; a phase may run in several pieces."""
        with _lock:
            total = self._now.phases_ms.get(phase, 0.0) + milliseconds
            self._now = replace(self._now, phases_ms={**self._now.phases_ms, phase: total})

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times what runs inside, also when it raises, less the phases that ran inside it: the
        phases of a row add up to the time that it took."""
        outer_inside_ns = _phases.inside_ns
        _phases.inside_ns = 0
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            elapsed = time.perf_counter_ns() - start
            self.add_ms(name, (elapsed - _phases.inside_ns) / _NS_PER_MS)
            _phases.inside_ns = outer_inside_ns + elapsed

    def snapshot(self) -> FunctionRecord:
        return self._now

    def _change(self, **fields: Any) -> None:
        with _lock:
            self._now = replace(self._now, **fields)


class _Phases(threading.local):
    """How long the phases took that have ended inside the one that is open in this thread."""

    inside_ns = 0


_phases = _Phases()
_lock = threading.Lock()
_rows: deque[Row] = deque(maxlen=MAX_ROWS)


def record(function: str, outcome: Outcome, reason: str = "", key: str = "") -> Row:
    """Begins the row of a function."""
    row = Row(function, outcome, reason, key)
    with _lock:
        _rows.append(row)
    return row


def find(key: str) -> Row | None:
    """The newest row of the package that is filed under ``key``."""
    with _lock:
        return next((row for row in reversed(_rows) if row.key == key), None)


def clear() -> None:
    """Forgets every row. Rows that are still being written go on unseen."""
    with _lock:
        _rows.clear()


def failure(logger: logging.Logger, function: str, doing: str, error: BaseException) -> str:
    """Logs that hotstart cannot do something, as one WARNING line, and returns the reason.

    The traceback is at DEBUG: a program that runs on without us is no reason for thirty lines.
    """
    reason = f"cannot {doing}: {one_line(error)}"
    logger.warning("%s: %s", function, reason)
    logger.debug("%s: the traceback of the failure above", function, exc_info=error)
    return reason


@dataclass(frozen=True)
class Explanation:
    """What `explain` returns: read ``rows``, or print it."""

    rows: tuple[FunctionRecord, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"functions": [{**asdict(r), "outcome": r.outcome.value} for r in self.rows]}

    def __str__(self) -> str:
        if not self.rows:
            return "hotstart: no compiled function has been called yet"
        return "\n".join([*_table(self.rows), *_details(self.rows)])


def explain() -> Explanation:
    """What happened so far, oldest first: per function hit, miss or bypass, why, and how long each
    phase took."""
    with _lock:
        return Explanation(tuple(row.snapshot() for row in _rows))


def _table(rows: tuple[FunctionRecord, ...]) -> list[str]:
    phases = list(dict.fromkeys(name for row in rows for name in row.phases_ms))
    head = ["function", "outcome", *(f"{name} ms" for name in phases), "saved", "reason"]
    cells = [head] + [
        [
            row.function,
            row.outcome.value,
            *(_ms(row.phases_ms.get(name)) for name in phases),
            "yes" if row.saved else "-",
            row.reason or "-",
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    last_number = 2 + len(phases)
    return [
        "  ".join(
            cell.rjust(width) if 2 <= i < last_number else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.2f}"


def _details(rows: tuple[FunctionRecord, ...]) -> Iterator[str]:
    for row in rows:
        lines = [
            *(f"  {note}" for note in row.notes),
            *(f"  gave up a variant of {g.function}: {g.reason}" for g in row.given_up),
            *(
                f"  a call of {call.function} missed: {reason}"
                for call in row.missed
                for reason in call.reasons
            ),
            *_guards(row.guards),
        ]
        if lines:
            yield from ("", f"{row.function}:", *lines)


def _guards(counts: Mapping[str, GuardCount]) -> Iterator[str]:
    """One line for all guards; the kinds are named where some were given up."""
    if not counts:
        return
    total = sum(counts.values(), GuardCount())
    text = f"  guards: {total.recorded} recorded, {total.kept} kept, {total.given_up} given up"
    kinds = [f"{kind} {n.given_up}" for kind, n in sorted(counts.items()) if n.given_up]
    yield f"{text} ({', '.join(kinds)})" if kinds else text
