"""Scenarios: what is done to a node, by which fault of its agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

BASE, CRASH = "base", "crash"
Axis = Literal["slower", "loss", "held"]
UNITS: Mapping[Axis, str] = {"slower": "×", "loss": "%", "held": "s"}
_LIMPING = {"nic": "net.limp", "disk": "disk.limp"}
_LOST = "net.loss"
_CRASHED = "process.crash"


@dataclass(frozen=True)
class Scenario:
    """A limping part, a share of packets lost, or a crash (`severity` None).

    severity: on `axis`: how many times slower the part is; per cent of packets that are lost; for
    how many seconds the part is `slower` times slower.
    """

    severity: float | None
    axis: Axis = "slower"
    slower: float | None = None

    @property
    def name(self) -> str:
        """As results call it: `100`, `5 %`, `0.8 s` or `crash`."""
        if self.severity is None:
            return CRASH
        unit = "" if self.axis == "slower" else f" {UNITS[self.axis]}"
        return f"{self.severity:g}{unit}"

    @property
    def held_s(self) -> float | None:
        """How long the fault is held; None: until the operation is over."""
        return self.severity if self.axis == "held" else None

    def fault(self, limpware: str) -> tuple[str, Mapping[str, Any]]:
        """Kind and parameters, as the agents know them.

        Parameters: limpware, `nic` or `disk`.
        """
        if self.severity is None:
            return _CRASHED, {}
        if self.axis == "loss":
            return _LOST, {"percent": float(self.severity)}
        factor = self.slower if self.axis == "held" else self.severity
        assert factor is not None
        return _LIMPING[limpware], {"factor": float(factor)}


def scenarios_of(severities: Sequence[float], crash: bool) -> tuple[Scenario, ...]:
    """One for each severity, then the crash."""
    limping = tuple(Scenario(severity) for severity in severities)
    return (*limping, Scenario(None)) if crash else limping


def label(name: str) -> str:
    """For people: `100 ×`, `5 %`, `crash`."""
    bare = name in (BASE, CRASH) or " " in name
    return name if bare else f"{float(name):g} {UNITS['slower']}"
