"""The choices of a plan from `[slo.integrity]` and `[[tiers.variants]]`, with runs read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.errors import InputError
from core.units import CRASHES_PER_YEAR_MOST
from optimizer.integrity import NODE_TYPES, read_counts
from optimizer.plan.inputs.capacity import read_capacity
from optimizer.plan.inputs.integrity import DeclaredVariant
from optimizer.plan.inputs.plan_file import PlanFile
from optimizer.plan.inputs.variants import Figure, Hardening, Variant
from optimizer.plan.solve.options import TierDemand

MIXES_MAX = 256  # choices of variants, each a search of its own


def hardening_of(file: PlanFile, tiers: Sequence[TierDemand]) -> Hardening | None:
    """Return the requested limits and the offered variants; None without integrity.

    Raises: InputError if one of `[slo.integrity]`, `[transient_faults]` and variants lacks the
    others, for runs that cannot be used, and for more than 256 choices of variants.
    """
    plan, slo, faults = file.stated, file.stated.slo.integrity, file.stated.transient_faults
    if slo is None:
        _refuse_idle(file)
        return None
    if faults is None:
        raise file.source.error(
            "slo", "integrity", expected="[transient_faults] beside it", got="none",
            hint="State the rate of faults of a node, and its source.",
        )  # fmt: skip
    stated = {tier.name: (number, tier.variants) for number, tier in enumerate(plan.tiers)}
    offered = [_offered_variants(file, *stated.get(tier.name, (0, []))) for tier in tiers]
    if (count := math.prod(map(len, offered))) > MIXES_MAX:
        raise file.source.error(
            "tiers", expected=f"at most {MIXES_MAX} choices of variants", got=f"{count}",
            hint="Offer fewer variants.",
        )  # fmt: skip
    if faults.per_node_month is not None:
        rate, evidence = Figure(faults.per_node_month, is_share=False), "taken as certain"
    else:
        assert faults.count is not None
        assert faults.node_months is not None
        months = faults.node_months
        rate = Figure(faults.count / months, faults.count, months, is_share=False)
        evidence = f"{faults.count} in {months:g} node-months"
    remarks = [
        f"transient faults: {rate.value:.4g} per node and 30 d ({evidence}; {faults.source}); a "
        f"corrupt node answers wrongly for {faults.sdc_recovery_s / 3600:g} h on average, and all "
        "of it"
    ]
    remarks += [
        f"tier {t.name}: {v.remark}" for t, o in zip(tiers, offered, strict=True) for v in o
    ]
    remarks.append(
        "crashes by transient faults are taken for crashes of the machine (PCRAFT Fig. 2): they "
        "take a standby, and [rates] repair_s until it is back; retries take no time"
    )
    remarks.append("of the copies of a request one is used, as likely a wrong one as its node is")
    hardening = Hardening(slo, rate, faults.sdc_recovery_s, tuple(offered), tuple(remarks))
    most_crashes = max(hardening.crashes_per_year(variant) for tier in offered for variant in tier)
    if most_crashes > CRASHES_PER_YEAR_MOST:
        raise file.source.error(
            "transient_faults", got=f"{most_crashes:g}",
            expected="faults that crash a node at most once a second",
        )  # fmt: skip
    return hardening


def _refuse_idle(file: PlanFile) -> None:
    plan = file.stated
    if plan.transient_faults is not None:
        raise file.source.error(
            "transient_faults", expected="[slo.integrity] beside it", got="none",
            hint="State the limit, or leave the faults out.",
        )  # fmt: skip
    for number, tier in enumerate(plan.tiers):
        if tier.variants:
            raise file.source.error(
                "tiers", number, "variants", expected="[slo.integrity] beside them", got="none",
                hint="State the limit, or leave the variants out.",
            )  # fmt: skip


def _offered_variants(
    file: PlanFile, number: int, variants: Sequence[DeclaredVariant]
) -> tuple[Variant, ...]:
    """Return a tier's variants; a tier without any is native, as in Table I."""
    if not variants:
        native = DeclaredVariant(name="native", nodt=1.0, nodt_source="itself", pcraft="native")
        return (_build_variant(file, (number,), native),)
    return tuple(_build_variant(file, (number, "variants", i), v) for i, v in enumerate(variants))


def _build_variant(file: PlanFile, key: tuple[str | int, ...], stated: DeclaredVariant) -> Variant:
    nodt, carries = _read_throughput(file, key, stated)
    corrupt, crash, does = _read_outcomes(file, key, stated)
    return Variant(stated.name, nodt, corrupt, crash, f"{stated.name} {carries}; {does}")


def _read_throughput(
    file: PlanFile, key: tuple[str | int, ...], stated: DeclaredVariant
) -> tuple[float, str]:
    if stated.nodt is not None:
        return stated.nodt, f"carries {stated.nodt:.0%} of native ({stated.nodt_source})"
    throughputs = {}
    for name, workload in (
        ("nodt_run", stated.workload),
        ("native_run", stated.native_workload or stated.workload),
    ):
        place = file.source.place("tiers", *key, name)
        throughputs[name] = read_capacity(file.folder / str(getattr(stated, name)), workload, place)
    hardened, native = throughputs["nodt_run"], throughputs["native_run"]
    if hardened.machine.cpus != native.machine.cpus:
        raise InputError(
            file.source.place("tiers", *key, "nodt_run"),
            expected=f"a node of {native.machine.cpus:g} CPU, as in native_run",
            got=f"{hardened.machine.cpus:g}", hint="Measure both on the same machine.",
        )  # fmt: skip
    least = min(1.0, hardened.per_s / native.per_s_most)
    return least, (
        f"carries {least:.0%} of native (low end of NodT in run {hardened.run} over the high end "
        f"in run {native.run}, {hardened.workload} over {native.workload})"
    )


def _read_outcomes(
    file: PlanFile, key: tuple[str | int, ...], stated: DeclaredVariant
) -> tuple[Figure, Figure, str]:
    if stated.pcraft is not None:
        shares = NODE_TYPES[stated.pcraft]
        remark = (
            f"a fault corrupts {shares.corrupt_p:.4%}, crashes {shares.crash_p:.4%} (PCRAFT Table "
            f"I, {stated.pcraft}: no counts are printed, so taken as certain)"
        )
        return Figure(shares.corrupt_p), Figure(shares.crash_p), remark
    if stated.run is not None:
        assert stated.of is not None
        place = file.source.place("tiers", *key, "run")
        counts = read_counts(file.folder / stated.run, stated.of, place)
        corrupt, crash, injections = counts.corrupt, counts.crash, counts.injections
        source = f"run {counts.run}, {stated.of}"
    else:
        assert stated.corrupt is not None
        assert stated.crash is not None
        assert stated.injections is not None
        corrupt, crash, injections = stated.corrupt, stated.crash, stated.injections
        source = str(stated.source)
    remark = f"of {injections:,} faults {corrupt:,} corrupted, {crash:,} crashed ({source})"
    return (
        Figure(corrupt / injections, corrupt, injections),
        Figure(crash / injections, crash, injections),
        remark,
    )
