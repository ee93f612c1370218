"""Fail-overs and repairs that a run measured: PCRAFT's CrashRecovery and PoolRepair.

The crashes of such a run are injected, far more often than machines crash by themselves. So only
the recovery times are used, not the rate of crashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.json_object import JsonObject

SAMPLES_LEAST = 3
_REPLACING = ("cloud", "pf")


@dataclass(frozen=True)
class Failovers:
    """Times [s].

    CrashRecovery: from the crash until a replacement serves, without the time that the fail-over
    waited for another fail-over or for a standby. PoolRepair: until the machine is in the pool or,
    if nothing replaces it, serves again.
    """

    crash_recovery_s: tuple[float, ...] = ()
    pool_repair_s: tuple[float, ...] = ()

    def rates(self) -> JsonObject:
        """Return `failover_s` and `repair_s` of a [rates] table, if they have enough samples."""
        samples_by_name = {"failover_s": self.crash_recovery_s, "repair_s": self.pool_repair_s}
        return {
            name: {"samples": list(samples)}
            for name, samples in samples_by_name.items()
            if len(samples) >= SAMPLES_LEAST
        }

    def thin(self) -> list[str]:
        """Return the events that were too rare to be used."""
        samples_by_name = {"fail-over": self.crash_recovery_s, "repair": self.pool_repair_s}
        return [
            f"{name} time: {len(samples)} seen, {SAMPLES_LEAST} needed; not used"
            for name, samples in samples_by_name.items()
            if 0 < len(samples) < SAMPLES_LEAST
        ]


NONE = Failovers()


def failovers(events: Iterable[Mapping[str, Any]]) -> Failovers:
    """Return the times [s] in the events of a run."""
    recovery: list[float] = []
    repair: list[float] = []
    for event in events:
        if event.get("action") != "end":
            continue
        what, kind = event.get("what"), event.get("kind")
        parts = event.get("parameters") or {}
        if what == "failover" and kind in _REPLACING:
            recovery.append(float(parts["recovery_s"]))
        elif what == "failover" and kind == "ara":
            repair.append(float(parts["recovery_s"]))
        elif what == "repair" and parts.get("to_pool"):
            repair.append(float(parts["repair_s"]))
    return Failovers(tuple(recovery), tuple(repair))
