"""The figures of the report, in order: their texts, and the reason for a missing one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import polars as pl

from core.runfiles.requests import measured
from experiments.kinds.compare.figures_disturbed import disturbances_of
from experiments.kinds.compare.figures_latency import (
    box_rows,
    comparison_factors,
    improvement_intervals,
    latency_boxes,
    latency_tail,
)
from experiments.kinds.compare.figures_machines import (
    PANELS_MAX,
    hosts_over_time,
    server_latencies,
    servers_over_time,
)
from experiments.kinds.compare.figures_time import (
    blocks_of,
    latency_over_time,
    median_bin_s,
    shown_points,
)
from experiments.kinds.compare.folder import RunFolder
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN
from experiments.record.metrics.summary import compared_arms
from experiments.report import marks, palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import WIDE
from experiments.report.text import counted, number, percent
from optimizer.plan.explain.figures import front_chart, front_titles


def all_figures(run: RunFolder) -> dict[str, Figure]:
    """Return every figure by its identity; a figure without data has a note and no drawing."""
    makers: tuple[Callable[[RunFolder], Figure], ...] = (
        _improvement,
        _comparison,
        _over_time,
        _boxes,
        _tail,
        _servers,
        _hosts,
    )
    return {figure.identity: figure for figure in (make(run) for make in makers)}


def fronts(run: RunFolder) -> list[Figure]:
    """Return the plan's fronts of cost against a limit; none if the plan has no fronts."""
    return [_front(body) for body in run.plan.get("pareto") or () if body["points"]]


def _front(body: Mapping[str, Any]) -> Figure:
    title, caption = front_titles(body)
    key = body["limit"].removesuffix("_ms")
    return drawn(
        f"front-{key}", title, f"{title}: {caption}.", (),
        lambda size: front_chart(body, size.plot_width, 260 if size.small else 300),
    )  # fmt: skip


def _sample_text(run: RunFolder) -> str:
    main = measured(run.requests)
    counts = [f"{arm} {number(main.filter(pl.col('arm') == arm).height)}" for arm in run.arms]
    return ", ".join(counts) + " requests, faults included, warm-up left out"


def _no_requests(run: RunFolder) -> str:
    return "" if run.requests.height else "No request was recorded, so there is nothing to draw."


def _over_time(run: RunFolder) -> Figure:
    drawn_count = shown_points(
        run.requests.filter(pl.col("outcome") == "ok"), WIDE.points_max
    ).height
    good = run.requests.filter(pl.col("outcome") == "ok").height
    failed = run.requests.height - good
    caption = (
        f"Each dot is a request at its intended start: {number(run.requests.height)} requests "
        f"in {counted(len(blocks_of(run)), 'block')}, paler in the warm-up, {number(failed)} failed"
        f"{', each drawn at the time that it took' if failed else ''}. "
    )
    if drawn_count < good:
        caption += (
            f"Of the {number(good)} answered ok, {number(drawn_count)} are drawn: "
            "the slowest tenth, and a random choice of the rest. "
        )
    caption += f"The steps are the median of each {median_bin_s(run):g} s. "
    count = len(disturbances_of(run))
    caption += (
        f"{counted(count, 'window')} of faults and interference {'is' if count == 1 else 'are'} "
        "shaded; "
        "below, a lane for each machine they hit."
        if count
        else "No fault or interference was recorded."
    )
    legend = (
        *marks.arm_keys(run.arms, "box"),
        Key("line", palette.MARKER.light, "median"),
        Key("cross", palette.FAULT.light, "failed request"),
    )
    if count:
        legend += (
            Key("shade", palette.FAULT.light, "fault"),
            Key("shade", palette.INTERFERENCE.light, "interference"),
        )
    draw = partial(latency_over_time, run)
    return drawn("over-time", "Latency over time", caption, legend, draw, _no_requests(run))


def _boxes(run: RunFolder) -> Figure:
    caption = (
        "Box from 25 to 75 % with the median as a gap, whiskers from 5 to 95 %, diamond the mean, "
        f"circle p99, dotted to the maximum. {_sample_text(run)}; failed ones are at the time-out."
    )
    note = _no_requests(run) or ("" if box_rows(run) else "Only the warm-up was recorded.")
    legend = marks.arm_keys(run.arms, "box")
    draw = partial(latency_boxes, run)
    return drawn("boxes", "Latency of each arm", caption, legend, draw, note)


