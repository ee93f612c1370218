"""The data of a tier in plan.toml: `state`, `data_gb`, `writes`, `reads_of_one`, `primary`; the
refused combinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from core.config_file import Problem
from core.vocabulary import MECHANISMS, Mechanism
from optimizer.availability import FailureRates
from optimizer.plan.solve.options import TierDemand
from optimizer.plan.solve.state import MB_PER_GB

if TYPE_CHECKING:
    from optimizer.plan.inputs.plan_file import Declared, DeclaredTier, PlanFile


def problems_of(number: int, tier: DeclaredTier, stated: Declared) -> Iterator[Problem]:
    """Yield the keys of a tier's data that contradict each other, or have no effect."""

    def at(key: str, expected: str, got: str, hint: str = "") -> Problem:
        return Problem(("tiers", number, key), expected, got, hint)

    if tier.primary and tier.writes == 0.0:
        yield at("primary", "it beside writes above 0", "writes = 0", "Leave it out.")
    if (tier.writes or 0.0) + (tier.reads_of_one or 0.0) > 1.0:
        yield at("reads_of_one", "at most what writes leaves of 1", f"{tier.reads_of_one:g}")
    if tier.promote_s is not None and not tier.primary:
        yield at("promote_s", "it beside primary = true", "no primary", "Leave it out.")
    if tier.data_in is not None and tier.data_gb is None:
        yield at("data_in", "it beside data_gb", "no data_gb", "State how much data there is.")
    on_disk = tier.data_gb is not None and tier.data_in != "memory"
    if on_disk and tier.disk_gb is not None and tier.data_gb and tier.disk_gb < tier.data_gb:
        yield at(
            "disk_gb", f"at least data_gb ({tier.data_gb:g}): each machine has all of the data",
            f"{tier.disk_gb:g}", "Larger disks, or parts of the data as tiers of their own.",
        )  # fmt: skip
    if tier.data_in == "memory" and tier.state == "volume":
        yield at("data_in", "disk: no memory outlives its machine", "memory")
    keeps = tier.data_gb is not None and tier.state in ("own", "copied")
    if stated.domains and (keeps or tier.primary):
        yield at(
            "primary" if tier.primary else "data_gb", "it without [[domains]]", "both",
            "Data that is lost with a domain is not modelled: leave one of them out.",
        )  # fmt: skip
    if stated.rates.get("common_cause") and tier.data_gb and tier.state == "copied":
        yield at(
            "data_gb", "it without [rates] common_cause", "both",
            "What a shock leaves of the copies is not modelled: leave one of them out.",
        )  # fmt: skip
    scaled = tier.writes or tier.reads_of_one or tier.primary or tier.data_gb
    if stated.schedule is not None and scaled:
        yield Problem(
            ("schedule",), f"it without data of tier {tier.name}, which no hour moves", "both",
            "Leave it out: machines with data do not come and go with the hours.",
        )  # fmt: skip


def with_stated(demand: TierDemand, tier: DeclaredTier) -> TierDemand:
    """Return the demand with the tier's data, mechanisms and instance types in plan.toml."""
    primary = demand.state.primary if tier.primary is None else tier.primary
    state = replace(
        demand.state,
        kept=tier.state or demand.state.kept,
        data_gb=tier.data_gb or 0.0,
        primary=primary,
        promote_s=(tier.promote_s or demand.state.promote_s) if primary else None,
    )
    more_mb = MB_PER_GB * state.data_gb if tier.data_in == "memory" else 0.0
    mechanisms = demand.mechanisms
    if tier.state is not None:
        mechanisms = MECHANISMS if state.spare_serves else (Mechanism.ara,)
    return replace(
        demand,
        state=state,
        memory_mb=demand.memory_mb + more_mb,
        mechanisms=tier.mechanisms or mechanisms,
        instance_types=tier.instance_types,
        min_nodes=tier.min_nodes or demand.min_nodes,
        arch=tuple(tier.arch or demand.arch),
    )


def check_state(
    file: PlanFile, tiers: Mapping[str, TierDemand], rates: FailureRates, *, available: bool
) -> None:
    """Raises InputError for a tier whose plan contradicts its role or its data.

    Parameters: tiers by name; rates of machines without data; available, True if the SLO has an
    availability.
    """
    primaries = [name for name, demand in tiers.items() if demand.state.primary]
    if file.stated.domains and primaries:
        raise file.source.error(
            "domains", expected=f"it without a primary (tier {', '.join(primaries)})", got="both",
            hint="A primary that is lost with a domain is not modelled.",
        )  # fmt: skip
    for number, tier in enumerate(file.stated.tiers):
        demand = tiers.get(tier.name)
        if demand is None:
            continue
        state = demand.state
        with file.source.naming("tiers", number, "data_gb"):
            state.rates(rates)  # includes the time in which a machine copies the data
        if tier.mechanisms and Mechanism.pf in tier.mechanisms and not state.spare_serves:
            raise file.source.error(
                "tiers", number, "mechanisms",
                expected="ara: its role keeps state that a cold spare does not have", got="pf",
                hint='Take pf out; or state = "copied" where machines copy it, "volume" where it '
                "outlives them.",
            )  # fmt: skip
        if tier.primary and not demand.latency.write_share:
            raise file.source.error(
                "tiers", number, "primary", expected="writes beside it", got="none",
                hint="State the share of requests that are writes.",
            )  # fmt: skip
        if available and tier.primary and state.promote_s is None and state.kept != "volume":
            raise file.source.error(
                "tiers", number, "primary",
                expected="promote_s beside it: without another primary no write is taken again",
                got="none",
                hint="State how long it takes until another machine takes writes, whoever promotes "
                "it; or have it promoted, as `promotion` of a role says.",
            )  # fmt: skip
