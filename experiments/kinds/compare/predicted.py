"""A plan compared with the run of its fleet: its promise by clause, its figures beside the measured
ones, and the limits of a run for statements about a year."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.kinds.compare.plan import planned_value
from experiments.report.tables import Cell, Table, named
from experiments.report.text import (
    MISSING,
    counted,
    interval,
    milliseconds,
    number,
    percent,
    plain,
    usd,
)

Show = Callable[[Any], str]
_MOODS = {"kept": "good", "broken": "bad", "undecided": "unknown"}
_SHARE_MIN = 0.0005
_NO_INTERVAL = {"ci_low": None, "ci_high": None, "within": None, "off_share": None}


def predicted_table(found: Mapping[str, Any]) -> Table:
    """One row for each figure: what the plan took for granted, what it predicted, what it costs."""
    rows = [_row("arrival rate, 1/s", found["arrival_rate_per_s"], number)]
    for tier, entry in found["disturbed_share"].items():
        rows.append(_row(f"neighbours, {tier}", entry, percent))
    for name, entry in found["latency"].items():
        rows.append(_row(_label(name, entry), entry, milliseconds))
    for name, entry in found["latency"].items():
        if _has_faults(entry):
            without = {"predicted": None, "measured": entry["with_faults"]}
            of_all = {**_NO_INTERVAL, **(entry.get("in_all") or without)}
            rows.append(_row(f"{name.removesuffix('_ms')} with faults", of_all, milliseconds))
    for tier, entry in found["utilisation"].items():
        rows.append(_row(f"CPU over caps, {tier}", entry, percent))
    rows.append(_cost_row(found["cost_usd_per_month"]))
    rows.append(_availability_row(found["availability"]))
    head = ("", "predicted", "measured", f"{100 * found['confidence']:g} % interval", "verdict")
    return Table("predicted-table", "The plan's figures and this run's", head, tuple(rows))


def promise_table(summary: Mapping[str, Any]) -> Table | None:
    """Return each limit of the promise: the share of requests beyond it as it is allowed, as the
    plan expected it and as it was measured, and the answer.
    """
    promise = summary.get("promise")
    if not promise or not promise["clauses"]:
        return None
    rows = [
        (
            _clause_cell(key, one),
            _with_bounds(one, lambda value: MISSING if value is None else _share(value)),
            Cell(_share(one["share"]), about=interval(one["low"], one["high"], _share)),
            Cell(one["verdict"], numeric=False, mood=_MOODS[one["verdict"]]),
        )
        for key, one in promise["clauses"].items()
    ]
    requests = number(next(iter(promise["clauses"].values()))["requests"])
    caption = f"The promise: what share of {requests} requests is beyond each limit"
    head = ("", "predicted", "measured (90 %)", "promise")
    return Table("promise-table", caption, head, tuple(rows))


def _share(value: float) -> str:
    """Return a share of requests; a beta's lower bound comes close to 0 and means it."""
    return percent(value, 2) if value >= _SHARE_MIN or value == 0 else "0 %"


def _clause_cell(key: str, clause: Mapping[str, Any]) -> Cell:
    allowed = _share(clause["allowed"])
    if key == "max_error_share":
        return Cell("errors", numeric=False, about=f"{allowed} may fail")
    words = f"{_clause_name(key)} ≤ {plain(clause['limit'])} ms"
    return Cell(words, numeric=False, about=f"{allowed} may take longer")


def _clause_name(key: str) -> str:
    return "errors" if key == "max_error_share" else key.removesuffix("_ms")


def promise_sentence(summary: Mapping[str, Any]) -> str:
    """Was the promise kept, by which limits it was not, and at what cost."""
    promise = summary["promise"]
    answer = promise["verdict"]
    clauses = promise["clauses"].items()
    names = " and ".join(_clause_name(key) for key, one in clauses if one["verdict"] == answer)
    of_names = f" for {names}" if names else ""
    said = {
        "kept": "The plan's promise was kept",
        "broken": f"The plan's promise was broken by {names}",
        "undecided": f"Whether the plan's promise is kept is undecided{of_names}",
    }[answer]
    if not promise.get("claimed", True):
        said = (
            "The plan was undecided and promised nothing; "
            + {
                "kept": "its fleet meets the SLO",
                "broken": f"its fleet misses the SLO by {names}",
                "undecided": f"whether its fleet meets the SLO is undecided{of_names}",
            }[answer]
        )
    cost = promise["usd_per_month"]
    if cost["after"] is not None:
        said += f", at {usd(cost['after'])} a month"
        said += "" if cost["before"] is None else f" in place of {usd(cost['before'])}"
    return f"{said}."


def coverage_words(summary: Mapping[str, Any]) -> str:
    """Return the count of measured figures that lie where the plan expected them; "" without
    intervals.
    """
    judged = summary["promise"]["figures"]["judged"]
    if not judged:
        return ""
    share = plain(100 * summary["predicted"]["predicted_confidence"])
    covered = summary["promise"]["figures"]["covered"]
    return f"In the plan's {share} % intervals: {covered} of {counted(judged, 'measured figure')}."


def _label(name: str, entry: Mapping[str, Any]) -> str:
    return name.removesuffix("_ms") + (" without faults" if _has_faults(entry) else "")


def _has_faults(entry: Mapping[str, Any]) -> bool:
    return bool(entry["samples_with_faults"] > entry["samples"])


