"""Options of a tier with data: the serving machines after a loss, and the cost of writes.

| state  | a machine that replaces a lost one |
|---|---|
| none   | serves as any other machine does |
| copied | first gets the data from the others; if no other is left, the data is lost |
| own    | does not have the data, and does not count: only extra active machines do |
| volume | mounts the data of the lost machine, which outlives that machine |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from core.units import YEAR_S
from core.vocabulary import Mechanism, Scheme
from optimizer.availability import HORIZON_S, FailureRates, data_lost, writes_lost

Kept = Literal["none", "copied", "own", "volume"]
MB_PER_GB = 1024.0


@dataclass(frozen=True)
class TierState:
    """A tier's data. `kept` None: unknown, and taken for "none"."""

    kept: str | None = None
    data_gb: float = 0.0
    copy_mb_per_s: float | None = None  # rate of a joining machine: that of its card or its disk
    primary: bool = False  # writes go to one machine, not to all
    promote_s: float | None = None  # until another machine is primary
    any_loss_stops_writes: bool = False  # for that time; False: the primary's alone does

    @property
    def spare_serves(self) -> bool:
        """True if a cold machine that starts can replace a lost one."""
        return self.kept != "own"

    @property
    def copy_s(self) -> float:
        """Time until a joining machine has the data [s]; 0 if its volume has it."""
        if not self.data_gb or self.kept in ("own", "volume") or self.copy_mb_per_s is None:
            return 0.0
        return MB_PER_GB * self.data_gb / self.copy_mb_per_s

    @property
    def dies_with_its_copies(self) -> bool:
        """True if the data comes from the tier's other machines alone."""
        return self.kept == "copied" and self.data_gb > 0.0

    def scheme(self, scheme: str) -> str:
        """Return the scheme of the tier: machines with data of their own are not replaced."""
        return Scheme.on_prem if self.kept == "own" and self.data_gb else scheme

    def rates(self, rates: FailureRates) -> FailureRates:
        """Return the rates with the time to copy the data to a machine that joins."""
        if not (more := self.copy_s):
            return rates
        repair_s = None if rates.repair_s is None else rates.repair_s + more
        return replace(rates, failover_s=rates.failover_s + more, repair_s=repair_s)

    def takes_over_s(self, rates: FailureRates) -> float | None:
        """Return the time until another machine takes writes [s]; None: never.

        With a volume, the spare that mounts it is itself the primary.
        """
        if self.promote_s is not None:
            return self.promote_s
        return rates.failover_s if self.kept == "volume" else None

    def lost(
        self,
        needed: int,
        mechanism: str,
        extra: int,
        rates: FailureRates,
        scheme: str,
        nodes: float,
    ) -> float:
        """Return an upper bound of the unavailability, with the part of the state.

        `nodes` is the unavailability due to too few nodes; `rates` are those that the method
        `rates` returns."""
        active = needed + (extra if mechanism == Mechanism.ara else 0)
        return min(1.0, nodes + self.without_primary(rates, active) + self.without_data(
            needed, mechanism, extra, rates, scheme, nodes
        ))  # fmt: skip

    def without_primary(self, rates: FailureRates, active: int) -> float:
        """Return the unavailability due to the primary of `active` machines; 0 without one."""
        if not self.primary:
            return 0.0
        takes_over_s = self.takes_over_s(rates)
        losses = rates.crash_per_year * (active if self.any_loss_stops_writes else 1)
        return 1.0 if takes_over_s is None else writes_lost(losses, takes_over_s)

    def without_data(
        self,
        needed: int,
        mechanism: str,
        extra: int,
        rates: FailureRates,
        scheme: str,
        nodes: float,
    ) -> float:
        """Return the unavailability due to loss of the last copy; 0 if data outlives machines.

        With a pool that is repaired, all machines are down only after one is. So the loss is at
        most that of one machine's crashes during the time that `nodes` counts anyway.
        """
        if not self.dies_with_its_copies:
            return 0.0
        pool = mechanism == Mechanism.pf
        machines = needed if pool else needed + extra
        crashes = rates.crash_per_year
        if scheme == Scheme.cloud or (pool and rates.repair_s is None):
            return data_lost(machines, crashes, rates.failover_s)
        if rates.repair_s is None:
            return 0.0  # no machine joins: a lost one stays lost, which `nodes` already counts
        if not pool:
            return data_lost(machines, crashes, rates.repair_s)
        if machines == 1:
            return data_lost(1, crashes, rates.failover_s)
        return min(1.0, crashes * HORIZON_S / YEAR_S * nodes)


NO_STATE = TierState()
