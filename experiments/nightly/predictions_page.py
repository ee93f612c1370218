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
_UTILISATION_BANDS = ((0.3, "below 30 %"), (0.6, "30 to 60 %"), (float("inf"), "from 60 % on"))


def predictions_values(history: History, reports: frozenset[str]) -> dict[str, object]:
    predictions = history.predictions
    valid = sorted(
        (prediction for prediction in predictions if prediction.valid),
        key=lambda prediction: prediction.utilisation or 0.0,
    )
    percentiles = [
        name
        for name in _PERCENTILES
        if any(name in prediction.figures for prediction in predictions)
    ]
    return {
        "headline": headline(predictions),
        "tables": [
            table
            for table in (
                by_figure(valid),
                *(
                    by_group(valid, identity, words, group)
                    for identity, words, group in (
                        ("service", "service", _service),
                        ("policy", "policy", lambda prediction: prediction.policy),
                        ("utilisation", "planned utilisation", _utilisation_band),
                    )
                ),
            )
            if table
        ],
        "figures": [
            *(prediction_figure(predictions, name) for name in percentiles),
            *([error_figure(predictions, "p95_ms")] if "p95_ms" in percentiles else []),
        ],
        "list": list_table(predictions),
        "links": [
            {"folder": prediction.folder, "words": f"night {prediction.night}, {prediction.entry}"}
            for prediction in reversed(predictions)
            if prediction.folder in reports
        ][:ROWS_MAX],
    }


def headline(predictions: Sequence[Prediction]) -> str:
    """Return all plans that were put to the test, in a sentence or two."""
    if not predictions:
        return "No plan was put to the test yet: close = true of a design in the suite does it."
    valid = [prediction for prediction in predictions if prediction.valid]
    verdict_counts = [
        f"{count} {verdict}"
        for verdict in _MOODS
        if (count := sum(prediction.promise == verdict for prediction in valid))
    ]
    invalid = len(predictions) - len(valid)
    invalid_words = f"; {counted(invalid, 'run')} of a planned fleet not valid" if invalid else ""
    verdicts = ", ".join(verdict_counts) or "none"
    first = f"{counted(len(valid), 'plan')} put to the test: {verdicts}{invalid_words}."
    values = [value for prediction in valid for value in prediction.figures.values()]
    return f"{first} {_covered_words(values)}".strip()


def _covered_words(values: Sequence[PredictedValue]) -> str:
    covered = [value.covered for value in values if value.covered is not None]
    if not covered:
        return ""
    share = percent(sum(covered) / len(covered), 2)
    counts = f"{sum(covered):,} of {counted(len(covered), 'figure')}"
    return f"{counts} lie where the plan expected them ({share})."


def by_figure(predictions: Sequence[Prediction]) -> Table | None:
    """Return coverage and error of each figure; the tiers count as one."""
    names = dict.fromkeys(name for prediction in predictions for name in prediction.figures)
    kinds = list(dict.fromkeys(_kind_of(name) for name in names))
    rows = []
    for kind in kinds:
        values = [
            value
            for prediction in predictions
            for name, value in prediction.figures.items()
            if _kind_of(name) == kind
        ]
        rows.append((named(_figure_words(kind)), *_quality(values)))
    head = ("figure", "predictions", "in the interval", "median error", "largest error")
    return Table("by-figure", "Each figure", head, tuple(rows)) if rows else None


def by_group(
    predictions: Sequence[Prediction], identity: str, words: str, group: Callable[[Prediction], str]
) -> Table | None:
    """Return the promises and the p95 of the plans of each group."""
    rows = []
    for name in dict.fromkeys(map(group, predictions)):
        group_predictions = [prediction for prediction in predictions if group(prediction) == name]
        counts = (
            Cell(str(sum(prediction.promise == verdict for prediction in group_predictions)))
            for verdict in _MOODS
        )
        values = [
            prediction.figures["p95_ms"]
            for prediction in group_predictions
            if "p95_ms" in prediction.figures
        ]
        rows.append((named(name), *counts, *_quality(values)[1:]))
    head = (words, *_MOODS, "p95 in the interval", "median error", "largest error")
    return Table(f"by-{identity}", f"By {words}", head, tuple(rows)) if rows else None


def _quality(values: Sequence[PredictedValue]) -> tuple[Cell, ...]:
    """Return the number of predictions and of those in their interval, median and largest error."""
    hits = [value.covered for value in values if value.covered is not None]
    errors = [error for value in values if (error := value.error) is not None]
    covered = f"{sum(hits):,} of {len(hits):,}" if hits else MISSING
    median = percent(statistics.median(map(abs, errors)), 2) if errors else MISSING
    largest = _signed(max(errors, key=abs)) if errors else MISSING
    return tuple(Cell(text) for text in (str(len(values)), covered, median, largest))


def list_table(predictions: Sequence[Prediction]) -> Table | None:
    """Return every plan that was put to the test, the newest first."""
    rows = [
        (
            named(f"{prediction.night}"),
            named(prediction.entry),
            Cell(
                prediction.promise,
                numeric=False,
                mood=_MOODS[prediction.promise] if prediction.valid else "void",
            ),
            Cell(_cost_words(prediction)),
            *_figure_cells(prediction.figures.get("p95_ms"), milliseconds),
            *_figure_cells(
                prediction.figures.get("beyond/p95_ms"), lambda value: percent(value, 2)
            ),
        )
        for prediction in list(reversed(predictions))[:ROWS_MAX]
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


def _figure_cells(value: PredictedValue | None, show: Callable[[Any], str]) -> Iterable[Cell]:
    if value is None:
        return Cell(MISSING), Cell(MISSING)
    expected = interval(value.low, value.high, show)
    measured = interval(value.measured_low, value.measured_high, show)
    return (
        Cell(show(value.predicted), about="" if expected == MISSING else expected),
        Cell(show(value.measured), about="" if measured == MISSING else measured),
    )


def _cost_words(prediction: Prediction) -> str:
    before, after = prediction.usd_before, prediction.usd_after
    return usd(after) if before is None else f"{usd(before).removesuffix(' USD')} to {usd(after)}"


def _kind_of(name: str) -> str:
    return "cpu" if name.startswith("cpu/") else name


def _figure_words(kind: str) -> str:
    figure, _, limit = kind.partition("/")
    if figure == "beyond":
        return f"share beyond the {limit.removesuffix('_ms')}'s limit" if (
            limit.endswith("_ms")) else "share that failed"  # fmt: skip
    return "CPU of a tier" if figure == "cpu" else figure.removesuffix("_ms")


def _service(prediction: Prediction) -> str:
    return " + ".join(dict.fromkeys(prediction.services))


def _utilisation_band(prediction: Prediction) -> str:
    if prediction.utilisation is None:
        return "not said"
    return next(words for limit, words in _UTILISATION_BANDS if prediction.utilisation < limit)


def _signed(error: float) -> str:
    return f"{'+' if error > 0 else ''}{percent(error, 2)}"
