"""The tables of the site's pages."""

from __future__ import annotations

import math
from collections.abc import Sequence

from experiments.nightly.changes import Change, host_words
from experiments.nightly.figures import arms_of
from experiments.nightly.history import History, Percentile, Run, heads
from experiments.nightly.levels import FEASIBLE, MET, Series, all_series, night_gain
from experiments.nightly.words import level_words, metric_words
from experiments.report.tables import Cell, Table, named
from experiments.report.text import (
    MISSING,
    counted,
    factor,
    interval,
    milliseconds,
    number,
    percent,
    usd,
)

ROWS_MAX = 60  # of the tables of runs
RUNS_SHOWN = 3  # that are not folded
_YES_NO = (MET, FEASIBLE)


def answer(run: Run | None) -> str:
    """Return a run's answer in few words: SLO met or not; its finding if it has no arms."""
    if run is None:
        return "not run"
    if run.stopped:
        return f"stopped by {run.stopped}"
    if not run.valid:
        return "run disturbed" if run.disturbed else "run not valid"
    if not run.slo:
        return run.found or "no SLO"
    return {True: "SLO met", False: "SLO missed", None: "SLO undecided"}[run.slo_met]


def tonight_table(history: History) -> Table | None:
    """Return every run of the newest night; None if there was none."""
    runs = heads(history.runs, history.last_night)
    rows = []
    for head in runs:
        arm = _last_arm(history, head)
        pooled = night_gain(
            [run for run in history.runs_of(head.entry) if run.arm == arm.arm], "p95"
        )
        over_all = MISSING
        if pooled:
            over_all = f"{factor(math.exp(pooled.log))} ({counted(pooled.runs, 'run')})"
        rows.append((
            named(head.entry), named(_valid_words(head)), named(answer(arm)),
            Cell(percentile_words(arm.p95)), Cell(_gain_words(arm)),
            Cell(over_all), Cell(number(head.minutes)),
        ))  # fmt: skip
    head_row = ("design", "valid", "answer", "p95", "gain in p95", "over all runs", "minutes")
    return Table("tonight-table", "The newest night", head_row, tuple(rows)) if rows else None


def pooled_table(runs: Sequence[Run]) -> Table | None:
    """Return each arm's gain over all runs; None if nothing is compared."""
    rows = []
    for arm in arms_of(runs):
        for statistic in ("mean", "p50", "p95", "p99"):
            arm_runs = [run for run in runs if run.arm == arm]
            pooled = night_gain(arm_runs, statistic)
            if pooled is None:
                continue
            low, high = math.exp(pooled.low), math.exp(pooled.high)
            next_interval = MISSING
            if pooled.next_low is not None and pooled.next_high is not None:
                next_interval = interval(math.exp(pooled.next_low), math.exp(pooled.next_high))
            without_one = _intervals_without_one(arm_runs, statistic)
            rows.append((
                named(arm), named(statistic), Cell(number(pooled.runs)),
                Cell(factor(math.exp(pooled.log))), Cell(interval(low, high)), Cell(next_interval),
                Cell(number(pooled.tau) if pooled.runs > 1 else MISSING),
                Cell(f"{without_one:,} of {pooled.runs:,}"),
            ))  # fmt: skip
    head = ("arm", "of", "runs", "factor", "95 % interval", "a further run", "spread (log)",
            "runs whose interval leaves 1")  # fmt: skip
    caption = "Gain over the baseline, all valid runs (random effects)"
    return Table("pooled", caption, head, tuple(rows)) if rows else None


def _intervals_without_one(runs: Sequence[Run], statistic: str) -> int:
    gains = [run.gains[statistic] for run in runs if run.valid and statistic in run.gains]
    return sum(
        gain.low is not None and gain.high is not None and not gain.low <= 0.0 <= gain.high
        for gain in gains
    )


def change_table(changes: Sequence[Change]) -> Table | None:
    """Return the changes, newest first; None if there are none."""
    rows = tuple(
        (
            named(f"{change.when:%Y-%m-%d}, night {change.night}"),
            named(change.entry),
            named(", ".join(part for part in (change.arm, metric_words(change.metric)) if part)),
            Cell(level_words(change.metric, change.before)),
            Cell(level_words(change.metric, change.after)),
            Cell(_factor_text(change)),
            Cell(f"{change.p:.1g}".replace("-", "\N{NON-BREAKING HYPHEN}")),
            Cell(f"{change.nights_before} / {change.nights_after}"),
            named(pair_words(change.commits)),
            named(pair_words(change.hosts) if change.hosts[0] != change.hosts[1] else "the same"),
            Cell(pair_words(tuple(map(number, change.speeds))) if any(change.speeds) else MISSING),
        )
        for change in changes
    )
    head = ("when", "design", "what", "before", "after", "by", "p", "nights before / after",
            "commits", "host", "kernel, 1/s")  # fmt: skip
    return Table("changes", "Changes, newest first", head, rows) if rows else None


