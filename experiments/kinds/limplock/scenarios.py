"""Scenarios: what is done to a node, by which fault of its agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BASE, CRASH = "base", "crash"
_LIMPING = {"nic": "net.limp", "disk": "disk.limp"}
_CRASHED = "process.crash"


@dataclass(frozen=True)
class Scenario:
    """A limping part so many times slower, or a crash (`severity` None)."""

    severity: float | None

    @property
    def name(self) -> str:
        """As results call it: `100` or `crash`."""
        return CRASH if self.severity is None else f"{self.severity:g}"

    def fault(self, limpware: str) -> tuple[str, Mapping[str, Any]]:
        """Kind and parameters, as the agents know them.

        Parameters: limpware, `nic` or `disk`.
        """
        if self.severity is None:
            return _CRASHED, {}
        return _LIMPING[limpware], {"factor": float(self.severity)}


def scenarios_of(severities: Sequence[float], crash: bool) -> tuple[Scenario, ...]:
    """One for each severity, then the crash."""
    limping = tuple(Scenario(severity) for severity in severities)
    return (*limping, Scenario(None)) if crash else limping


def label(name: str) -> str:
    """For people: `100 ×`, `crash`."""
    return name if name in (BASE, CRASH) else f"{float(name):g} ×"