def _tail(run: RunFolder) -> Figure:
    caption = (
        "Share of requests slower than each latency (complementary distribution); lower and "
        "further left is better. Points mark p50, p90, p95, p99 and p99.9. Dotted: fewer than "
        f"{SAMPLES_BEYOND_MIN} samples lie beyond, so nothing may be concluded there. A curve "
        f"meets an SLO if it passes below its triangle. {_sample_text(run)}."
    )
    note = _no_requests(run)
    if not note and measured(run.requests)["latency_ms"].n_unique() < 2:
        note = "Fewer than two different latencies were measured: no distribution to draw."
    legend = marks.arm_keys(run.arms)
    return drawn("tail", "The tail", caption, legend, partial(latency_tail, run), note)


def _improvement(run: RunFolder) -> Figure:
    entries = run.summary.get("improvement") or {}
    factors = [entry for entry in entries.values() if entry.get("factor") is not None]
    caption = ""
    if factors:
        caption = (
            f"Factor and {percent(factors[0]['confidence'], 2)} interval, from "
            f"{number(factors[0]['samples'])} requests per arm in {number(factors[0]['pairs'])} "
            "pairs of blocks. Left of 1 the other arm is slower. A hollow point rests on fewer "
            f"than {SAMPLES_BEYOND_MIN} samples beyond it."
        )
    reasons = {str(entry.get("note")) for entry in entries.values() if entry.get("note")}
    note = "" if factors else f"No improvement factor: {'; '.join(reasons) or 'no result.json'}."
    draw = partial(improvement_intervals, run)
    return drawn("improvement", "Improvement", caption, (), draw, note)


def _comparison(run: RunFolder) -> Figure:
    comparison = run.summary.get("comparison") or {}
    baseline, _ = compared_arms(run.arms) if run.arms else ("", None)
    caption = (
        f"Factor over {baseline} and 95 % interval of every other arm, mean and p95, the best p95 "
        f"on top. A hollow point rests on fewer than {SAMPLES_BEYOND_MIN} samples beyond it."
    )
    has_factors = any(row["p95"].get("factor") is not None for row in comparison.values())
    note = "" if has_factors else "The run has fewer than three arms that met the same arrivals."
    legend = (
        Key("circle", palette.ARMS[0].light, "mean"),
        Key("square", palette.ARMS[1].light, "p95"),
    )
    draw = partial(comparison_factors, run)
    return drawn("comparison", "Every arm", caption, legend, draw, note)


def _servers(run: RunFolder) -> Figure:
    series = server_latencies(run)
    servers = series.select("tier", "server").unique().height
    caption = (
        f"Mean latency of each server between two polls of its arbiter, log scale, the same for "
        f"all of a tier; {number(series.height)} polls with answers, {number(servers)} servers. "
        "The strip on top shows the arm; shaded where that machine was disturbed."
    )
    if servers > PANELS_MAX:
        caption += f" The first {PANELS_MAX} are shown."
    note = "" if servers else "The arbiters' statistics are not in the folder, or hold no answer."
    legend = marks.arm_keys(run.arms, "box")
    draw = partial(servers_over_time, run)
    return drawn("servers", "Servers, as the arbiters saw them", caption, legend, draw, note)


def _hosts(run: RunFolder) -> Figure:
    hosts = run.hosts.filter(pl.col("cpu_percent").is_not_null())
    machines = hosts["machine"].n_unique()
    caption = (
        f"CPU of each machine in per cent of its cap; {number(hosts.height)} samples of "
        f"{number(machines)} machines. Shaded where that machine was disturbed."
    )
    if machines > PANELS_MAX:
        caption += f" The first {PANELS_MAX} are shown."
    note = "" if hosts.height else "No host samples are in the folder (InfluxDB was away?)."
    legend = marks.arm_keys(run.arms, "box")
    return drawn("hosts", "Machines", caption, legend, partial(hosts_over_time, run), note)
