"""The page of predictions: how often plans kept their promise, and how near their values came."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.nightly.history import History, PredictedValue, Prediction
from experiments.nightly.predictions_figures import error_figure, prediction_figure
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, counted, interval, milliseconds, percent, usd

ROWS_MAX = 60
_PERCENTILES = ("p50_ms", "p95_ms", "p99_ms")
_MOODS = {"kept": "good", "broken": "bad", "undecided": "unknown"}
_USED = ((0.3, "below 30 %"), (0.6, "30 to 60 %"), (float("inf"), "from 60 % on"))


def predictions_values(history: History, reports: frozenset[str]) -> dict[str, object]:
    """Values of the page's template."""
    everyone = history.predictions
    valid = sorted((one for one in everyone if one.valid), key=lambda one: one.utilisation or 0.0)
    shown = [name for name in _PERCENTILES if any(name in one.figures for one in everyone)]
    return {
        "headline": headline(everyone),
        "tables": [
            one
            for one in (
                by_figure(valid),
                *(
                    by_group(valid, identity, words, group)
                    for identity, words, group in (
                        ("service", "service", _service),
                        ("policy", "policy", lambda one: one.policy),
                        ("utilisation", "planned utilisation", _used),
                    )
                ),
            )
            if one
        ],
        "figures": [
            *(prediction_figure(everyone, name) for name in shown),
            *([error_figure(everyone, "p95_ms")] if "p95_ms" in shown else []),
        ],
        "list": list_table(everyone),
        "links": [
            {"folder": one.folder, "words": f"night {one.night}, {one.entry}"}
            for one in reversed(everyone)
            if one.folder in reports
        ][:ROWS_MAX],
    }


def headline(predictions: Sequence[Prediction]) -> str:
    """Return all plans that were put to the test, in a sentence or two."""
    if not predictions:
        return "No plan was put to the test yet: close = true of a design in the suite does it."
    valid = [one for one in predictions if one.valid]
    said = [
        f"{count} {verdict}"
        for verdict in _MOODS
        if (count := sum(one.promise == verdict for one in valid))
    ]
    spoilt = len(predictions) - len(valid)
    more = f"; {counted(spoilt, 'run')} of a planned fleet not valid" if spoilt else ""
    first = f"{counted(len(valid), 'plan')} put to the test: {', '.join(said) or 'none'}{more}."
    values = [one for prediction in valid for one in prediction.figures.values()]
    return f"{first} {_covered_words(values)}".strip()


def _covered_words(values: Sequence[PredictedValue]) -> str:
    judged = [one.covered for one in values if one.covered is not None]
    if not judged:
        return ""
    share = percent(sum(judged) / len(judged), 2)
    counts = f"{sum(judged)} of {counted(len(judged), 'figure')}"
    return f"{counts} lie where the plan expected them ({share})."


def by_figure(predictions: Sequence[Prediction]) -> Table | None:
    """Coverage and error of each figure; tiers together."""
    names = dict.fromkeys(name for one in predictions for name in one.figures)
    kinds = list(dict.fromkeys(_kind_of(name) for name in names))
    rows = []
    for kind in kinds:
        own = [
            value
            for one in predictions
            for name, value in one.figures.items()
            if _kind_of(name) == kind
        ]
        rows.append((named(_figure_words(kind)), *_quality(own)))
    head = ("figure", "predictions", "in the interval", "median error", "largest error")
    return Table("by-figure", "Each figure", head, tuple(rows)) if rows else None


def by_group(
    predictions: Sequence[Prediction], identity: str, words: str, group: Callable[[Prediction], str]
) -> Table | None:
    """Promises and the p95 of the plans of each group."""
    rows = []
    for name in dict.fromkeys(map(group, predictions)):
        own = [one for one in predictions if group(one) == name]
        counts = (Cell(str(sum(one.promise == verdict for one in own))) for verdict in _MOODS)
        values = [one.figures["p95_ms"] for one in own if "p95_ms" in one.figures]
        rows.append((named(name), *counts, *_quality(values)[1:]))
    head = (words, *_MOODS, "p95 in the interval", "median error", "largest error")
    return Table(f"by-{identity}", f"By {words}", head, tuple(rows)) if rows else None


def _quality(values: Sequence[PredictedValue]) -> tuple[Cell, ...]:
    """Return the number of predictions, those in their interval, median and largest errors."""
    judged = [one.covered for one in values if one.covered is not None]
    errors = [error for one in values if (error := one.error) is not None]
    covered = f"{sum(judged)} of {len(judged)}" if judged else MISSING
    median = percent(statistics.median(map(abs, errors)), 2) if errors else MISSING
    largest = _signed(max(errors, key=abs)) if errors else MISSING
    return tuple(Cell(text) for text in (str(len(values)), covered, median, largest))


def list_table(predictions: Sequence[Prediction]) -> Table | None:
    """Every plan that was put to the test, the newest first."""
    rows = [
        (
            named(f"{one.night}"),
            named(one.entry),
            Cell(one.promise, numeric=False, mood=_MOODS[one.promise] if one.valid else "void"),
            Cell(_costs(one)),
            *_both(one.figures.get("p95_ms"), milliseconds),
            *_both(one.figures.get("beyond/p95_ms"), lambda value: percent(value, 2)),
        )
        for one in list(reversed(predictions))[:ROWS_MAX]
    ]
    head = (
        "night",
        "design",
        "promise",
        "USD a month",
        "p95 predicted",
        "p95 measured",
        "beyond p95's limit, predicted",
        "measured",
    )
    return Table("list", "All predictions", head, tuple(rows)) if rows else None


def _both(value: PredictedValue | None, show: Callable[[Any], str]) -> Iterable[Cell]:
    if value is None:
        return Cell(MISSING), Cell(MISSING)
    expected = interval(value.low, value.high, show)
    measured = interval(value.measured_low, value.measured_high, show)
    return (
        Cell(show(value.predicted), about="" if expected == MISSING else expected),
        Cell(show(value.measured), about="" if measured == MISSING else measured),
    )


def _costs(one: Prediction) -> str:
    before, after = one.usd_before, one.usd_after
    return usd(after) if before is None else f"{usd(before).removesuffix(' USD')} to {usd(after)}"


def _kind_of(name: str) -> str:
    return "cpu" if name.startswith("cpu/") else name


def _figure_words(kind: str) -> str:
    what, _, limit = kind.partition("/")
    if what == "beyond":
        return f"share beyond the {limit.removesuffix('_ms')}'s limit" if (
            limit.endswith("_ms")) else "share that failed"  # fmt: skip
    return "CPU of a tier" if what == "cpu" else what.removesuffix("_ms")


def _service(one: Prediction) -> str:
    return " + ".join(dict.fromkeys(one.services))


def _used(one: Prediction) -> str:
    if one.utilisation is None:
        return "not said"
    return next(words for most, words in _USED if one.utilisation < most)


def _signed(error: float) -> str:
    return f"{'+' if error > 0 else ''}{percent(error, 2)}"
