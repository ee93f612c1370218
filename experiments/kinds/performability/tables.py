"""The tables of a performability run, on the page and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.report.tables import Cell, Table, named
from experiments.report.text import (
    MISSING,
    counted,
    interval,
    lasting,
    milliseconds,
    number,
    percent,
)

_COSTS = {
    "lost": "requests not answered well",
    "waited_s": "waited above the ideal, s",
    "demerits": "demerits",
}
_COMPARED = {"failure_s": "failure, s", **_COSTS}


def seconds(spread: Mapping[str, Any] | None) -> str:
    """Return the median of the repeats, and their range if they differ: "3.0 s (2.5 to 4.0)"."""
    if spread is None:
        return MISSING
    text = f"{spread['median']:.1f} s"
    if f"{spread['min']:.1f}" == f"{spread['max']:.1f}":
        return text
    return f"{text} ({spread['min']:.1f} to {spread['max']:.1f})"


def fills_table(fills: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return the warmth of blocks at their begin, by arm; None if no tier was filled."""
    if not fills:
        return None
    sources = sorted({source for fill in fills for source in fill["sources"]})
    rows = []
    for arm in dict.fromkeys(fill["arm"] for fill in fills):
        arm_fills = [fill for fill in fills if fill["arm"] == arm]
        requests = f"{min(fill['requests'] for fill in arm_fills):,}"
        shares = [[fill["sources"].get(source, 0.0) for fill in arm_fills] for source in sources]
        rows.append((
            named(arm), Cell(str(len(arm_fills))), Cell(requests),
            *(Cell(_range((min(values), max(values)), percent)) for values in shares),
        ))  # fmt: skip
    head = ("arm", "blocks", "requests before each", *(f"from {source}" for source in sources))
    return Table("fills", "How warm blocks began: where replies came from", head, tuple(rows))


def durations_table(
    faults: Sequence[Mapping[str, Any]], paper: Mapping[str, Any] | None = None
) -> Table:
    """Return the duration of each fault and its failure; `paper` adds Broadwell's Table 2 below."""
    rows = []
    for fault in faults:
        printed = paper["table_2"].get(fault["name"]) if paper else None
        for arm, figures in fault["arms"].items():
            lasted = seconds(figures["failure_s"])
            if figures["recovered"] < figures["repeats"]:
                lasted = f"at least {lasted}"
            beyond_s = figures["failure_s"]["median"] - figures["fault_s"]["median"]
            theirs_s = printed["failure_s"].get(arm) if printed else None
            their_fault_s = printed["fault_s"] if printed and theirs_s is not None else None
            rows.append((
                named(fault["name"]), named(arm), Cell(str(figures["repeats"])),
                Cell(seconds(figures["fault_s"]), about=_printed(their_fault_s)),
                Cell(_event_time(figures, "detected")), Cell(_event_time(figures, "reset")),
                Cell(lasted, about=_printed(theirs_s)),
                Cell(_more_s(beyond_s), about=_printed(theirs_s, their_fault_s)),
            ))  # fmt: skip
    head = ("fault", "arm", "repeats", "fault lasted", "given up by its arbiter after",
            "restarted by an operator after", "failure lasted", "failure less fault")  # fmt: skip
    caption = "Fault and failure: median, and range over repeats"
    if paper:
        caption += "; the report's Table 2 below"
    return Table("durations", caption, head, tuple(rows))


def _more_s(seconds_more: float) -> str:
    """Return a difference with its sign; a difference that rounds to zero has no sign."""
    return f"{seconds_more:+.1f} s" if abs(seconds_more) >= 0.05 else "0.0 s"


def _printed(value_s: float | None, less_s: float | None = None) -> str:
    """Return the report's value of this cell; "" where it has none."""
    if value_s is None:
        return ""
    return f"report {value_s:g} s" if less_s is None else f"report {value_s - less_s:+g} s"


