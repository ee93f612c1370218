"""Statements of the papers, as data, and the form in which one is compared with a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from core.json_object import JsonObject


@dataclass(frozen=True)
class Claim:
    """One statement of a paper beside the value of the models."""

    place: str
    subject: str
    paper: str
    ours: str
    matches: bool
    explanation: str = ""


def published(name: str) -> JsonObject:
    """Return the published figures of one paper, with their source.

    Parameters: name of its file in `data`, without the ending."""
    text = resources.files("optimizer.reproduce").joinpath("data", f"{name}.json").read_text()
    figures: JsonObject = json.loads(text)
    return figures


def is_printed_as(value: float, printed: str) -> bool:
    """True if `value` may have been printed like this.

    It may differ by less than one unit of the last digit, or by 5 %."""
    digits = len(printed.partition(".")[2])
    difference = abs(value - float(printed))
    return difference < 10.0**-digits or difference <= 0.05 * abs(float(printed))
