"""Statements of the papers, as data, and the form in which a statement is held against a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from core.json_object import JsonObject


@dataclass(frozen=True)
class Claim:
    """One statement of a paper beside what the models give."""

    place: str
    subject: str
    paper: str
    ours: str
    matches: bool
    explanation: str = ""


def published(name: str) -> JsonObject:
    """Return the published figures of one paper, its file's name in `data`, with their source."""
    text = resources.files("optimizer.reproduce").joinpath("data", f"{name}.json").read_text()
    found: JsonObject = json.loads(text)
    return found


def is_printed_as(value: float, printed: str) -> bool:
    """True if `value` may have been printed like this: less than one unit of the last digit off,
    or 5 %."""
    digits = len(printed.partition(".")[2])
    off = abs(value - float(printed))
    return off < 10.0**-digits or off <= 0.05 * abs(float(printed))