def paper_table(paper: Mapping[str, Any]) -> Table:
    rows = [
        (
            named(claim["place"]),
            named(claim["subject"]),
            named(claim["paper"]),
            named(claim["ours"]),
            _answer(claim["matches"]),
        )
        for claim in paper["claims"]
    ]
    head = ("where", "what", "the report", "this run", "agree?")
    return Table("paper", "What the report says of its figures", head, tuple(rows))


def _answer(is_good: bool) -> Cell:
    return Cell("yes" if is_good else "no", numeric=False, mood="good" if is_good else "bad")


def _event_time(figures: Mapping[str, Any], event: str) -> str:
    """Return the time of an event, with the number of repeats that had it if not all did."""
    times, text = figures[event], seconds(figures[f"{event}_s"])
    return f"{text}, {times} of {figures['repeats']}" if 0 < times < figures["repeats"] else text


def costs_table(faults: Sequence[Mapping[str, Any]]) -> Table:
    """Return the whole cost of one fault to users (Fig. 14 and 19)."""
    rows = [
        (
            named(fault["name"]),
            named(arm),
            *(Cell(_spread_words(figures["cost"][name])) for name in _COSTS),
        )
        for fault in faults
        for arm, figures in fault["arms"].items()
    ]
    head = ("fault", "arm", *_COSTS.values())
    caption = "What one fault cost its users: median, and range over repeats"
    return Table("costs", caption, head, tuple(rows))


def _spread_words(spread: Mapping[str, Any]) -> str:
    text, low, high = (number(spread[key]) for key in ("median", "min", "max"))
    return text if low == high else f"{text} ({low} to {high})"


def waited_s(metrics: Mapping[str, Any]) -> float:
    """Return the time [s] of all requests together; runs before December 2026 have it from their
    mean latency."""
    return float(
        metrics["requests"] * (metrics.get("waited_ms_mean", metrics["mean_ms"]) or 0.0) / 1000.0
    )


def failures_table(faults: Sequence[Mapping[str, Any]]) -> Table:
    """Return the service of users while each failure lasted, raw and on average (Fig. 14 to 16,
    19).
    """
    rows = []
    for fault in faults:
        for arm, figures in fault["arms"].items():
            metrics = figures["failure"]
            rows.append((
                named(fault["name"]), named(arm), Cell(number(metrics["requests"])),
                Cell(number(metrics["ok"])), Cell(number(waited_s(metrics))),
                Cell(percent(metrics["goodput"])), Cell(number(metrics["punctuality"])),
                Cell(milliseconds(metrics["mean_ms"])),
                Cell(milliseconds(metrics["trimmed_mean_ms"])),
                Cell(milliseconds(metrics["sd_ms"])),
                Cell(milliseconds(metrics["p95_ms"]), "p95" in metrics["insufficient"]),
                Cell(number(metrics["demerits_per_request"])),
            ))  # fmt: skip
    head = ("fault", "arm", "requests", "answered well", "waited in all, s", "goodput",
            "punctuality", "mean", "trimmed mean", "standard deviation", "p95",
            "demerits of a request")  # fmt: skip
    return Table("failures", "What users got while the failure lasted", head, tuple(rows))


def comparison_table(faults: Sequence[Mapping[str, Any]], first: str) -> Table | None:
    rows = []
    for fault in faults:
        for arm, comparison in fault["comparison"].items():
            for key, difference in comparison.items():
                rows.append((
                    named(fault["name"]), named(arm), named(_COMPARED[key]),
                    Cell(signed(difference["mean"])), Cell(_bounds(difference)),
                    _better(difference),
                ))  # fmt: skip
    head = ("fault", "arm", "of one fault", f"more than {first}", "95 %", "better?")
    caption = f"What one fault costs users, against {first}: paired differences over repeats"
    return Table("comparison", caption, head, tuple(rows)) if rows else None


