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
"""Whose fault it can be alone, which fault of the agents that is, and which parameter of it."""
_LIMPING = {"nic": "net.limp", "disk": "disk.limp"}
_CRASHED = "process.crash"


@dataclass(frozen=True)
class Scenario:
    """A part that limps, by its rate or otherwise, or a crash (`severity` None).

    severity: on `axis`: how many times slower the part is; per cent of packets that are lost; for
    how many ms a packet is held back, or an I/O; for how many seconds the part is `slower` times
    slower; how many seconds of the operation go by before it is, for `length_s`.
    """

    severity: float | None
    axis: Axis = "slower"
    slower: float | None = None
    length_s: float | None = None

    @property
    def name(self) -> str:
        """As results call it: `100`, `5 %`, `0.8 s` or `crash`."""
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
        """Kind and parameters, as the agents know them.

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
    """One for each severity, then the crash."""
    limping = tuple(Scenario(severity) for severity in severities)
    return (*limping, Scenario(None)) if crash else limping


def shuffled(scenarios: Sequence[Scenario], *words: object) -> tuple[Scenario, ...]:
    """Return an order of their own for each repeat, so that what warms up or drifts meets no
    severity more than others.

    Parameters: words, what the repeat is called, the design's seed first: the same give the same.
    """
    found = list(scenarios)
    random.Random(" ".join(map(str, words))).shuffle(found)
    return tuple(found)


def label(name: str) -> str:
    """For people: `100 ×`, `5 %`, `crash`."""
    bare = name in (BASE, CRASH, CLOSING) or " " in name
    return name if bare else f"{float(name):g} {UNITS['slower']}"
