"""Scenarios: what is done to a node, by which fault of its agent."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

BASE, CRASH, CLOSING = "base", "crash", "closing base"
Axis = Literal["slower", "loss", "delay", "io_latency", "held", "start"]
UNITS: Mapping[Axis, str] = {
    "slower": "×", "loss": "%", "delay": "ms", "io_latency": "ms", "held": "s", "start": "s",
}  # fmt: skip
OF_PART: Mapping[Axis, tuple[str, str, str]] = {
    "loss": ("nic", "net.loss", "percent"),
    "delay": ("nic", "net.delay", "delay_ms"),
    "io_latency": ("disk", "disk.slow", "delay_ms"),
}
"""Of each axis of one kind of part: the part, the agents' fault, and the fault's parameter."""
_LIMPING = {"nic": "net.limp", "disk": "disk.limp"}
_CRASHED = "process.crash"


@dataclass(frozen=True)
class Scenario:
    """A part that limps, by its rate or otherwise, or a crash (`severity` None).

    severity: its meaning depends on `axis`. slower: slowdown of the part. loss: per cent of lost
    packets. delay, io_latency: delay of each packet or I/O [ms]. held: time for which the part is
    `slower` times slower [s]. start: time from the begin of the operation to the fault [s], which
    then lasts for `length_s`.
    """

    severity: float | None
    axis: Axis = "slower"
    slower: float | None = None
    length_s: float | None = None

    @property
    def name(self) -> str:
        """Name in results: `100`, `5 %`, `0.8 s` or `crash`."""
        if self.severity is None:
            return CRASH
        unit = "" if self.axis == "slower" else f" {UNITS[self.axis]}"
        return f"{self.severity:g}{unit}"

    @property
    def start_s(self) -> float | None:
        """The delay from the operation to the fault; None: before it."""
        return self.severity if self.axis == "start" else None

    @property
    def held_s(self) -> float | None:
        """The time for which the fault is held; None: until the operation is over."""
        return self.severity if self.axis == "held" else self.length_s

    def fault(self, limpware: str) -> tuple[str, Mapping[str, Any]]:
        """Return the agents' kind of fault and its parameters.

        Parameters: limpware, `nic` or `disk`.
        """
        if self.severity is None:
            return _CRASHED, {}
        if self.axis in OF_PART:
            _, kind, parameter = OF_PART[self.axis]
            return kind, {parameter: float(self.severity)}
        factor = self.severity if self.slower is None else self.slower
        return _LIMPING[limpware], {"factor": float(factor)}


def scenarios_of(severities: Sequence[float], crash: bool) -> tuple[Scenario, ...]:
    limping = tuple(Scenario(severity) for severity in severities)
    return (*limping, Scenario(None)) if crash else limping


def shuffle(scenarios: Sequence[Scenario], *seed_parts: object) -> tuple[Scenario, ...]:
    """Return the scenarios in an order drawn for one repeat, so that warm-up and drift affect all
    severities alike.

    Parameters: seed_parts, the design's seed and the names of the repeat; equal parts give an equal
    order.
    """
    order = list(scenarios)
    random.Random(" ".join(map(str, seed_parts))).shuffle(order)
    return tuple(order)


def label(name: str) -> str:
    """Return the name for people: `100 ×`, `5 %`, `crash`."""
    has_unit = name in (BASE, CRASH, CLOSING) or " " in name
    return name if has_unit else f"{float(name):g} {UNITS['slower']}"
