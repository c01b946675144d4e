"""Printing a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hotstart.demo import machine
from hotstart.demo.measure import HOTSTART, TORCH, Result, SideResult, phase_order

_TITLES = {TORCH: "torch's own", HOTSTART: "hotstart"}


def text(result: Result) -> str:
    """One table of phases in milliseconds, for a terminal."""
    plan = result.plan
    sides = list(result.sides.values())
    rows = [
        ["ms, median", *(_TITLES[name] for name in result.sides), "ratio"],
        *_phase_rows(sides),
        _row("total", [side.total_ms() for side in sides]),
        ["  spread (MAD)", *(_ms(side.total_mad_ms()) for side in sides), ""],
        _row("before: import torch", [s.median_of(lambda r: r.import_torch_ms) for s in sides]),
        _row("after: second call", [s.median_of(lambda r: r.second_call_ms) for s in sides]),
        _row("peak memory, MB", [s.median_of(lambda r: r.peak_rss_mb) for s in sides]),
        _row("cold compile", [side.cold.total_ms for side in sides]),
    ]
    return "\n".join(
        [
            f"A GPT of {plan.layers} layers, from built model to first output in "
            f"a fresh process; {plan.rounds} of them a side",
            machine.one_line(),
            "",
            *_aligned(rows, rules_before={1, len(rows) - 6, len(rows) - 4}),
            "",
            *_checks(result),
        ]
    )


def markdown(results: Sequence[Result]) -> str:
    """One line for each number of layers; then how much a layer costs."""
    names = list(results[0].sides)
    head = ["layers", *(f"{_TITLES[name]}, ms" for name in names)]
    lines = [
        [
            str(result.plan.layers),
            *(
                f"{_ms(side.total_ms())} \u00b1 {_ms(side.total_mad_ms())}"
                for side in result.sides.values()
            ),
        ]
        for result in results
    ]
    if results[0].ratio() is not None:
        head.append("ratio")
        for line, result in zip(lines, results, strict=True):
            line.append(f"{result.ratio():.2f}x")
    rows = [head, ["---"] + ["---:"] * (len(head) - 1), *lines]
    growth = [
        f"{_TITLES[name]}: {_ms_per_layer([(r.plan.layers, r.sides[name]) for r in results])}"
        for name in names
    ]
    return "\n".join(
        [
            *("| " + " | ".join(row) + " |" for row in rows),
            "",
            f"{machine.one_line()}; median \u00b1 MAD of {results[0].plan.rounds} fresh processes.",
            *([f"Growth: {'; '.join(growth)}."] if len(results) > 1 else []),
        ]
    )


def _ms_per_layer(points: Sequence[tuple[int, SideResult]]) -> str:
    (fewest, first), (most, last) = min(points, key=_layers), max(points, key=_layers)
    if fewest == most:
        return "unknown"
    return f"{(last.total_ms() - first.total_ms()) / (most - fewest):.2f} ms a layer"


def _layers(point: tuple[int, SideResult]) -> int:
    return point[0]


def _phase_rows(sides: Sequence[SideResult]) -> Iterator[list[str]]:
    for name in phase_order(sides):
        yield _row(name, [side.phase_ms(name) for side in sides])


def _row(title: str, values: Sequence[float | None]) -> list[str]:
    return [title, *map(_ms, values), _ratio(values)]


def _ratio(values: Sequence[float | None]) -> str:
    """How many times the first value is the second."""
    if len(values) != 2 or not values[0] or not values[1]:
        return ""
    return f"{values[0] / values[1]:.2f}x"


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _aligned(rows: Sequence[Sequence[str]], rules_before: set[int]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for i, (title, *cells) in enumerate(rows):
        if i in rules_before:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([title.ljust(widths[0]), *numbers]).rstrip()


def _checks(result: Result) -> Iterator[str]:
    for name, side in result.sides.items():
        difference = max(run.output["max_difference"] for run in (side.cold, *side.loads))
        frames = sum(run.compiled_frames for run in side.loads)
        yield (
            f"{_TITLES[name]}: outputs within {difference:.1e} of eager, "
            f"{frames} frames compiled in the {len(side.loads)} processes that loaded"
        )
        if missing := side.cold.not_timed:
            yield f"{_TITLES[name]}: not timed, this torch has no {', '.join(missing)}"
    digests = {r.output["sha256"] for s in result.sides.values() for r in (s.cold, *s.loads)}
    yield (
        "all compiled outputs are equal to the bit"
        if len(digests) == 1
        else f"compiled outputs differ in their last bits: {len(digests)} kinds"
    )
    for side in result.sides.values():
        yield from side.warnings()
    for problem in result.problems():
        yield f"PROBLEM: {problem}"
