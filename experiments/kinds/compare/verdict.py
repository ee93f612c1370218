"""The verdict of a run in a sentence, its gain, and each arm beside the SLO's limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.kinds.compare.availability import missed_words, nines
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.headline import headline
from experiments.kinds.compare.predicted import promise_sentence, verdict_sentence
from experiments.kinds.compare.spec_summary import in_short, settings_of
from experiments.record.disturbed import disturbed_words
from experiments.record.metrics.summary import compared_arms
from experiments.record.result import stopped_words, validity
from experiments.report.tables import Cell, Table, named
from experiments.report.text import (
    MISSING,
    factor,
    interval,
    milliseconds,
    number,
    percent,
    plain,
    statistic,
)

_COUNTS = ("no copy", "one copy", "two copies of each read", "three copies of each read")
_MARKS = {True: ("✓", "good"), False: ("✗", "bad"), None: ("?", "unknown")}
_NO_MARK = ("○", "void")  # of a run that is not valid
_LIMITS = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_error_share")
_ARMS_MOST = 3  # that the verdict names each


def verdict(run: RunFolder) -> str:
    """Return the arms that met the SLO, of a plan's fleet the promise's verdict, and whether the
    fleet's availability meets it by the model; of a run that is not valid or disturbed, that
    nothing may be concluded.
    """
    if run.summary.get("valid") is None:
        return "There is no result, so there is no verdict."
    if stopped := stopped_words(run.summary):
        return f"{stopped} Nothing may be concluded from this run."
    if validity(run.summary) == "disturbed":
        return (
            f"This run was {disturbed_words(run.summary['disturbed'])}. Nothing may be concluded "
            "of its fleet. Run it again while the host is free; --quiet-wait 60 waits for that."
        )
    if not run.summary["valid"]:
        return f"This run is not valid: nothing may be concluded from it{_against(run)}."
    arms = (run.summary.get("slo") or {}).get("arms") or {}
    if run.summary.get("promise"):
        measured = promise_sentence(run.summary)
    elif arms:
        measured = _met_by(run, {arm: entry["met"] for arm, entry in arms.items()})
    else:
        return "No SLO was asked for."
    missed = missed_words(run.summary.get("slo"))
    return f"{measured} {missed}" if missed else measured


def _met_by(run: RunFolder, found: Mapping[str, bool | None]) -> str:
    """Arms that met the SLO's latencies and errors."""
    words = arm_words(run)
    if len(found) > _ARMS_MOST:
        return _of_many(run, found, words)
    by_answer = {
        answer: [words[arm] for arm, met in found.items() if met is answer]
        for answer in (True, False, None)
    }
    met, missed, unsure = by_answer.values()
    parts = [f"{_all_of(met)} met the SLO"] if met else []
    parts += [f"{_and(missed)} did not" if met else _none_of(missed)] if missed else []
    if unsure:
        subject = "it is undecided" if parts else "it is undecided whether the SLO is met"
        parts.append(f"for {_and(unsure)} {subject}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}{_unlike(run, found)}."


def _against(run: RunFolder) -> str:
    """Return the first reason against the run."""
    found = run.summary.get("verdicts") or run.manifest.get("verdicts") or {}
    reasons = [reason for one in found.values() for reason in (one or {}).get("reasons") or ()]
    return f" ({reasons[0]})" if reasons else ""


def _of_many(run: RunFolder, found: Mapping[str, bool | None], words: Mapping[str, str]) -> str:
    baseline, _ = compared_arms(run.arms)
    count = sum(met is True for met in found.values())
    unsure = sum(met is None for met in found.values())
    said = {True: "did", False: "did not", None: "is undecided"}[found.get(baseline)]
    open_ones = f"; for {unsure} it is undecided" if unsure else ""
    name = words.get(baseline, baseline)
    return f"{count} of {len(found)} arms met the SLO; the baseline, {name}, {said}{open_ones}."


def _unlike(run: RunFolder, found: Mapping[str, bool | None]) -> str:
    """Return the difference of two arms, of which one met the SLO and another did not."""
    entry = (run.summary.get("improvement") or {}).get("p95") or {}
    if len(found) != 2 or set(found.values()) != {True, False} or differs(entry) is not False:
        return ""
    return "; that their p95 differs is not shown, its interval contains 1"


def differs(entry: Mapping[str, Any]) -> bool | None:
    """Tell whether the interval of a factor excludes 1; None without an interval."""
    if entry.get("ci_low") is None:
        return None
    return bool(entry["ci_low"] > 1 or entry["ci_high"] < 1)


def _and(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _all_of(words: Sequence[str]) -> str:
    return f"both {_and(words)}" if len(words) == 2 else _and(words)


def _none_of(words: Sequence[str]) -> str:
    if len(words) == 1:
        return f"{words[0]} did not meet the SLO"
    several = f"neither {words[0]} nor {words[1]}" if len(words) == 2 else f"none of {_and(words)}"
    return f"{several} met the SLO"


def arm_words(run: RunFolder) -> dict[str, str]:
    """Return each arm by what sets it apart from the others: "two copies of each read with tad".

    Tiers in which no arm differs are not spoken of; where that leaves two arms alike, their names
    are said too.
    """
    if run.summary.get("predicted"):
        return dict.fromkeys(run.arms, "the planned fleet")
    settings = {arm: settings_of(run, arm) for arm in run.arms}
    words = {arm: _set_apart(own, settings) for arm, own in settings.items()}
    said = list(words.values())
    return {
        arm: text if text and said.count(text) == 1 else f"{text} ({arm})" if text else arm
        for arm, text in words.items()
    }


def _set_apart(
    own: Mapping[str, Mapping[str, Any]], everyone: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> str:
    def unlike(key: str) -> list[Any]:
        """Return this arm's values in the tiers in which the arms differ."""
        others = [arm for arm in everyone.values() if len(everyone) > 1]
        return [
            tier[key]
            for name, tier in own.items()
            if not others or len({str(arm.get(name, {}).get(key)) for arm in others}) > 1
        ]

    copies, policies = sorted(set(unlike("replicas"))), list(dict.fromkeys(unlike("policy")))
    words = [f"r = ({', '.join(map(str, unlike('replicas')))})"] if len(copies) > 1 else []
    if len(copies) == 1:
        known = copies[0] < len(_COUNTS)
        words = [_COUNTS[copies[0]] if known else f"{copies[0]} copies of each read"]
    with_ = " and ".join(policies)
    return f"{words[0]} with {with_}" if words and with_ else (words or [with_])[0]


def gain(run: RunFolder) -> str:
    """Return the second arm's gain, in a sentence; what cannot be said is left out."""
    if run.summary.get("predicted"):
        return verdict_sentence(run.summary)
    baseline, other, entries = headline_arms(run)
    if other is None:
        return f"This run has one arm, {baseline}, and nothing to compare it with."
    usable = [n for n in ("p95", "p99", "mean") if (entries.get(n) or {}).get("factor") is not None]
    if not usable:
        return "This run does not compare two arms: no arrivals were measured by both."
    name = next((name for name in usable if not entries[name].get("insufficient")), usable[0])
    entry = entries[name]
    share = entry["factor"]
    change = f"{factor(share)} lower" if share >= 1 else f"{factor(1 / share)} higher"
    inverse = "" if share >= 1 else f"factor {number(share)}, "
    text = (
        f"With {other}, {'mean latency' if name == 'mean' else name} is {change} than with "
        f"{baseline} ({inverse}95 % interval "
        f"{interval(entry['ci_low'], entry['ci_high'])})."
    )
    if entry.get("pairs") == 1:
        text += " It is from one pair of blocks: what varies between pairs is not in the interval."
    if not differs(entry) and "contains 1" not in verdict(run):
        text += " The interval contains 1: this run does not show a difference."
    if run.summary.get("comparison"):
        text += f" It has the best p95 of {len(run.arms)} arms; the best of many looks too good."
    return text


def headline_arms(run: RunFolder) -> tuple[str, str | None, Mapping[str, Mapping[str, Any]]]:
    """Return the two arms of the headline, and their factors."""
    return headline(*compared_arms(run.arms), run.summary)


def gain_table(run: RunFolder) -> Table | None:
    """Factor and interval of p95, p50, mean and p99, and of p99.9 where enough requests lie beyond
    it, with both arms' values."""
    baseline, other, entries = headline_arms(run)
    if other is None or not entries:
        return None
    arms = run.summary.get("arms") or {}
    rows = []
    for name, entry in entries.items():
        doubtful = bool(entry.get("insufficient"))
        both = [
            Cell(milliseconds((arms.get(arm) or {}).get(f"{name}_ms")), doubtful)
            for arm in (baseline, other)
        ]
        rows.append((named(statistic(name)), *both, factor_cell(run, entry)))
    first = next(iter(entries.values()))
    caption = f"Gain: {number(first.get('samples'))} requests per arm, {first.get('pairs')} pairs"
    for name in ("p99", "p99_9"):
        if (beyond := (entries.get(name) or {}).get("samples_beyond")) is not None:
            caption += f", {number(beyond)} beyond {statistic(name)}"
    return Table("gain-table", caption, ("", baseline, other, "factor (95 %)"), tuple(rows))


def factor_cell(run: RunFolder, entry: Mapping[str, Any] | None) -> Cell:
    """Return a factor, its interval below it; coloured where the interval leaves 1 out, enough
    requests lie beyond it, and the run is valid.
    """
    if not entry or entry.get("factor") is None:
        return Cell(MISSING)
    doubtful, bounds = bool(entry.get("insufficient")), interval(entry["ci_low"], entry["ci_high"])
    mood = ("good" if entry["factor"] > 1 else "bad") if differs(entry) and not doubtful else ""
    if not run.summary.get("valid"):
        mood = _NO_MARK[1]
    return Cell(factor(entry["factor"]), doubtful, mood=mood, about=bounds)


def slo_table(run: RunFolder) -> Table | None:
    """Return each arm with what it is, and each limit with what the arm reached."""
    slo = run.summary.get("slo") or {}
    asked = slo.get("asked") or {}
    limits = [key for key in _LIMITS if asked.get(key) is not None]
    if not slo.get("arms") or not limits:
        return None
    rows = [
        (arm_cell(run, arm), *(_limit_cell(run, arm, key) for key in limits))
        for arm in _of_first_screen(run, slo["arms"])
    ]
    heads = [
        f"errors ≤ {plain(100 * asked[key])} %" if key == "max_error_share"
        else f"{key.removesuffix('_ms')} ≤ {plain(asked[key])} ms"
        for key in limits
    ]  # fmt: skip
    known = asked.get("preregistered")
    words = f"SLO, set {'before' if known else 'after'} the first run" if known is not None else (
        "SLO; when it was set is not said")  # fmt: skip
    if not run.summary.get("valid"):
        words += f"; {_NO_MARK[0]} not judged"
    elif asked.get("availability") is not None:
        words += f"; availability of {nines(asked['availability'])} is the plan's"
        if modelled := slo.get("availability"):
            mark, _ = _MARKS[modelled["met"]]
            words += f": {nines(modelled['predicted'])} {mark}"
    return Table("slo-table", words, ("arm", *heads), tuple(rows))


def _limit_cell(run: RunFolder, arm: str, key: str) -> Cell:
    """Return the figure of an arm, and the verdict on its limit."""
    figures = (run.summary.get("arms") or {}).get(arm) or {}
    errors = key == "max_error_share"
    text = percent(figures.get("error_share")) if errors else milliseconds(figures.get(key))
    entry = run.summary["slo"]["arms"][arm]
    # older results judge the arm alone: which of its limits it missed is not known
    mark, mood = slo_mark(run, (entry.get("limits") or {}).get(key, entry["met"] or None))
    return Cell(f"{text} {mark}", mood=mood)


def slo_mark(run: RunFolder, answer: bool | None) -> tuple[str, str]:
    """Return the mark and the mood of an answer; hollow and grey where the run is not valid."""
    return _MARKS[answer] if run.summary.get("valid") else _NO_MARK


def slo_notes(run: RunFolder) -> list[str]:
    """Why a limit was missed, or is undecided, that the figure itself keeps: requests that failed
    count as slower than any limit, and few samples decide nothing."""
    slo = run.summary.get("slo") or {}
    notes = []
    for arm in _of_first_screen(run, slo.get("arms") or {}):
        entry, figures = slo["arms"][arm], (run.summary.get("arms") or {}).get(arm) or {}
        against = [key for key, met in (entry.get("limits") or {}).items() if met is not True]
        for key, reason in zip(against, entry["reasons"], strict=False):
            if (figures.get(key) or math.inf) <= slo["asked"][key]:
                notes.append(f"{arm}, {reason}.")
    return notes


def _of_first_screen(run: RunFolder, arms: Iterable[str]) -> list[str]:
    """Return all arms; of many the two that are compared, the others have a table of their own."""
    shown = list(arms)
    return shown if len(shown) <= _ARMS_MOST else [a for a in shown if a in headline_arms(run)[:2]]


def arm_cell(run: RunFolder, arm: str) -> Cell:
    """Return an arm, whether it met the SLO, and what it is."""
    entry = ((run.summary.get("slo") or {}).get("arms") or {}).get(arm) or {"met": None}
    mark, mood = slo_mark(run, entry["met"])
    return Cell(f"{mark} {arm}", numeric=False, mood=mood, about=in_short(run, arm))
