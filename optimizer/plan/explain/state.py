"""The tiers' data in a plan: the time until a machine serves again, and the load that more machines
do not reduce."""

from __future__ import annotations

from collections.abc import Iterator

from core.units import duration
from optimizer.fit import Estimate
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.demand import is_stated
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.solve.options import Option, TierDemand, rates_of
from optimizer.plan.solve.problem import Path


def state_of(case: Case, path: Path) -> dict[str, object] | None:
    """Return `state` of plan.json, by tier; None if no tier has planned data or writes.

    Shares are of the year, except `write_share` and `one_share`, which are of the requests.
    `carries_per_s_most`: requests a second at which the writes, and the reads for one certain
    machine, fill a machine by themselves. It does not depend on the number of machines; it holds
    for the plan's machine type and the replicas of the tiers above.
    """
    tiers: dict[str, object] = {
        option.tier: _tier(case, demand, option)
        for demand, option in zip(case.tiers, path, strict=True)
        if demand.has_state
    }
    return tiers or None


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
        "without_primary": state.without_primary(rates, option.nodes),
        "data_lost": state.without_data(
            option.needed, option.mechanism, option.extra, rates, scheme, option.unavailability
        ),
    }


def _source(share: Estimate) -> str:
    return "stated" if is_stated(share) else f"of {share.samples:,} in the run"


def state_assumptions(request: PlanRequest) -> Iterator[str]:
    """Yield the assumptions on the tiers' data."""
    case = request.case
    for tier, demand in zip(request.service.tiers, case.tiers, strict=False):
        state, name = demand.state, f"tier {demand.name}"
        share, measured_share = demand.latency.write_share, tier.write_share
        if not share and measured_share.value and measured_share.sufficient:
            yield (
                f"{name}: {measured_share.value:.1%} of its requests are writes "
                f"({_source(measured_share)}); one machine executes each: planned as reads "
                "(`writes`, if all machines execute each)"
            )
        if share:
            executors = (
                "its primary executes them, and every other machine applies them at the same cost "
                "(a bound: most do so for less)"
                if state.primary
                else "every machine executes each"
            )
            yield (
                f"{name}: {share:.1%} of its requests are writes ({_source(measured_share)}); "
                f"{executors}; they are not copied, take as long as a read, and wait for one "
                "machine; a simulation takes them for reads"
            )
        if one_share := demand.latency.one_share:
            yield (
                f"{name}: {one_share:.1%} of its requests ({_source(tier.one_share)}) are reads "
                "for one certain machine, as of connections that wrote: no further machine takes "
                "any of them (a bound for the others); a simulation spreads them"
            )
        if demand.has_state and request.load.hours:
            yield f"{name}: machines with data do not come and go, so no hours are planned"
        if promoters := ", ".join(promoter.name for promoter in tier.spec.promoters):
            yield (
                f"{name}: {promoters} promotes another machine, stays as it was in the run, and is "
                "not in the cost"
            )
        if state.primary and (takes_s := state.takes_over_s(case.rates)) is not None:
            lost = "any of its active machines" if state.any_loss_stops_writes else "its primary"
            yield (
                f"{name}: after the loss of {lost} writes wait {duration(takes_s)} on "
                "average, and that counts as if the whole tier were down"
            )
        if state.copy_s:
            assert state.copy_mb_per_s is not None
            yield (
                f"{name}: a machine that joins copies {state.data_gb:g} GB at "
                f"{state.copy_mb_per_s:g} MB/s first, {duration(state.copy_s)}, and costs those "
                "that it copies from nothing"
            )
        if state.dies_with_its_copies:
            yield f"{name}: what the last copy held is not had again within the year"
        if state.kept == "own" and state.data_gb:
            yield f"{name}: nothing replaces a machine, as its data is its own"
        if state.kept == "volume":
            yield f"{name}: its volumes outlive the machines, and are mounted within the fail-over"
