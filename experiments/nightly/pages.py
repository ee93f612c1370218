"""Values of the site's pages for their templates."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.nightly.changes import Change
from experiments.nightly.cost_slo_chart import scatter_figure
from experiments.nightly.figures import gain_figure, latency_figure
from experiments.nightly.figures_levels import (
    burn_figure,
    errors_figure,
    levels_figures,
    million_figure,
    plan_figure,
)
from experiments.nightly.history import End, History, Night, Run, heads, missed
from experiments.nightly.levels import night_gain
from experiments.nightly.rows import front_of
from experiments.nightly.sparkline import sparkline
from experiments.nightly.suite import Suite
from experiments.nightly.tables import (
    ROWS_MAX,
    answer,
    change_table,
    conditions_table,
    levels_table,
    pair_words,
    percentile_words,
    pooled_table,
    runs_tables,
    tonight_table,
)
from experiments.nightly.words import change_words
from experiments.paths import ROOT
from experiments.report.text import MISSING, counted, factor, interval, milliseconds, percent, usd

SPARK_RUNS = 30
_GHOST_NIGHTS = 7
_FRESH_MAX = 4  # of the headline


@dataclass(frozen=True)
class Site:
    """The content of the pages."""

    suite: Suite
    history: History
    changes: tuple[Change, ...]
    reports: frozenset[str]  # folders of runs whose report is in the site

    @property
    def tonight(self) -> Night | None:
        """The newest night."""
        return self.history.nights[-1] if self.history.nights else None

    @property
    def end(self) -> End | None:
        """The end of the newest night; None if it was cut short."""
        return self.history.end_of(self.history.last_night)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The designs that the newest night did not run to their end, because it ran out of time
        or was ended."""
        return self.end.left_out if self.end else ()

    @property
    def entries(self) -> list[str]:
        """The entries of the suite, then those that only the history has."""
        suite_entries = [entry.label for entry in self.suite.file.designs]
        return suite_entries + sorted(self.history.entries - set(suite_entries))

    def state(self, entry: str) -> str:
        """Return a remark on an entry beside its figures; "" for most entries."""
        if entry in self.suite.gone:
            return f"its design cannot be read: {self.suite.gone[entry]}"
        if entry not in {member.label for member in self.suite.file.designs}:
            return "no longer in the suite"
        if entry in self.left_out:
            return "left for the next night, in which it comes first"
        runs = self.history.runs_of(entry)
        if not runs:
            return "not run yet"
        return "" if any(run.valid for run in runs) else "no run was valid yet"


def index_values(site: Site) -> dict[str, object]:
    return {
        "headline": headline(site),
        "tiles": [tile(site, entry) for entry in site.entries],
        "tonight": tonight_table(site.history),
        "notes": site.history.notes,
    }


def headline(site: Site) -> str:
    """Return the last night in a sentence or three."""
    if site.tonight is None:
        return "No night has been run yet."
    number_, runs = site.history.last_night, heads(site.history.runs, site.history.last_night)
    valid = [run for run in runs if run.valid]
    if not runs:
        return f"Night {number_} ran nothing."
    if not valid:
        first = f"Night {number_}: none of {len(runs)} runs was valid, so it says nothing."
    else:
        missed_entries = missed(run for run in site.history.runs if run.night == number_)
        met = f"SLO missed by {', '.join(missed_entries)}" if missed_entries else "no SLO missed"
        first = f"Night {number_}: {len(valid)} of {len(runs)} runs valid, {met}."
    fresh = [
        f"{change.entry}: {change_words(change)}" for change in site.changes if _fresh(site, change)
    ]
    rest = f"; and {len(fresh) - _FRESH_MAX} more" if len(fresh) > _FRESH_MAX else ""
    news = "; ".join(fresh[:_FRESH_MAX]) + rest
    second = f" New: {news}." if fresh else " No new change."
    third = f" Left for the next night: {', '.join(site.left_out)}." if site.left_out else ""
    disturbed = [run.entry for run in runs if run.disturbed]
    by_others = f" Disturbed by others on the host: {', '.join(disturbed)}." if disturbed else ""
    guarded = [run.entry for run in runs if run.stopped == "guard"]
    fourth = f" Stopped by guard: {', '.join(guarded)}." if guarded else ""
    halted = f"Halted: {site.end.halted.rstrip('.')}. " if site.end and site.end.halted else ""
    unreadable = f" Cannot be read: {', '.join(site.tonight.gone)}." if site.tonight.gone else ""
    return halted + first + by_others + (second if valid else "") + third + unreadable + fourth