def over_all_table(over_all: Mapping[str, Any], first: str) -> Table | None:
    rows = [
        (
            named(arm),
            named(_COMPARED[key]),
            Cell(signed(estimate["median"])),
            Cell(_bounds(estimate)),
            Cell(number(estimate["p"])),
            Cell(str(estimate["pairs"])),
            _better({**estimate, "mean": estimate["median"]}),
        )
        for arm, by_name in over_all.items()
        for key, estimate in by_name.items()
    ]
    head = ("arm", "of a fault", f"more than {first}", "95 %", "p", "pairs", "better?")
    caption = f"Over all faults, against {first}: pseudomedian, Wilcoxon's signed-rank test"
    return Table("over-all", caption, head, tuple(rows)) if rows else None


def _bounds(estimate: Mapping[str, Any]) -> str:
    if estimate["low"] is None:
        return f"insufficient, {counted(estimate['pairs'], 'pair')}"
    return interval(estimate["low"], estimate["high"], signed)


def _better(estimate: Mapping[str, Any]) -> Cell:
    if estimate["low"] is None or estimate["low"] <= 0.0 <= estimate["high"]:
        return Cell("not shown", numeric=False, mood="unknown")
    return _answer(estimate["mean"] < 0.0)


def signed(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{'+' if value > 0 else ''}{number(value)}"


def phases_table(fault: Mapping[str, Any], identity: str) -> Table:
    rows = []
    for arm, figures in fault["arms"].items():
        for phase, metrics in figures["phases"].items():
            rows.append((
                named(phase), named(arm),
                Cell(f"{metrics['duration_s'] / figures['repeats']:.1f} s"),
                Cell(number(metrics["requests"])), Cell(percent(metrics["goodput"])),
                Cell(number(metrics["punctuality"])), Cell(milliseconds(metrics["mean_ms"])),
                Cell(milliseconds(metrics["p95_ms"]), "p95" in metrics["insufficient"]),
                Cell(number(metrics["demerits_per_request"])),
            ))  # fmt: skip
    head = ("phase", "arm", "lasts", "requests", "goodput", "punctuality", "mean", "p95",
            "demerits of a request")  # fmt: skip
    return Table(identity, f"{fault['name']}: phase by phase", head, tuple(rows))


def year_table(year: Mapping[str, Any]) -> Table:
    rows = []
    for arm, arm_year in year["arms"].items():
        worst = next(iter(arm_year["lost_by_fault"].items()), None)
        rows.append((
            named(arm), Cell(_millionths(arm_year["lost"])),
            Cell(_range(arm_year["lost_range"], _millionths)),
            Cell(number(arm_year["demerits_added"])),
            Cell(_range(arm_year["demerits_added_range"], number)),
            Cell(f"{arm_year['goodput']:.6f}"), Cell(number(arm_year["punctuality"])),
            Cell(f"{arm_year['hours']:.1f} h"),
            named(worst[0] if worst and worst[1] > 0.0 else MISSING),
        ))  # fmt: skip
    head = ("arm", "of a million requests, lost to faults", "single repeats",
            "demerits that faults add to a request", "single repeats", "goodput", "punctuality",
            "disturbed in a year", "most is lost by")  # fmt: skip
    return Table("year", "A year of these faults, at the stated rates", head, tuple(rows))


def _millionths(share: float) -> str:
    return f"{1e6 * share:.1f}"


def _range(bounds: Sequence[float], show: Callable[[Any], str]) -> str:
    low, high = bounds
    return show(low) if show(low) == show(high) else interval(low, high, show)


def rates_table(year: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for fault in faults:
        rate = year["rates"].get(fault["kind"])
        if rate is None:
            continue
        machines = year["machines"][fault["name"]]
        rows.append((
            named(fault["name"]), Cell(number(rate["per_year"])), Cell(str(machines)),
            Cell(lasting(rate["repair_s"])), named(rate["source"]),
        ))  # fmt: skip
    head = ("fault", "a machine and year", "machines", "lasts", "source")
    return Table("rates", "What the year rests on", head, tuple(rows))
