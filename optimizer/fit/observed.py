"""Bounds of the times that a run observed, so that no plan is made from impossible records."""

from __future__ import annotations

from collections.abc import Iterator

from core.config_file import raise_all
from core.errors import TIME_EXPECTED, InputError
from core.units import TIME_S_MOST
from optimizer.fit.failovers import Failovers
from optimizer.fit.service import ServiceFit

_Observed = tuple[str, str, float | None]  # file and column or key, the figure, its value [s]


def check_times(service: ServiceFit, failovers: Failovers) -> None:
    """Raise InputError with the file and the column of each impossible time."""
    raise_all(
        InputError(
            place,
            expected=f"{TIME_EXPECTED}, as {figure}",
            got=f"{value_s:g} s",
            hint="The file is damaged: measure again, or name another run.",
        )
        for place, figure, value_s in (
            *_tier_times(service),
            *_arm_times(service),
            *_event_times(failovers),
        )
        if value_s is not None and not value_s <= TIME_S_MOST
    )


def _tier_times(service: ServiceFit) -> Iterator[_Observed]:
    for tier in service.tiers:
        name, hold_s = tier.spec.name, tier.token_hold_s.value
        yield "hosts.parquet: cpu_cores", f"processing_s of tier {name}", tier.processing_s.value
        yield "arbiters.parquet: tokens_in_use", f"token_hold_s of tier {name}", hold_s
        yield "events.jsonl: interference", f"run_s of tier {name}", tier.interference_run_s


def _arm_times(service: ServiceFit) -> Iterator[_Observed]:
    for arm in service.arms:
        yield "requests.parquet: latency_ms", f"the mean of arm {arm.name}", arm.mean_ms / 1000.0


def _event_times(failovers: Failovers) -> Iterator[_Observed]:
    for value_s in failovers.crash_recovery_s:
        yield "events.jsonl: recovery_s", "failover_s", value_s
    for value_s in failovers.pool_repair_s:
        yield "events.jsonl: repair_s", "repair_s", value_s
