"""The tiers' data in a plan: the time until a machine serves again, and the load that more machines
do not reduce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optimizer.plan.inputs.demand import is_stated
from optimizer.plan.solve.options import rates_of

if TYPE_CHECKING:
    from optimizer.fit import Estimate
    from optimizer.plan.inputs.case import Case
    from optimizer.plan.inputs.request import PlanRequest
    from optimizer.plan.solve.options import Option, TierDemand
    from optimizer.plan.solve.problem import Path


def state_of(case: Case, path: Path) -> dict[str, object] | None:
    """`state` of plan.json, by tier; None if no tier has data or writes that are planned with.

    Shares are of the year, but for `write_share` and `one_share`, which are of the requests.
    `carries_per_s_most`: requests a second at which writes and reads for one certain machine alone
    fill it, however many there are, with the plan's machines and replicas above.
    """
    found: dict[str, object] = {
        option.tier: _tier(case, demand, option)
        for demand, option in zip(case.tiers, path, strict=True)
        if demand.has_state
    }
    return found or None


def _tier(case: Case, demand: TierDemand, option: Option) -> dict[str, object]:
    state = demand.state
    rates = rates_of(case.rates, option.instance, demand)
    scheme = state.scheme(case.scheme)
    most = case.limits.max_utilisation
    return {
        "kept": state.kept,
        "data_gb": state.data_gb or None,
        "copy_s": state.copy_s or None,
        "serves_again_s": rates.failover_s,
        "write_share": demand.latency.write_share,
        "one_share": demand.latency.one_share,
        "writes_use": option.written,
        "carries_per_s_most": (
            demand.request_per_s * option.upstream * most / option.written
            if option.written
            else None
        ),
        "primary": state.primary,
        "takes_over_s": state.takes_over_s(rates) if state.primary else None,
        "without_primary": state.without_primary(rates),
        "data_lost": state.without_data(
            option.needed, option.mechanism, option.extra, rates, scheme, option.unavailability
        ),
    }


def _source(share: Estimate) -> str:
    """Return the source of a share of writes."""
    return "stated" if is_stated(share) else f"of {share.samples:,} in the run"


def on_state(asked: PlanRequest) -> Iterator[str]:
    """Assumptions on the tiers' data."""
    case = asked.case
    for tier, demand in zip(asked.service.tiers, case.tiers, strict=False):
        state, name = demand.state, f"tier {demand.name}"
        share, found = demand.latency.write_share, tier.write_share
        if not share and found.value and found.sufficient:
            yield (
                f"{name}: {found.value:.1%} of its requests are writes ({_source(found)}); one "
                "machine executes each: planned as reads (`writes`, if all machines execute each)"
            )
        if share:
            where = (
                "its primary executes them, and every other machine applies them at the same cost "
                "(a bound: most do so for less)"
                if state.primary
                else "every machine executes each"
            )
            yield (
                f"{name}: {share:.1%} of its requests are writes ({_source(found)}); {where}; they "
                "are not copied, take as long as a read, and wait for one machine; a simulation "
                "takes them for reads"
            )
        if one := demand.latency.one_share:
            yield (
                f"{name}: {one:.1%} of its requests ({_source(tier.one_share)}) are reads for one "
                "certain machine, as of connections that wrote: no further machine takes any of "
                "them (a bound for the others); a simulation spreads them"
            )
        if demand.has_state and asked.load.hours:
            yield f"{name}: machines with data do not come and go, so no hours are planned"
        if state.primary and (takes_s := state.takes_over_s(case.rates)) is not None:
            yield (
                f"{name}: after the loss of its primary writes wait {takes_s:g} s on average, and "
                "that counts as if the whole tier were down"
            )
        if state.copy_s:
            assert state.copy_mb_per_s is not None
            yield (
                f"{name}: a machine that joins copies {state.data_gb:g} GB at "
                f"{state.copy_mb_per_s:g} MB/s first, {state.copy_s:.0f} s, and costs those that "
                "it copies from nothing"
            )
        if state.dies_with_its_copies:
            yield f"{name}: what the last copy held is not had again within the year"
        if state.kept == "own" and state.data_gb:
            yield f"{name}: nothing replaces a machine, as its data is its own"
        if state.kept == "volume":
            yield f"{name}: its volumes outlive the machines, and are mounted within the fail-over"
