"""A plan compared with the run of its fleet: its promise by clause, its figures beside the measured
ones, and the limits of a run for statements about a year."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.kinds.compare.plan import planned_value
from experiments.report.tables import Cell, Table, named
from experiments.report.text import (
    MISSING,
    SLO_WORDS,
    counted,
    interval,
    lasting,
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


def predicted_table(predicted: Mapping[str, Any]) -> Table:
    """Return one row for each figure: assumptions, predictions and cost of the plan."""
    rows = [_row("arrival rate, 1/s", predicted["arrival_rate_per_s"], number)]
    for tier, entry in predicted["disturbed_share"].items():
        rows.append(_row(f"neighbours, {tier}", entry, percent))
    for name, entry in predicted["latency"].items():
        rows.append(_row(_label(name, entry), entry, milliseconds))
    for name, entry in predicted["latency"].items():
        if _has_faults(entry):
            without = {"predicted": None, "measured": entry["with_faults"]}
            of_all = {**_NO_INTERVAL, **(entry.get("in_all") or without)}
            rows.append(_row(f"{name.removesuffix('_ms')} with faults", of_all, milliseconds))
    for tier, entry in predicted["utilisation"].items():
        rows.append(_row(f"CPU over caps, {tier}", entry, percent))
    rows.append(_cost_row(predicted["cost_usd_per_month"]))
    rows.append(_availability_row(predicted["availability"]))
    head = ("", "predicted", "measured", f"{100 * predicted['confidence']:g} % interval", "verdict")
    return Table("predicted-table", "The plan's figures and this run's", head, tuple(rows))


def promise_table(summary: Mapping[str, Any]) -> Table | None:
    """Return each limit of the promise with the allowed, predicted and measured share of requests
    beyond it, and the verdict: of the SLO, where the plan promised nothing.
    """
    promise = summary.get("promise")
    if not promise or not promise["clauses"]:
        return None
    claimed = promise["claimed"]
    rows = [
        (
            _clause_cell(key, clause),
            _with_bounds(clause, lambda value: MISSING if value is None else _share(value)),
            Cell(_share(clause["share"]), about=interval(clause["low"], clause["high"], _share)),
            Cell(
                clause["verdict"] if claimed else SLO_WORDS[clause["verdict"]],
                numeric=False,
                mood=_MOODS[clause["verdict"]],
            ),
        )
        for key, clause in promise["clauses"].items()
    ]
    requests = number(next(iter(promise["clauses"].values()))["requests"])
    subject = "promise" if claimed else "SLO"
    caption = f"The {subject}: what share of {requests} requests is beyond each limit"
    head = ("", "predicted", "measured (90 %)", subject)
    return Table("promise-table", caption, head, tuple(rows))


def _share(value: float) -> str:
    """Return a share of requests; a tiny one, such as a beta's lower bound, is shown as 0."""
    return percent(value, 2) if value >= _SHARE_MIN or value == 0 else "0 %"


def _clause_cell(key: str, clause: Mapping[str, Any]) -> Cell:
    allowed = _share(clause["allowed"])
    if key == "max_error_share":
        return Cell("errors", numeric=False, about=f"{allowed} may fail")
    limit_text = f"{_clause_name(key)} ≤ {plain(clause['limit'])} ms"
    return Cell(limit_text, numeric=False, about=f"{allowed} may take longer")


def _clause_name(key: str) -> str:
    return "errors" if key == "max_error_share" else key.removesuffix("_ms")


def promise_sentence(summary: Mapping[str, Any]) -> str:
    """Say whether the promise was kept, name the limits that decide it, and the cost."""
    promise = summary["promise"]
    answer = promise["verdict"]
    clauses = promise["clauses"].items()
    names = " and ".join(
        _clause_name(key) for key, clause in clauses if clause["verdict"] == answer
    )
    clause_text = f" for {names}" if names else ""
    answer_text = {
        "kept": "The plan's promise was kept",
        "broken": f"The plan's promise was broken by {names}",
        "undecided": f"The plan's promise is undecided{clause_text}",
    }[answer]
    if not promise["claimed"]:
        plan_text = (
            "The plan refused this cheaper fleet"
            if promise["refused"]
            else "The plan was undecided and promised nothing"
        )
        answer_text = (
            f"{plan_text}; "
            + {
                "kept": "its fleet meets the SLO",
                "broken": f"its fleet misses the SLO by {names}",
                "undecided": f"whether its fleet meets the SLO is undecided{clause_text}",
            }[answer]
        )
    cost = promise["usd_per_month"]
    if cost["after"] is not None:
        answer_text += f", at {usd(cost['after'])} a month"
        answer_text += "" if cost["before"] is None else f" in place of {usd(cost['before'])}"
    hint = " More load may decide it: run --close --close-minutes 20."
    return f"{answer_text}.{hint if answer == 'undecided' else ''}"


