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
    listed,
    milliseconds,
    number,
    percent,
    plain,
    statistic,
)

_COUNTS = ("no copy", "one copy", "two copies of each read", "three copies of each read")
_MARKS = {True: ("✓", "good"), False: ("✗", "bad"), None: ("?", "unknown")}
_NO_MARK = ("○", "void")  # for a run that is not valid
_LIMITS = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_error_share")
_ARMS_MOST = 3  # up to so many, the verdict names each


def verdict(run: RunFolder) -> str:
    """Return the arms that met the SLO, or the promise's verdict for a plan's fleet.

    A second sentence says that the fleet's availability misses the SLO by the model. For a run
    that is disturbed or not valid, the text says that nothing may be concluded.
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
        return f"This run is not valid: nothing may be concluded from it{_objection_text(run)}."
    arms = (run.summary.get("slo") or {}).get("arms") or {}
    if run.summary.get("promise"):
        measured = promise_sentence(run.summary)
    elif arms:
        measured = _slo_sentence(run, {arm: entry["met"] for arm, entry in arms.items()})
    else:
        return "No SLO was asked for."
    missed = missed_words(run.summary.get("slo"), run.plan)
    return f"{measured} {missed}" if missed else measured


def _slo_sentence(run: RunFolder, answers: Mapping[str, bool | None]) -> str:
    arm_texts = arm_words(run)
    if len(answers) > _ARMS_MOST:
        return _many_arms_sentence(run, answers, arm_texts)
    by_answer = {
        answer: [arm_texts[arm] for arm, met in answers.items() if met is answer]
        for answer in (True, False, None)
    }
    met, missed, unsure = by_answer.values()
    parts = [f"{_join_all(met)} met the SLO"] if met else []
    parts += [f"{listed(missed)} did not" if met else _none_met_text(missed)] if missed else []
    if unsure:
        subject = "it is undecided" if parts else "it is undecided whether the SLO is met"
        parts.append(f"for {listed(unsure)} {subject}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}{_no_difference_text(run, answers)}."


def _objection_text(run: RunFolder) -> str:
    """Return the first reason against the run."""
    verdicts = run.summary.get("verdicts") or run.manifest.get("verdicts") or {}
    reasons = [
        reason for entry in verdicts.values() for reason in (entry or {}).get("reasons") or ()
    ]
    return f" ({reasons[0]})" if reasons else ""


def _many_arms_sentence(
    run: RunFolder, answers: Mapping[str, bool | None], arm_texts: Mapping[str, str]
) -> str:
    baseline, _ = compared_arms(run.arms)
    count = sum(met is True for met in answers.values())
    unsure = sum(met is None for met in answers.values())
    baseline_text = {True: "did", False: "did not", None: "is undecided"}[answers.get(baseline)]
    undecided_text = f"; for {unsure} it is undecided" if unsure else ""
    name = arm_texts.get(baseline, baseline)
    return (
        f"{count} of {len(answers)} arms met the SLO; the baseline, {name}, "
        f"{baseline_text}{undecided_text}."
    )


def _no_difference_text(run: RunFolder, answers: Mapping[str, bool | None]) -> str:
    """Return a remark for two arms of which one met the SLO, if their p95 may be equal."""
    entry = (run.summary.get("improvement") or {}).get("p95") or {}
    if len(answers) != 2 or set(answers.values()) != {True, False} or differs(entry) is not False:
        return ""
    return "; that their p95 differs is not shown, its interval contains 1"


def differs(entry: Mapping[str, Any]) -> bool | None:
    """Tell whether the interval of a factor excludes 1; None without an interval."""
    if entry.get("ci_low") is None:
        return None
    return bool(entry["ci_low"] > 1 or entry["ci_high"] < 1)


def _join_all(arm_texts: Sequence[str]) -> str:
    return f"both {listed(arm_texts)}" if len(arm_texts) == 2 else listed(arm_texts)


def _none_met_text(arm_texts: Sequence[str]) -> str:
    if len(arm_texts) == 1:
        return f"{arm_texts[0]} did not meet the SLO"
    if len(arm_texts) == 2:
        return f"neither {arm_texts[0]} nor {arm_texts[1]} met the SLO"
    return f"none of {listed(arm_texts)} met the SLO"


def arm_words(run: RunFolder) -> dict[str, str]:
    """Describe each arm by its difference from the others: "two copies of each read with tad".

    Tiers in which no arm differs are not mentioned. If two arms then have the same text, their
    names are added.
    """
    if run.summary.get("predicted"):
        return dict.fromkeys(run.arms, "the planned fleet")
    settings = {arm: settings_of(run, arm) for arm in run.arms}
    texts = {arm: _distinguish(arm_settings, settings) for arm, arm_settings in settings.items()}
    all_texts = list(texts.values())
    return {
        arm: text if text and all_texts.count(text) == 1 else f"{text} ({arm})" if text else arm
        for arm, text in texts.items()
    }


def _distinguish(
    arm_settings: Mapping[str, Mapping[str, Any]],
    settings: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> str:
    def differing_values(key: str) -> list[Any]:
        """Return this arm's values in the tiers in which the arms differ."""
        arms_to_compare = [arm for arm in settings.values() if len(settings) > 1]
        return [
            tier[key]
            for name, tier in arm_settings.items()
            if not arms_to_compare
            or len({str(arm.get(name, {}).get(key)) for arm in arms_to_compare}) > 1
        ]

    replicas, policies = differing_values("replicas"), dict.fromkeys(differing_values("policy"))
    copies = sorted(set(replicas))
    parts = [f"r = ({', '.join(map(str, replicas))})"] if len(copies) > 1 else []
    if len(copies) == 1:
        has_name = copies[0] < len(_COUNTS)
        parts = [_COUNTS[copies[0]] if has_name else f"{copies[0]} copies of each read"]
    policy_text = " and ".join(policies)
    return (
        f"{parts[0]} with {policy_text}" if parts and policy_text else (parts or [policy_text])[0]
    )


