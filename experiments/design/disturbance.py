"""A planned disturbance as `sparecraft check` describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from core.json_object import JsonObject
from experiments.design.contracts import KINDS


class Times(TypedDict):
    """Times that a machine is disturbed, and seconds over all blocks together."""

    times: int
    seconds: float


class Disturbance(TypedDict):
    """One kind of disturbance with its parameters, its machines, its commands and its undo."""

    what: str
    kind: str
    parameters: JsonObject
    at_s: float | None  # in a block; None if it is drawn, or not known yet
    machines: dict[str, Times | None]  # None if the number of times is not known
    commands: str
    undo: str
    at_once: NotRequired[int]  # machines; by default one
    when: NotRequired[str]
    repeat: NotRequired[JsonObject]
    begins_s: NotRequired[dict[str, list[float]]]  # by block


def of_fault(kind: str, parameters: Mapping[str, Any], machines: Iterable[str]) -> Disturbance:
    """Return a fault on some of these machines, at a time that is not known yet."""
    fault_kind = KINDS[kind]
    return {
        "what": "fault",
        "kind": kind,
        "parameters": dict(parameters),
        "at_s": None,
        "machines": dict.fromkeys(machines),
        "commands": fault_kind.render(fault_kind.commands, parameters),
        "undo": fault_kind.render(fault_kind.undo, parameters),
    }
