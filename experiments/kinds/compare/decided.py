"""The decision on a run's primary figure: a sentence, and a table of its looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.record.metrics.looks import looks_most
from experiments.report.tables import Cell, Table, named
from experiments.report.text import factor, interval, listed, number, percent

_ENDS = {
    "figure": "decided",
    "slo": "decided by the SLO",
    "repeats": "undecided after all repeats",
    "budget": "undecided, the budget of time is spent",
    "": "undecided",
}
_MOODS = {"faster": "good", "slower": "bad", "equivalent": "good", "undecided": "unknown"}


def end_words(decided: Mapping[str, Any]) -> str:
    looks = decided["looks"]
    if not looks:
        return "The run ended before the first look at what it was to decide."
    last = looks[-1]
    text = (
        f"The {_subject(decided)} was to be decided; look {len(looks)} of "
        f"{looks_most(decided)}, after {last['blocks']} blocks, ended the run: "
        f"{_ENDS[decided['ended_by']]}"
    )
    if decided["missing"]:
        text += (
            f". Missing: the interval of {listed(decided['missing'])} against the baseline neither "
            "leaves 1 out nor lies within 15 %; more repeats narrow it"
        )
    return f"{text}."


def _subject(decided: Mapping[str, Any]) -> str:
    """Return the figure, or the SLO if one arm leaves nothing to compare."""
    return str(decided["figure"]) if decided["looks"][0]["comparisons"] else "SLO"


def looks_table(decided: Mapping[str, Any]) -> Table:
    """Return each look with its level, its intervals at that level, and the SLO's answers."""
    looks = decided["looks"]
    arms = list(looks[0]["comparisons"])
    slo_arms = list(looks[0]["slo"])
    level = "level" if arms else "slo_level"
    rows = tuple(
        (
            named(str(look["look"])), Cell(number(look["blocks"])), Cell(percent(look[level])),
            *(_factor_cell(look["comparisons"][arm]) for arm in arms),
            *(named(look["slo"][arm]) for arm in slo_arms),
        )
        for look in looks
    )  # fmt: skip
    head = ("look", "blocks", "error of this look", *(f"{arm}, factor" for arm in arms),
            *(f"SLO, {arm}" for arm in slo_arms))  # fmt: skip
    error = 5 if arms else 10
    caption = f"Looks at the {_subject(decided)}; {error} % of error are spent over them"
    return Table("looks-table", caption, head, rows)


def _factor_cell(entry: Mapping[str, Any]) -> Cell:
    if entry["factor"] is None:
        return named(entry["decided"])
    bounds = interval(entry["ci_low"], entry["ci_high"])
    return Cell(
        factor(entry["factor"]), mood=_MOODS[entry["decided"]],
        about=f"{bounds}, {entry['decided']}",
    )  # fmt: skip


def decided_values(manifest: Mapping[str, Any]) -> dict[str, object] | None:
    """Return sentence and table of a run that was to decide; None for other runs."""
    decided = manifest.get("decided")
    if not decided:
        return None
    return {"said": end_words(decided), "table": looks_table(decided) if decided["looks"] else None}
