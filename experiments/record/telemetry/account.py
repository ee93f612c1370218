"""An SLO's budget and the fleet's price as telemetry, per request.

A budget is the share of requests that an SLO allows to be bad. Each request has its part of the
budget, 1 / share if it is bad and otherwise 0, so the mean over a window is its burn rate: at 1 the
budget is used exactly as fast as allowed (SRE workbook, chapter 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.statistics.percentiles import OK, time_out_ms
from experiments.record.metrics.frames import ALLOWED
from experiments.record.telemetry.line import Point

EVERY_S = 5.0  # between two points of `slo` and `cost`
_ERRORS = "max_error_share"


@dataclass(frozen=True)
class Account:
    """Budgets and cost of one run.

    `slo` is that of experiment.toml, or empty; usd_per_hour is None if a machine has no price;
    limit_ms is the time-out of the load.
    """

    slo: Mapping[str, Any] = field(default_factory=dict)
    usd_per_hour: float | None = None
    limit_ms: float = field(default_factory=time_out_ms)

    def burn(self, outcome: str, latency_ms: float | None) -> dict[str, float]:
        """Return the fields of a request: its part of each limit's budget."""
        failed = outcome != OK
        burns = {}
        for key, share in ALLOWED.items():
            if (limit_ms := self.slo.get(key)) is not None:
                is_bad = failed or latency_ms is None or latency_ms > limit_ms
                burns[f"burn_{key.removesuffix('_ms')}"] = is_bad / share
        if self.slo.get(_ERRORS):  # where none may fail there is no budget to burn
            burns["burn_errors"] = failed / float(self.slo[_ERRORS])
        return burns

    def points(
        self, names: Mapping[str, str], arm: str, time_ns: int, length_s: float, good: int
    ) -> list[Point]:
        """Return the limits, and the cost of the last `length_s` with `good` answered requests."""
        limits = {
            key: float(limit) for key, limit in self.slo.items() if key in (*ALLOWED, _ERRORS)
        }
        points = [Point("slo", names, limits, time_ns)] if limits else []
        if self.usd_per_hour is not None:
            cost = {
                "usd_per_hour": self.usd_per_hour,
                "usd": self.usd_per_hour * length_s / 3600.0,
                "good": good,
            }
            points.append(Point("cost", {**names, "arm": arm}, cost, time_ns))
        return points