def gain(run: RunFolder) -> str:
    """Return the second arm's gain in a sentence; unknown parts are left out."""
    if run.summary.get("predicted"):
        return verdict_sentence(run.summary)
    baseline, other_arm, entries = headline_arms(run)
    if other_arm is None:
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
        f"With {other_arm}, {'mean latency' if name == 'mean' else name} is {change} than with "
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
    return headline(*compared_arms(run.arms), run.summary)


def gain_table(run: RunFolder) -> Table | None:
    """Return factor and interval of p95, p50, mean and p99 with both arms' values; also of p99.9
    where enough requests lie beyond it."""
    baseline, other_arm, entries = headline_arms(run)
    if other_arm is None or not entries:
        return None
    arms = run.summary.get("arms") or {}
    rows = []
    for name, entry in entries.items():
        doubtful = bool(entry.get("insufficient"))
        arm_cells = [
            Cell(milliseconds((arms.get(arm) or {}).get(f"{name}_ms")), doubtful)
            for arm in (baseline, other_arm)
        ]
        rows.append((named(statistic(name)), *arm_cells, factor_cell(run, entry)))
    first = next(iter(entries.values()))
    caption = f"Gain: {number(first.get('samples'))} requests per arm, {first.get('pairs')} pairs"
    for name in ("p99", "p99_9"):
        if (beyond := (entries.get(name) or {}).get("samples_beyond")) is not None:
            caption += f", {number(beyond)} beyond {statistic(name)}"
    return Table("gain-table", caption, ("", baseline, other_arm, "factor (95 %)"), tuple(rows))


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
    """Return each arm with its settings, and its figure for each limit."""
    slo = run.summary.get("slo") or {}
    slo_limits = slo.get("asked") or {}
    limits = [key for key in _LIMITS if slo_limits.get(key) is not None]
    if not slo.get("arms") or not limits:
        return None
    rows = [
        (arm_cell(run, arm), *(_limit_cell(run, arm, key) for key in limits))
        for arm in _first_screen_arms(run, slo["arms"])
    ]
    heads = [
        f"errors ≤ {plain(100 * slo_limits[key])} %" if key == "max_error_share"
        else f"{key.removesuffix('_ms')} ≤ {plain(slo_limits[key])} ms"
        for key in limits
    ]  # fmt: skip
    is_preregistered = slo_limits.get("preregistered")
    caption = "SLO; when it was set is not said"
    if is_preregistered is not None:
        caption = f"SLO, set {'before' if is_preregistered else 'after'} the first run"
    if not run.summary.get("valid"):
        caption += f"; {_NO_MARK[0]} not judged"
    elif slo_limits.get("availability") is not None:
        caption += f"; availability of {nines(slo_limits['availability'])} is the plan's"
        if availability := slo.get("availability"):
            mark, _ = _MARKS[availability["met"]]
            caption += f": {nines(availability['predicted'])} {mark}"
    return Table("slo-table", caption, ("arm", *heads), tuple(rows))


def _limit_cell(run: RunFolder, arm: str, key: str) -> Cell:
    """Return the figure of an arm, and the verdict on its limit."""
    figures = (run.summary.get("arms") or {}).get(arm) or {}
    errors = key == "max_error_share"
    text = percent(figures.get("error_share")) if errors else milliseconds(figures.get(key))
    entry = run.summary["slo"]["arms"][arm]
    mark, mood = slo_mark(run, entry["limits"].get(key))
    return Cell(f"{text} {mark}", mood=mood)


def slo_mark(run: RunFolder, answer: bool | None) -> tuple[str, str]:
    """Return the mark and the mood of an answer; hollow and grey where the run is not valid."""
    return _MARKS[answer] if run.summary.get("valid") else _NO_MARK


def slo_notes(run: RunFolder) -> list[str]:
    """Explain each limit that was missed or is undecided although its figure keeps it.

    Failed requests count as slower than any limit, and few samples decide nothing.
    """
    slo = run.summary.get("slo") or {}
    notes = []
    for arm in _first_screen_arms(run, slo.get("arms") or {}):
        entry, figures = slo["arms"][arm], (run.summary.get("arms") or {}).get(arm) or {}
        missed_keys = [key for key, met in entry["limits"].items() if met is not True]
        for key, reason in zip(missed_keys, entry["reasons"], strict=False):
            if (figures.get(key) or math.inf) <= slo["asked"][key]:
                notes.append(f"{arm}, {reason}.")
    return notes


def _first_screen_arms(run: RunFolder, arms: Iterable[str]) -> list[str]:
    """Return all arms, or of many the two compared ones; the others have a table of their own."""
    arm_names = list(arms)
    return (
        arm_names
        if len(arm_names) <= _ARMS_MOST
        else [a for a in arm_names if a in headline_arms(run)[:2]]
    )


def arm_cell(run: RunFolder, arm: str) -> Cell:
    """Return a cell with the arm's name, its mark for the SLO, and its settings."""
    entry = ((run.summary.get("slo") or {}).get("arms") or {}).get(arm) or {"met": None}
    mark, mood = slo_mark(run, entry["met"])
    return Cell(f"{mark} {arm}", numeric=False, mood=mood, about=in_short(run, arm))
