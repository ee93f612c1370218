"""Figures of predictions, each with its interval, beside the measured values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from core.chart_style import Rows, data
from experiments.nightly.figures import HEIGHT, filled_and_hollow, limit_key, log_y, over_nights
from experiments.nightly.history import Prediction
from experiments.report import palette
from experiments.report.figures import Figure, Key, drawn
from experiments.report.layout import Size
from experiments.report.marks import SHAPE, arm_keys, linear

_BESIDE = 0.1  # nights from a prediction to what was measured
_AROUND = (0.5, 2.0)  # what the axis of errors shows at least
_PLAN, _RUN = palette.ARMS[2].light, palette.ARMS[0].light


def prediction_figure(predictions: Sequence[Prediction], name: str) -> Figure:
    """Return a percentile as it was predicted and as it was measured, night by night."""
    points = []
    for prediction in predictions:
        if (value := prediction.figures.get(name)) is None:
            continue
        x = prediction.night + _shift(prediction, predictions)
        shared = {"filled": prediction.valid, "arm": None}
        points += [
            {**shared, "x": x - _BESIDE / 2, "y": value.predicted, "low": value.low,
             "high": value.high, "colour": _PLAN, "shape": "diamond"},
            {**shared, "x": x + _BESIDE / 2, "y": value.measured, "low": value.measured_low,
             "high": value.measured_high, "colour": _RUN, "shape": "circle"},
        ]  # fmt: skip
    words = name.removesuffix("_ms")
    return drawn(
        f"{words}-predictions",
        f"{words}, predicted and measured",
        f"{words} without faults of each planned fleet, log scale: where the plan expected it, and "
        "what its run measured with a 95 % interval. Hollow: the run was not valid.",
        (Key("diamond", _PLAN, "predicted"), Key("circle", _RUN, "measured")),
        lambda size: over_nights(points, [], predictions, size, "ms"),
        "" if points else "No plan has predicted it yet.",
    )


def _shift(prediction: Prediction, predictions: Sequence[Prediction]) -> float:
    """Return the offset of a prediction from the middle of its night, in nights."""
    night_predictions = [
        candidate for candidate in predictions if candidate.night == prediction.night
    ]
    return (night_predictions.index(prediction) - (len(night_predictions) - 1) / 2) * min(
        0.25, 0.7 / len(night_predictions)
    )


def error_figure(predictions: Sequence[Prediction], name: str) -> Figure:
    """Return the measured value over the predicted one, against the planned utilisation."""
    policies = list(dict.fromkeys(prediction.policy for prediction in predictions))
    dots = [
        {"x": 100 * prediction.utilisation, "y": value.measured / value.predicted,
         "filled": prediction.valid,
         "colour": palette.arm_colour(policies, prediction.policy).light,
         "shape": palette.arm_shape(policies, prediction.policy)}
        for prediction in predictions
        if (value := prediction.figures.get(name)) and prediction.utilisation is not None
        and value.predicted > 0 and value.measured > 0
    ]  # fmt: skip
    words = name.removesuffix("_ms")
    return drawn(
        f"{words}-error",
        f"Error of {words} against utilisation",
        f"Measured {words} over the predicted one, log scale, by the planned utilisation of the "
        "tier that is used most, and by policy. Above 1 the fleet was slower than predicted.",
        (*arm_keys(policies), limit_key("as predicted")),
        lambda size: _scatter(dots, size),
        "" if dots else "No plan says its utilisation.",
    )


def _scatter(dots: Rows, size: Size) -> Any:
    values = [*(dot["y"] for dot in dots), *_AROUND]
    y = log_y(values, "measured / predicted (log scale)")("y")
    ticks = 5 if size.small else 10
    x = linear(alt.X, "x", "planned utilisation, %", [0, 100], tickCount=ticks)
    base = alt.Chart(data(dots)).encode(x=x, y=y, shape=SHAPE, size=alt.value(64))
    unity = alt.Chart(data([{"y": 1.0}])).mark_rule(
        stroke=palette.FAULT.light, strokeDash=[5, 3], strokeWidth=1.6
    )
    return alt.layer(unity.encode(y=y), *filled_and_hollow(base)).properties(
        width=size.plot_width, height=HEIGHT
    )
