"""The tables of a performability run, on the page and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, counted, interval, milliseconds, number, percent

_COSTS = {
    "lost": "requests not answered well",
    "waited_s": "waited above the ideal, s",
    "demerits": "demerits",
}
_COMPARED = {"failure_s": "failure, s", **_COSTS}


def seconds(spread: Mapping[str, Any] | None) -> str:
    """ "3.0 s (2.5 to 4.0)": the median of the repeats, and their range where they differ."""
    if spread is None:
        return MISSING
    text = f"{spread['median']:.1f} s"
    if f"{spread['min']:.1f}" == f"{spread['max']:.1f}":
        return text
    return f"{text} ({spread['min']:.1f} to {spread['max']:.1f})"


def fills_table(fills: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return the warmth of blocks at their begin, by arm; None of a run whose tiers were not
    filled.
    """
    if not fills:
        return None
    sources = sorted({source for one in fills for source in one["sources"]})
    rows = []
    for arm in dict.fromkeys(one["arm"] for one in fills):
        own = [one for one in fills if one["arm"] == arm]
        requests = f"{min(one['requests'] for one in own):,}"
        shares = [[one["sources"].get(source, 0.0) for one in own] for source in sources]
        rows.append((
            named(arm), Cell(str(len(own))), Cell(requests),
            *(Cell(_range((min(one), max(one)), percent)) for one in shares),
        ))  # fmt: skip
    head = ("arm", "blocks", "requests before each", *(f"from {source}" for source in sources))
    return Table("fills", "How warm blocks began: where replies came from", head, tuple(rows))