def coverage_words(summary: Mapping[str, Any]) -> str:
    """Return the number of measured figures inside the plan's intervals; "" without intervals."""
    judged = summary["promise"]["figures"]["judged"]
    if not judged:
        return ""
    share = plain(100 * summary["predicted"]["predicted_confidence"])
    covered = summary["promise"]["figures"]["covered"]
    total = counted(judged, "measured figure")
    return f"In the plan's {share} % intervals: {covered:,} of {total}."


def _label(name: str, entry: Mapping[str, Any]) -> str:
    return name.removesuffix("_ms") + (" without faults" if _has_faults(entry) else "")


def _has_faults(entry: Mapping[str, Any]) -> bool:
    return bool(entry["samples_with_faults"] > entry["samples"])


def _row(label: str, entry: Mapping[str, Any], show: Show) -> tuple[Cell, ...]:
    measured = Cell(show(entry["measured"]), doubtful=bool(entry.get("insufficient")))
    bounds = Cell(interval(entry["ci_low"], entry["ci_high"], show))
    return (named(label), _with_bounds(entry, show), measured, bounds, named(_answer(entry)))


def _with_bounds(entry: Mapping[str, Any], show: Show) -> Cell:
    """Return a cell of a predicted figure, with its interval if the plan has one."""
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
        return "as expected" if entry["covered"] else _deviation_text(entry["off_share"], "it")
    if entry["within"]:
        return "within the interval"
    deviation = _deviation_text(entry["off_share"], "it")
    return deviation if entry["within"] is False else f"{deviation}, no interval"


def _deviation_text(share: float | None, prediction: str) -> str:
    """Describe the distance of the measured figure from the predicted one."""
    if share is None:
        return "predicted as zero"
    if share >= 1.0:
        return f"measured {number(1.0 + share)} times {prediction}"
    return f"measured {percent(abs(share), 2)} {'above' if share > 0 else 'below'} {prediction}"


def _cost_row(cost: Mapping[str, Any]) -> tuple[Cell, ...]:
    answer = "an error: not the plan" if cost["errors"] else "the planned machines"
    cells = (Cell(usd(cost["predicted"])), Cell(usd(cost["measured"])), Cell(MISSING))
    return (named("cost a month"), *cells, named(answer))


def _availability_row(availability: Mapping[str, Any]) -> tuple[Cell, ...]:
    predicted = planned_value("availability", availability["predicted"])
    cells = (Cell(predicted), Cell("not measured"), Cell(MISSING))
    return (named("availability over a year"), *cells, named("see below"))


def verdict_sentence(summary: Mapping[str, Any]) -> str:
    """Compare a run with the prediction of its fleet's plan, in one sentence."""
    predicted = summary["predicted"]
    if not summary["valid"]:
        return "This run is not valid, so nothing can be said of the plan's prediction."
    if predicted["cost_usd_per_month"]["errors"]:
        errors = "; ".join(predicted["cost_usd_per_month"]["errors"])
        return f"The fleet that ran is not the planned one, so nothing is shown: {errors}."
    parts = [_percentile_words(name, predicted["latency"][name]) for name in ("p95_ms", "p99_ms")]
    cost = usd(predicted["cost_usd_per_month"]["measured"])
    return f"The planned fleet, at {cost} a month, against its prediction: {'; '.join(parts)}."


def _percentile_words(name: str, entry: Mapping[str, Any]) -> str:
    label = _label(name, entry)
    if entry["predicted"] is None:
        return f"{label} was not predicted"
    text = f"{label} {milliseconds(entry['predicted'])} predicted"
    if entry["measured"] is None:
        return f"{text}, not measured"
    text += f", {milliseconds(entry['measured'])} measured"
    requests = f"{number(entry['samples'])} requests"
    if entry["insufficient"]:
        return f"{text} from {requests} with {number(entry['samples_beyond'])} beyond it, too few"
    text += f" (95 % interval {interval(entry['ci_low'], entry['ci_high'], milliseconds)}, "
    if entry["within"]:
        return f"{text}{requests}), which the prediction is within"
    return f"{text}{requests}), {_deviation_text(entry['off_share'], 'the prediction')}"


def availability_words(predicted: Mapping[str, Any]) -> list[str]:
    """Explain why a run of minutes is weak evidence of a year's availability."""
    entry = predicted["availability"]
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
    crashes = f"{number(entry['crashes_seen'])} crashes of their own in {hours} node-hours"
    limit = entry["crash_per_year_max"]
    below = "" if limit is None else (
        f"; at 95 % that only says: fewer than {number(limit)} a node and year")  # fmt: skip
    if entry["crash_per_year_stated"] is None:
        lines.append(
            f"{crashes}{below}. The design states no crash rate; the plan took its default."
        )
    else:
        lines.append(
            f"{crashes}, {number(entry['crashes_expected'])} expected from the stated "
            f"{plain(entry['crash_per_year_stated'])} a node and year{below}."
        )
    durations = [
        f"{name} of {lasting(entry[key])}"
        for name, key in (("fail-over", "failover_s_stated"), ("repair", "repair_s_stated"))
        if entry[key] is not None
    ]
    if durations:
        lines.append(f"The stated {' and '.join(durations)} were not put to the test.")
    return lines
