"""The constants of the response-time report, read from performability.json beside this file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("performability.json")


@dataclass(frozen=True)
class Weights:
    """Thresholds, trimming, demerits; `demerits` holds the report's weights and our additions."""

    thresholds_s: tuple[float, ...]
    trimmed_mean_keep: float
    demerits: dict[str, float]
    second_above_ideal: float
    source: str


@cache
def performability_weights() -> Weights:
    """Return the weights of section 5.6 of the report, and ours for outcomes it does not have."""
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    demerits = {name: float(value) for name, value in document["demerits"].items()}
    second_above_ideal = demerits.pop("second_above_ideal")
    for name, value in document["our_additions"]["demerits"].items():
        demerits[name] = float(value)
    return Weights(
        thresholds_s=tuple(float(value) for value in document["thresholds_s"]),
        trimmed_mean_keep=float(document["trimmed_mean_keep"]),
        demerits=demerits,
        second_above_ideal=second_above_ideal,
        source=str(document["source"]),
    )