def _fresh(site: Site, change: Change) -> bool:
    return site.end is not None and change.identity in site.end.changes


def tile(site: Site, entry: str) -> dict[str, object]:
    """Return one design of the front page: its last run, and the change that led to it."""
    runs = site.history.runs_of(entry)
    judged = [run for run in runs if run.arm is not None and run.arm == (run.judged or run.arm)]
    last = _newest(judged) or _newest(runs)
    entry_changes = [change for change in site.changes if change.entry == entry]
    is_gone = entry not in {member.name for member in site.suite.members}
    p95s = [(run.p95.ms, run.valid) for run in judged if run.p95 and run.p95.ms > 0]
    nights = counted(len(_nights(runs)), "night")
    return {
        "entry": entry,
        "state": site.state(entry),
        "mood": "gone" if is_gone else _mood(last),
        "answer": answer(last),
        "arm": last.arm if last else None,
        "p95": percentile_words(last.p95) if last else MISSING,
        "plan": usd(last.plan.get("usd_per_month")) if last else MISSING,
        "valid": bool(last and last.valid),
        "spark": sparkline(
            p95s[-SPARK_RUNS:], f"p95 of {entry} in its last {len(p95s[-SPARK_RUNS:])} runs"
        ),
        "change": _last_change(entry_changes) if entry_changes else f"none in {nights}",
        "night": last.night if last else None,
    }


def _last_change(changes: Sequence[Change]) -> str:
    beside = sum(change.night == changes[0].night for change in changes) - 1
    return change_words(changes[0]) + (f"; {beside} more that night" if beside else "")


def _mood(run: Run | None) -> str:
    if run is not None and run.valid and not run.slo:
        return "told"
    if run is None or not run.valid or run.slo_met is None:
        return "unknown"
    return "good" if run.slo_met else "bad"


def design_values(site: Site, entry: str) -> dict[str, object]:
    """Return the page of one design."""
    runs = site.history.runs_of(entry)
    entry_changes = tuple(change for change in site.changes if change.entry == entry)
    front, ghost, ghost_words = fronts(site, runs)
    return {
        "entry": entry,
        "state": site.state(entry),
        "headline": _design_headline(runs),
        "slo": slo_words(runs[-1]) if runs else "",
        "figures": [
            latency_figure(runs, "p95"),
            latency_figure(runs, "p99"),
            gain_figure(runs, "p95", entry_changes),
            errors_figure(runs),
            burn_figure(runs),
            plan_figure(runs),
            million_figure(runs),
            scatter_figure(runs, front, ghost, ghost_words),
            *levels_figures(runs),
        ] if any(run.arm for run in runs) else levels_figures(runs),
        "levels": levels_table(site.history, entry, entry_changes),
        "pooled": pooled_table(runs),
        "changes": change_table(entry_changes),
        "runs": runs_tables(runs),
        "conditions": conditions_table(runs),
        "not_valid": [
            f"night {run.night}: {'; '.join(run.reasons) or 'no reason was given'}"
            for run in reversed(heads(runs))
            if not run.valid
        ][:ROWS_MAX],
        "links": _report_links(site, runs),
    }  # fmt: skip


