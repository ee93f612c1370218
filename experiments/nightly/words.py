"""Figures that are watched, in words and in their units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments.nightly.changes import Change
from experiments.nightly.levels import ERRORS, FEASIBLE, MET, PER_MILLION, PLANNED
from experiments.report.text import factor, milliseconds, number, percent, usd

_NAMES = {
    ERRORS: "errors",
    PER_MILLION: "cost of a million good requests",
    MET: "SLO met",
    PLANNED: "planned cost a month",
    FEASIBLE: "a feasible plan",
    "nodt_per_s": "NodT",
    "rate_per_s": "rate of the utilisation asked",
}
_SHARES = (ERRORS, MET, FEASIBLE, "utilisation")
_USD = (PER_MILLION, PLANNED)


def metric_words(metric: str) -> str:
    """Return a metric in words: `nodt_per_s/wiki` is "NodT of wiki"."""
    name, _, owner = metric.partition("/")
    if name not in _NAMES:
        for begin, words in (("gain_", "gain in "), ("burn_", "burn of ")):
            if name.startswith(begin):
                return words + name.removeprefix(begin)
    words = _NAMES.get(name, name.removesuffix("_ms"))
    return f"{words} of {owner}" if owner else words


def level_words(metric: str, value: float) -> str:
    """Return a level in its unit."""
    return _show(metric.partition("/")[0])(value)


def _show(name: str) -> Callable[[Any], str]:
    if name in _SHARES:
        return percent
    if name in _USD:
        return usd
    if name.startswith("gain_"):
        return factor
    if name.endswith("_ms"):
        return milliseconds
    return (lambda value: f"{number(value)}/s") if name.endswith("_per_s") else number


def change_words(change: Change) -> str:
    """Return a change in few words: "p95 of replicated up from 300 ms to 1,350 ms, night 31"."""
    subject = metric_words(change.metric) + (f" of {change.arm}" if change.arm else "")
    before, after = (level_words(change.metric, value) for value in (change.before, change.after))
    sentence = f"{subject} {change.direction} from {before} to {after}, night {change.night}"
    speed = change.host_factor
    return (
        sentence
        if speed is None
        else f"{sentence}, with the host at {percent(speed, 2)} of its speed"
    )