def _factor_text(change: Change) -> str:
    """Return the factor; missing for a metric of yes or no, and if the level before was 0."""
    countable = change.metric not in _YES_NO and change.before > 0
    return factor(change.factor) if countable else MISSING


def levels_table(history: History, entry: str, changes: Sequence[Change]) -> Table | None:
    """Return every watched metric of a design, with its level since the last change.

    Only the present version of the design counts. None if no value is known.
    """
    newest: dict[str, Series] = {}
    for series in all_series(history):
        if series.entry == entry and series.values:
            newest[series.key] = series  # of the newest version
    rows = []
    for series in newest.values():
        nights = [runs[0].night for runs in series.nights]
        last = next(
            (change for change in changes if change.key == series.key and change.night in nights),
            None,
        )
        begin = nights.index(last.night) if last else 0
        count = len(nights)
        rows.append((
            named(series.arm or "the run"), named(metric_words(series.metric)),
            Cell(level_words(series.metric, series.level(count - 1, count))),
            Cell(level_words(series.metric, series.level(begin, count))),
            Cell(f"{nights[begin]} to {nights[-1]}"),
        ))  # fmt: skip
    head = ("of", "figure", "newest night", "level", "in nights")
    return Table("levels", "What is watched", head, tuple(rows)) if rows else None


def pair_words(pair: Sequence[str | None]) -> str:
    return f"{pair[0] or '?'} to {pair[1] or '?'}"


def runs_tables(runs: Sequence[Run]) -> list[Table]:
    """Return a table of the newest runs and one of the older runs, arm by arm; no empty table."""
    newest_keys = {(run.night, run.number) for run in heads(_newest_first(runs))[:RUNS_SHOWN]}
    newest = [run for run in _newest_first(runs) if (run.night, run.number) in newest_keys]
    older = [run for run in _newest_first(runs) if (run.night, run.number) not in newest_keys]
    tables = (
        _runs_table("runs", "The newest runs", newest),
        _runs_table("older-runs", f"Older runs: {len(heads(older))}", older),
    )
    return [table for table in tables if table.rows]


def _runs_table(identity: str, caption: str, runs: Sequence[Run]) -> Table:
    rows = tuple(
        (
            named(_night_words(run)),
            named(run.arm or MISSING),
            named(_validity(run)),
            Cell(milliseconds(run.p50.ms) if run.p50 else MISSING),
            _percentile_cell(run.p95),
            _percentile_cell(run.p99),
            named(answer(run)),
            Cell(_gain_words(run)),
            Cell(usd(run.plan.get("usd_per_month"))),
        )
        for run in runs
    )
    head = ("night", "arm", "valid", "p50", "p95", "p99", "answer", "gain in p95", "plan a month")
    return Table(identity, caption, head, rows)


def conditions_table(runs: Sequence[Run]) -> Table | None:
    rows = tuple(
        (
            named(_night_words(run)),
            named(run.arm or MISSING),
            Cell(number(run.requests)),
            Cell(number(run.errors)),
            Cell(number(run.burn.get("p95_ms"))),
            Cell(number(run.core_speed)),
            Cell(number(run.reference_per_s)),
            Cell(percent(run.others_share)),
            Cell(percent(run.stolen_share)),
            Cell(str(run.seed)),
            named(run.commit or MISSING),
            named(host_words(run)),
        )
        for run in _newest_first(runs)
    )
    head = ("night", "arm", "requests", "errors", "burn of p95", "core speed", "kernel, 1/s",
            "other work", "stolen", "seed", "commit", "host")  # fmt: skip
    return Table("conditions", "The same runs", head, rows) if rows else None


def _newest_first(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (-run.night, -run.number))[:ROWS_MAX]


def _night_words(run: Run) -> str:
    return f"{run.night}, {run.started or run.at:%-d %b}"


def _last_arm(history: History, head: Run) -> Run:
    """Return the arm to which the SLO applies, else the run's last arm."""
    arms = [run for run in history.runs if (run.night, run.number) == (head.night, head.number)]
    return next((run for run in arms if run.arm == head.judged), arms[-1])


def _validity(run: Run) -> str:
    return "yes" if run.valid else "disturbed" if run.disturbed else "no"


def _valid_words(run: Run) -> str:
    reasons = () if run.valid else run.reasons[:1]
    return ": ".join((_validity(run), *reasons))


def percentile_words(percentile: Percentile | None) -> str:
    if percentile is None:
        return MISSING
    if percentile.low_ms is None:
        return milliseconds(percentile.ms)
    limits = interval(percentile.low_ms, percentile.high_ms, milliseconds)
    return f"{milliseconds(percentile.ms)} ({limits})"


def _percentile_cell(percentile: Percentile | None) -> Cell:
    return Cell(
        percentile_words(percentile), doubtful=percentile is not None and not percentile.sufficient
    )


def _gain_words(run: Run) -> str:
    gain = run.gains.get("p95")
    if gain is None:
        return MISSING
    words = factor(math.exp(gain.log))
    if gain.low is None or gain.high is None:
        return words
    return f"{words} ({interval(math.exp(gain.low), math.exp(gain.high))})"
