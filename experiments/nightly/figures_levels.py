"""Levels over nights: errors, burn, cost, and the values of kinds without arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.chart_style import Rows
from experiments.nightly.figures import (
    arms_of,
    limit_key,
    limit_rows,
    over_nights,
    point_of,
    shown_nights,
)
from experiments.nightly.history import Run, heads
from experiments.nightly.levels import BURNS, PER_MILLION, level_of
from experiments.nightly.words import metric_words
from experiments.report import palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.marks import arm_keys

_HOLLOW = " Hollow: the run was not valid."


def errors_figure(runs: Sequence[Run]) -> Figure:
    """Return the share of each arm's requests that failed, with the SLO's limit."""
    name = "max_error_share"
    allowed = limit_rows(runs, lambda run: 100 * run.slo[name] if name in run.slo else None)
    return _arms_figure(
        runs, "errors-nights", "Errors over nights", "Share of requests that failed, by arm",
        "%", lambda run: 100 * run.errors / run.requests if run.requests else None,
        allowed, "SLO errors",
    )  # fmt: skip


def burn_figure(runs: Sequence[Run]) -> Figure:
    """Return the burn rate of the error budget, for the arm to which the SLO applies."""
    judged = [run for run in runs if run.arm == run.judged]
    unity = limit_rows(runs, lambda _: 1.0)
    arms = [metric_words(f"burn_{name.removesuffix('_ms')}") for name in BURNS]
    points = [
        point_of(run.model_copy(update={"arm": words}), runs, arms, run.burn[name], None, None)
        for run in judged
        for name, words in zip(BURNS, arms, strict=True)
        if name in run.burn
    ]
    return drawn(
        "burn-nights",
        "Burn over nights",
        "Share of requests beyond a limit of the SLO over the share that may be, of the arm that "
        f"it is asked of{shown_nights(runs)}. Above 1 the limit is broken.{_HOLLOW}",
        (*arm_keys(arms, shown=[point["arm"] for point in points]), limit_key("just what may be")),
        lambda size: over_nights(points, unity, runs, size, "times what may be", linear=True),
        "" if points else "No run has a burn yet.",
    )


def plan_figure(runs: Sequence[Run]) -> Figure:
    """Cost of the planned fleet, night by night."""
    return _runs_figure(
        runs, "plan-nights", "Planned cost over nights",
        "The cheapest fleet that meets the SLO by what the run measured, USD a month at the price "
        "book of its night. A run without a feasible plan has no point",
        "USD a month", lambda run: run.plan.get("usd_per_month"),
    )  # fmt: skip


def million_figure(runs: Sequence[Run]) -> Figure:
    """Cost of a million good requests on the fleet that was measured."""
    return _arms_figure(
        runs, "million-nights", "Cost of a million good requests over nights",
        "USD for a million requests that are answered ok, by the fleet and the rate that were "
        "measured", "USD", lambda run: run.cost.get(PER_MILLION),
    )  # fmt: skip


def levels_figures(runs: Sequence[Run]) -> list[Figure]:
    """Return a figure for each level that the kind of the runs has."""
    names = dict.fromkeys(name for run in runs for name in run.levels)
    return [
        _runs_figure(
            runs, name.replace("/", "-") + "-nights", f"{words[0].upper()}{words[1:]} over nights",
            f"{words} of each run", "1/s" if "_per_s" in name else words.partition(" ")[0],
            level_of(name),
        )
        for name in names
        for words in [metric_words(name)]
    ]  # fmt: skip


def _runs_figure(
    runs: Sequence[Run], identity: str, title: str, text: str, unit: str,
    value: Callable[[Run], float | None],
) -> Figure:  # fmt: skip
    points = [
        point_of(run, runs, [None], float(level), None, None)
        for run in heads(runs)
        if (level := value(run))
    ]
    keys = (Key("circle", palette.ARMS[0].light, unit),)
    return _draw_figure(runs, identity, title, text, unit, points, keys, [])


def _arms_figure(
    runs: Sequence[Run], identity: str, title: str, text: str, unit: str,
    value: Callable[[Run], float | None], limits: Rows = (), limit: str = "",
) -> Figure:  # fmt: skip
    arms = arms_of(runs)
    points = [
        point_of(run, runs, arms, level, None, None)
        for run in runs
        if run.arm is not None and (level := value(run)) is not None
    ]
    keys = (*arm_keys(arms), *([limit_key(limit)] if limits else []))
    if points and not any(point["y"] for point in points):
        return Figure(identity, title, text, (), {}, "None in any run.")
    return _draw_figure(runs, identity, title, text, unit, points, keys, limits)


def _draw_figure(
    runs: Sequence[Run], identity: str, title: str, text: str, unit: str,
    points: Rows, keys: tuple[Key, ...], limits: Rows,
) -> Figure:  # fmt: skip
    return drawn(
        identity,
        title,
        f"{text}{shown_nights(runs)}.{_HOLLOW}",
        keys,
        lambda size: over_nights(points, list(limits), runs, size, unit, linear=True),
        "" if points else "No run has this figure yet.",
    )
