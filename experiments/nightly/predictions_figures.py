"""Figures of predictions: as interval and point, the measured ones beside them."""

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

_BESIDE = 0.1  # nights from a prediction to what was measured
_AROUND = (0.5, 2.0)  # what the axis of errors shows at least
_PLAN, _RUN = palette.ARMS[2].light, palette.ARMS[0].light


def prediction_figure(predictions: Sequence[Prediction], name: str) -> Figure:
    """Return a percentile as it was predicted and as it was measured, night by night."""
    points = []
    for one in predictions:
        if (found := one.figures.get(name)) is None:
            continue
        x = one.night + _shift(one, predictions)
        shared = {"filled": one.valid, "arm": None}
        points += [
            {**shared, "x": x - _BESIDE / 2, "y": found.predicted, "low": found.low,
             "high": found.high, "colour": _PLAN, "shape": "diamond"},
            {**shared, "x": x + _BESIDE / 2, "y": found.measured, "low": found.measured_low,
             "high": found.measured_high, "colour": _RUN, "shape": "circle"},
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


def _shift(one: Prediction, predictions: Sequence[Prediction]) -> float:
    """Return the offset of a prediction from the middle of its night, in nights."""
    same = [other for other in predictions if other.night == one.night]
    return (same.index(one) - (len(same) - 1) / 2) * min(0.25, 0.7 / len(same))


def error_figure(predictions: Sequence[Prediction], name: str) -> Figure:
    """Measured over predicted, against the utilisation that was planned."""
    policies = list(dict.fromkeys(one.policy for one in predictions))
    dots = [
        {"x": 100 * one.utilisation, "y": found.measured / found.predicted, "filled": one.valid,
         "colour": palette.arm_colour(policies, one.policy).light,
         "shape": palette.arm_shape(policies, one.policy)}
        for one in predictions
        if (found := one.figures.get(name)) and one.utilisation is not None
        and found.predicted > 0 and found.measured > 0
    ]  # fmt: skip
    words = name.removesuffix("_ms")
    keys = [
        Key(palette.arm_shape(policies, one), palette.arm_colour(policies, one).light, one)
        for one in policies
    ]
    return drawn(
        f"{words}-error",
        f"Error of {words} against utilisation",
        f"Measured {words} over the predicted one, log scale, by the planned utilisation of the "
        "tier that is used most, and by policy. Above 1 the fleet was slower than predicted.",
        (*keys, limit_key("as predicted")),
        lambda size: _scatter(dots, size),
        "" if dots else "No plan says its utilisation.",
    )


def _scatter(dots: Rows, size: Size) -> Any:
    shown = [*(dot["y"] for dot in dots), *_AROUND]
    y = log_y(shown, "measured / predicted (log scale)")("y")
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=[0, 100], nice=False),
        axis=alt.Axis(title="planned utilisation, %", tickCount=5 if size.small else 10),
    )
    base = alt.Chart(data(dots)).encode(
        x=x, y=y, shape=alt.Shape("shape:N", scale=None), size=alt.value(64)
    )
    one = alt.Chart(data([{"y": 1.0}])).mark_rule(
        stroke=palette.FAULT.light, strokeDash=[5, 3], strokeWidth=1.6
    )
    return alt.layer(one.encode(y=y), *filled_and_hollow(base)).properties(
        width=size.plot_width, height=HEIGHT
    )