def _row(label: str, entry: Mapping[str, Any], show: Show) -> tuple[Cell, ...]:
    measured = Cell(show(entry["measured"]), doubtful=bool(entry.get("insufficient")))
    bounds = Cell(interval(entry["ci_low"], entry["ci_high"], show))
    return (named(label), _with_bounds(entry, show), measured, bounds, named(_answer(entry)))


def _with_bounds(entry: Mapping[str, Any], show: Show) -> Cell:
    """Return a predicted figure, its interval below it where the plan has one."""
    bounds = interval(entry.get("predicted_low"), entry.get("predicted_high"), show)
    return Cell(show(entry["predicted"]), about="" if bounds == MISSING else bounds)


def _answer(entry: Mapping[str, Any]) -> str:
    if entry["predicted"] is None:
        return "no prediction"
    if entry["measured"] is None:
        return "not measured"
    if entry.get("insufficient"):
        return f"insufficient: {number(entry['samples_beyond'])} beyond"
    if entry.get("covered") is not None:
        return "as expected" if entry["covered"] else _off(entry["off_share"], "it")
    if entry["within"]:
        return "within the interval"
    off = _off(entry["off_share"], "it")
    return off if entry["within"] is False else f"{off}, no interval"


def _off(share: float | None, prediction: str) -> str:
    """Return the distance of the measured figure from the predicted one."""
    if share is None:
        return "predicted as zero"
    if share >= 1.0:
        return f"measured {number(1.0 + share)} times {prediction}"
    return f"measured {percent(abs(share), 2)} {'above' if share > 0 else 'below'} {prediction}"


def _cost_row(cost: Mapping[str, Any]) -> tuple[Cell, ...]:
    answer = "an error: not the plan" if cost["errors"] else "the planned machines"
    cells = (Cell(usd(cost["predicted"])), Cell(usd(cost["measured"])), Cell(MISSING))
    return (named("cost a month"), *cells, named(answer))


def _availability_row(found: Mapping[str, Any]) -> tuple[Cell, ...]:
    predicted = planned_value("availability", found["predicted"])
    cells = (Cell(predicted), Cell("not measured"), Cell(MISSING))
    return (named("availability over a year"), *cells, named("see below"))


def verdict_sentence(summary: Mapping[str, Any]) -> str:
    """Return the answer of a run to the plan of its fleet, in one sentence."""
    found = summary["predicted"]
    if not summary["valid"]:
        return "This run is not valid, so nothing can be said of the plan's prediction."
    if found["cost_usd_per_month"]["errors"]:
        errors = "; ".join(found["cost_usd_per_month"]["errors"])
        return f"The fleet that ran is not the planned one, so nothing is shown: {errors}."
    parts = [_percentile_words(name, found["latency"][name]) for name in ("p95_ms", "p99_ms")]
    cost = usd(found["cost_usd_per_month"]["measured"])
    return f"The planned fleet, at {cost} a month, against its prediction: {'; '.join(parts)}."


def _percentile_words(name: str, entry: Mapping[str, Any]) -> str:
    label = _label(name, entry)
    if entry["predicted"] is None:
        return f"{label} was not predicted"
    words = f"{label} {milliseconds(entry['predicted'])} predicted"
    if entry["measured"] is None:
        return f"{words}, not measured"
    words += f", {milliseconds(entry['measured'])} measured"
    requests = f"{number(entry['samples'])} requests"
    if entry["insufficient"]:
        return f"{words} from {requests} with {number(entry['samples_beyond'])} beyond it, too few"
    words += f" (95 % interval {interval(entry['ci_low'], entry['ci_high'], milliseconds)}, "
    if entry["within"]:
        return f"{words}{requests}), which the prediction is within"
    return f"{words}{requests}), {_off(entry['off_share'], 'the prediction')}"


def availability_words(found: Mapping[str, Any]) -> list[str]:
    """Return the limits of a run of minutes as evidence of a year's availability."""
    entry = found["availability"]
    hours = number(entry["node_hours"])
    lines = [
        "An availability over a year is not measured by a run of "
        f"{number(entry['watched_s'] / 60)} minutes; the plan's figure follows from rates that "
        "the design states.",
        f"{number(entry['failed'])} of {number(entry['requests'])} requests failed "
        f"({percent(entry['error_share'])}); all nodes were up for "
        f"{percent(entry['all_nodes_up_share'])} of the measured time, with "
        f"{number(entry['stopping_faults_injected'])} faults injected that stop a node.",
    ]
    seen = f"{number(entry['crashes_seen'])} crashes of their own in {hours} node-hours"
    limit = entry["crash_per_year_max"]
    below = "" if limit is None else (
        f"; at 95 % that only says: fewer than {number(limit)} a node and year")  # fmt: skip
    if entry["crash_per_year_stated"] is None:
        lines.append(f"{seen}{below}. The design states no crash rate; the plan took its default.")
    else:
        lines.append(
            f"{seen}, {number(entry['crashes_expected'])} expected from the stated "
            f"{plain(entry['crash_per_year_stated'])} a node and year{below}."
        )
    stated = [
        f"{name} of {plain(entry[key])} s"
        for name, key in (("fail-over", "failover_s_stated"), ("repair", "repair_s_stated"))
        if entry[key] is not None
    ]
    if stated:
        lines.append(f"The stated {' and '.join(stated)} were not put to the test.")
    return lines