def durations_table(
    faults: Sequence[Mapping[str, Any]], paper: Mapping[str, Any] | None = None
) -> Table:
    """Return the duration of each fault and its failure; `paper` puts Broadwell's Table 2 below."""
    rows = []
    for fault in faults:
        printed = paper["table_2"].get(fault["name"]) if paper else None
        for arm, one in fault["arms"].items():
            lasted = seconds(one["failure_s"])
            if one["recovered"] < one["repeats"]:
                lasted = f"at least {lasted}"
            beyond_s = one["failure_s"]["median"] - one["fault_s"]["median"]
            theirs_s = printed["failure_s"].get(arm) if printed else None
            their_fault_s = printed["fault_s"] if printed and theirs_s is not None else None
            rows.append((
                named(fault["name"]), named(arm), Cell(str(one["repeats"])),
                Cell(seconds(one["fault_s"]), about=_printed(their_fault_s)),
                Cell(_of_repeats(one, "detected")), Cell(_of_repeats(one, "reset")),
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
    """Return a difference with its sign; none of one that is rounded to nought."""
    return f"{seconds_more:+.1f} s" if abs(seconds_more) >= 0.05 else "0.0 s"


def _printed(value_s: float | None, less_s: float | None = None) -> str:
    """Return the report's content in this place; nothing where it has nothing."""
    if value_s is None:
        return ""
    return f"report {value_s:g} s" if less_s is None else f"report {value_s - less_s:+g} s"


def paper_table(paper: Mapping[str, Any]) -> Table:
    """Return the report's text on its figures, and ours."""
    rows = [
        (
            named(claim["place"]),
            named(claim["subject"]),
            named(claim["paper"]),
            named(claim["ours"]),
            _agrees(claim["matches"]),
        )
        for claim in paper["claims"]
    ]
    head = ("where", "what", "the report", "this run", "agree?")
    return Table("paper", "What the report says of its figures", head, tuple(rows))


def _agrees(matches: bool) -> Cell:
    return Cell("yes" if matches else "no", numeric=False, mood="good" if matches else "bad")


def _of_repeats(one: Mapping[str, Any], what: str) -> str:
    """Return the time of an event, with the number of repeats if it was not in all."""
    times = one.get(what, 0)  # older runs had no operator
    text = seconds(one.get(f"{what}_s"))
    return f"{text}, {times} of {one['repeats']}" if 0 < times < one["repeats"] else text


def costs_table(faults: Sequence[Mapping[str, Any]]) -> Table:
    """Return the whole cost of one fault to users (Fig. 14 and 19)."""
    rows = [
        (
            named(fault["name"]),
            named(arm),
            *(Cell(_spread_words(one["cost"][name])) for name in _COSTS),
        )
        for fault in faults
        for arm, one in fault["arms"].items()
    ]
    head = ("fault", "arm", *_COSTS.values())
    caption = "What one fault cost its users: median, and range over repeats"
    return Table("costs", caption, head, tuple(rows))


def _spread_words(spread: Mapping[str, Any]) -> str:
    text, low, high = (number(spread[key]) for key in ("median", "min", "max"))
    return text if low == high else f"{text} ({low} to {high})"


def waited_s(got: Mapping[str, Any]) -> float:
    """Time [s] of all requests together; of a run before December 2026, from its mean latency."""
    return float(got["requests"] * (got.get("waited_ms_mean", got["mean_ms"]) or 0.0) / 1000.0)


def failures_table(faults: Sequence[Mapping[str, Any]]) -> Table:
    """Return the service of users while each failure lasted, raw and on average (Fig. 14 to 16,
    19).
    """
    rows = []
    for fault in faults:
        for arm, one in fault["arms"].items():
            got = one["failure"]
            rows.append((
                named(fault["name"]), named(arm), Cell(number(got["requests"])),
                Cell(number(got["ok"])), Cell(number(waited_s(got))),
                Cell(percent(got["goodput"])), Cell(number(got["punctuality"])),
                Cell(milliseconds(got["mean_ms"])), Cell(milliseconds(got["trimmed_mean_ms"])),
                Cell(milliseconds(got["sd_ms"])),
                Cell(milliseconds(got["p95_ms"]), "p95" in got["insufficient"]),
                Cell(number(got["demerits_per_request"])),
            ))  # fmt: skip
    head = ("fault", "arm", "requests", "answered well", "waited in all, s", "goodput",
            "punctuality", "mean", "trimmed mean", "standard deviation", "p95",
            "demerits of a request")  # fmt: skip
    return Table("failures", "What users got while the failure lasted", head, tuple(rows))


def comparison_table(faults: Sequence[Mapping[str, Any]], first: str) -> Table | None:
    """Return each arm against the first, pair by pair."""
    rows = []
    for fault in faults:
        for arm, found in fault["comparison"].items():
            for key, one in found.items():
                rows.append((
                    named(fault["name"]), named(arm), named(_COMPARED[key]),
                    Cell(signed(one["mean"])), Cell(_bounds(one)), _better(one),
                ))  # fmt: skip
    head = ("fault", "arm", "of one fault", f"more than {first}", "95 %", "better?")
    caption = f"What one fault costs users, against {first}: paired differences over repeats"
    return Table("comparison", caption, head, tuple(rows)) if rows else None


def over_all_table(found: Mapping[str, Any], first: str) -> Table | None:
    """Return each arm against the first, over all faults."""
    rows = [
        (
            named(arm),
            named(_COMPARED[key]),
            Cell(signed(one["median"])),
            Cell(_bounds(one)),
            Cell(number(one["p"])),
            Cell(str(one["pairs"])),
            _better({**one, "mean": one["median"]}),
        )
        for arm, by_name in found.items()
        for key, one in by_name.items()
    ]
    head = ("arm", "of a fault", f"more than {first}", "95 %", "p", "pairs", "better?")
    caption = f"Over all faults, against {first}: pseudomedian, Wilcoxon's signed-rank test"
    return Table("over-all", caption, head, tuple(rows)) if rows else None


def _bounds(one: Mapping[str, Any]) -> str:
    if one["low"] is None:
        return f"insufficient, {counted(one['pairs'], 'pair')}"
    return interval(one["low"], one["high"], signed)


def _better(one: Mapping[str, Any]) -> Cell:
    if one["low"] is None or one["low"] <= 0.0 <= one["high"]:
        return Cell("not shown", numeric=False, mood="unknown")
    good = one["mean"] < 0.0
    return Cell("yes" if good else "no", numeric=False, mood="good" if good else "bad")


def signed(value: float | None) -> str:
    """Return a difference with its sign."""
    if value is None:
        return MISSING
    return f"{'+' if value > 0 else ''}{number(value)}"


def phases_table(fault: Mapping[str, Any], identity: str) -> Table:
    """One fault, phase by phase, on every arm."""
    rows = []
    for arm, one in fault["arms"].items():
        for phase, got in one["phases"].items():
            rows.append((
                named(phase), named(arm), Cell(f"{got['duration_s'] / one['repeats']:.1f} s"),
                Cell(number(got["requests"])), Cell(percent(got["goodput"])),
                Cell(number(got["punctuality"])), Cell(milliseconds(got["mean_ms"])),
                Cell(milliseconds(got["p95_ms"]), "p95" in got["insufficient"]),
                Cell(number(got["demerits_per_request"])),
            ))  # fmt: skip
    head = ("phase", "arm", "lasts", "requests", "goodput", "punctuality", "mean", "p95",
            "demerits of a request")  # fmt: skip
    return Table(identity, f"{fault['name']}: phase by phase", head, tuple(rows))


def year_table(year: Mapping[str, Any]) -> Table:
    """Return the expectation of a year for each arm."""
    rows = []
    for arm, one in year["arms"].items():
        worst = next(iter(one["lost_by_fault"].items()), None)
        rows.append((
            named(arm), Cell(_millionths(one["lost"])),
            Cell(_range(one["lost_range"], _millionths)),
            Cell(number(one["demerits_added"])), Cell(_range(one["demerits_added_range"], number)),
            Cell(f"{one['goodput']:.6f}"), Cell(number(one["punctuality"])),
            Cell(f"{one['hours']:.1f} h"),
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
    """Return the basis of the year."""
    rows = []
    for fault in faults:
        rate = year["rates"].get(fault["kind"])
        if rate is None:
            continue
        machines = year["machines"][fault["name"]]
        rows.append((
            named(fault["name"]), Cell(number(rate["per_year"])), Cell(str(machines)),
            Cell(f"{number(rate['repair_s'])} s"), named(rate["source"]),
        ))  # fmt: skip
    head = ("fault", "a machine and year", "machines", "lasts", "source")
    return Table("rates", "What the year rests on", head, tuple(rows))