def _design_headline(runs: Sequence[Run]) -> str:
    if not runs:
        return "It was never run."
    run_heads = heads(runs)
    valid = sum(run.valid for run in run_heads)
    nights = counted(len(_nights(runs)), "night")
    counts = f"{counted(len(run_heads), 'run')} in {nights}, {valid} valid."
    if not valid:
        return f"{counts} No night had a valid run, so nothing can be said."
    judged = [run for run in runs if run.valid and run.arm == run.judged]
    last = _newest(judged)
    if last is None:
        return counts
    if last.arm is None or not last.slo:
        return f"{answer(last)} in night {last.night}, the newest valid one. {counts}"
    outcome = {True: "met", False: "missed", None: "may have met"}[last.slo_met]
    sentence = f"{last.arm} {outcome} the SLO in night {last.night}, the newest valid one"
    if last.p95:
        sentence += f", with a p95 of {percentile_words(last.p95)}"
    pooled = night_gain(judged, "p95")
    if pooled:
        low, high = math.exp(pooled.low), math.exp(pooled.high)
        sentence += f"; {last.baseline}'s p95 over its own is {factor(math.exp(pooled.log))} "
        sentence += f"({interval(low, high)}) over {counted(pooled.runs, 'run')}"
        sentence += ", which shows no difference" if low <= 1 <= high else ""
    return f"{sentence}. {counts}"


def slo_words(run: Run) -> str:
    """Return the SLO, the time when it was set, and the suite's note; "" without an SLO."""
    limits = [
        f"{name.removesuffix('_ms')} at most {milliseconds(run.slo[name])}"
        for name in ("p95_ms", "p99_ms")
        if name in run.slo
    ]
    if "max_error_share" in run.slo:
        limits.append(f"errors at most {percent(run.slo['max_error_share'])}")
    set_words = {"before": "set before the first run", "after": "set after the first runs"}
    parts = [", ".join(limits), set_words.get(run.slo_set or "", ""), run.note]
    return "; ".join(part for part in parts if part)


def fronts(
    site: Site, runs: Sequence[Run]
) -> tuple[list[dict[str, float]], list[dict[str, float]], str]:
    """Return the points of the newest front and of one about a week older, and that one's name."""
    dated_fronts: list[tuple[Run, list[dict[str, float]]]] = []
    for run in reversed(heads(runs)):
        points = front_of(site.suite.results / run.folder) if run.folder and run.valid else []
        if points and not dated_fronts:
            dated_fronts.append((run, points))
        elif points and run.night < dated_fronts[0][0].night:
            dated_fronts.append((run, points))
            if run.night <= dated_fronts[0][0].night - _GHOST_NIGHTS:
                break
    if not dated_fronts:
        return [], [], ""
    if len(dated_fronts) == 1:
        return dated_fronts[0][1], [], ""
    before, points = dated_fronts[-1]
    return dated_fronts[0][1], points, f"front of night {before.night}"


def commits_between(changes: Sequence[Change]) -> list[dict[str, object]]:
    """Return the commits between the nights of each change, unless git does not know them."""
    commit_pairs = {
        change.commits: change for change in changes if change.commits[0] != change.commits[1]
    }
    return [
        {"words": pair_words(commits), "lines": lines}
        for commits in commit_pairs
        if (lines := _log(*(str(commit).removesuffix("-dirty") for commit in commits)))
    ]


def _log(before: str, after: str) -> list[str]:
    command = ["git", "-C", str(ROOT), "log", "--oneline", "-n", "50", f"{before}..{after}", "--"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return process.stdout.splitlines()


def _report_links(site: Site, runs: Sequence[Run]) -> list[dict[str, str]]:
    return [
        {"folder": run.folder, "words": f"night {run.night}"}
        for run in reversed(heads(runs))
        if run.folder in site.reports and run.folder is not None
    ]


def _newest(runs: Sequence[Run]) -> Run | None:
    return max(runs, key=lambda run: (run.night, run.number), default=None)


def _nights(runs: Sequence[Run]) -> set[int]:
    return {run.night for run in runs}
