"""Utilisation of tiers by arm: predicted and measured, and predicted from an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.runfiles.manifest import manifest_if_any, spec_of
from core.runfiles.result import results_in
from experiments.design import Design
from experiments.design.utilisation import binding_tier, copies_of, most_used, used
from experiments.design.workloads import reads_of
from experiments.kinds.compare.folder import RunFolder
from experiments.record.result import flat
from experiments.report.tables import Cell, Table, named
from experiments.report.text import interval, milliseconds, number, percent


def utilisation_table(run: RunFolder) -> Table | None:
    """Return the CPU of each arm's tiers, predicted and measured; None without samples."""
    utilisation = run.summary.get("utilisation") or {}
    tiers = list(next(iter(utilisation.values()), {}))
    if not any(use["samples"] for arm in utilisation.values() for use in arm.values()):
        return None
    calibrated = run.summary.get("calibration") is not None
    head = ["arm"]
    for tier in tiers:
        head += [f"{tier}, predicted"] if calibrated else []
        head += [f"{tier}, measured"]
    rows = []
    for arm, tier_uses in utilisation.items():
        cells = [named(arm)]
        for tier in tiers:
            cells += [Cell(percent(tier_uses[tier]["foreseen"]))] if calibrated else []
            cells += [Cell(percent(tier_uses[tier]["measured"]))]
        rows.append(tuple(cells))
    caption = "CPU over caps, of machines while nothing disturbed them"
    return Table("utilisation-table", caption, tuple(head), tuple(rows))


def calibration_table(run: RunFolder) -> Table | None:
    """Return the CPU of a request by tier from the calibration; None without one."""
    calibration = run.summary.get("calibration")
    if not calibration:
        return None
    rows = tuple(
        (
            named(tier), Cell(number(tier_work["cores"])),
            Cell(milliseconds(1e3 * tier_work["cpu_s"])),
            Cell(interval(1e3 * tier_work["ci_low"], 1e3 * tier_work["ci_high"], milliseconds)),
            Cell(number(tier_work["idle_cores"])),
        )
        for tier, tier_work in calibration["tiers"].items()
    )  # fmt: skip
    head = ("tier", "cores", "CPU of a request", f"{100 * calibration['confidence']:g} % interval",
            "cores without load")  # fmt: skip
    return Table("calibration-table", calibration_words(calibration), head, rows)


def calibration_words(calibration: Mapping[str, Any]) -> str:
    """Return a calibration such as "12 % of the CPU of web: 3.2 per second (2.9 to 3.6)"."""
    bounds = interval(calibration["ci_low"], calibration["ci_high"])
    return (
        f"{percent(calibration['utilisation'])} of the CPU of {calibration['tier']}: "
        f"{number(calibration['rate_per_s'])} per second ({bounds})"
    )


def predicted_utilisation(design: Design, results: Path) -> dict[str, object]:
    """Return the expected utilisation by arm and tier of a run of the design.

    It follows from the work that the newest valid run in `results` with the same roles of tiers
    and the same user measured; `run` is its name. Without such a run, `arms` has the highest
    possible utilisation if the design states one, and is empty otherwise.
    """
    load, fleet = design.experiment.load, design.fleet
    reads = reads_of(design.workloads, design.experiment.load.user)
    copies = {
        arm: copies_of(arm_design.replicas, fleet, reads)
        for arm, arm_design in design.experiment.arms.items()
    }
    first = next(iter(copies.values()))
    run, work_s = earlier_work(design, results / fleet.experiment)
    prediction: dict[str, object] = {
        "asked": load.utilisation,
        "run": run,
        "rate_per_s": load.rate_per_s,
    }
    if not work_s:
        highest: dict[str, object] = {}
        if load.utilisation is not None:
            highest = {a: most_used(load.utilisation, first, c) for a, c in copies.items()}
        return {**prediction, "at_most": True, "arms": highest}
    rate_per_s = load.rate_per_s
    if load.utilisation is not None:
        tier = binding_tier(work_s, first, fleet)
        full = used(work_s, 1.0, first, fleet)
        rate_per_s = load.utilisation / full[tier] if tier else None
    arms = {} if rate_per_s is None else {
        arm: used(work_s, rate_per_s, arm_copies, fleet) for arm, arm_copies in copies.items()
    }  # fmt: skip
    return {**prediction, "rate_per_s": rate_per_s, "at_most": False, "arms": arms}


def earlier_work(design: Design, results_folder: Path) -> tuple[str | None, dict[str, float]]:
    """Return the name of the newest valid run in the folder, and CPU seconds of a request by tier,
    per copy.
    """
    newest = reversed(list(results_in(results_folder, lambda _: None, ("*",))))
    for folder, result in newest:
        manifest = manifest_if_any(folder)
        if result["valid"] and _alike(design, spec_of(manifest)):
            work_s = work_per_copy(flat(result), manifest, design)
            if set(work_s) == set(design.fleet.tiers):
                return str(result["run"]), work_s
    return None, {}


def _alike(design: Design, spec: Mapping[str, Any]) -> bool:
    """Tell whether the run had the same roles and calls of tiers, and the same user."""
    tiers = (spec.get("fleet") or {}).get("tiers") or {}
    user = (spec.get("load") or {}).get("user")
    return user == design.experiment.load.user and {
        name: (tier.get("role"), list(tier.get("calls") or ())) for name, tier in tiers.items()
    } == {name: (tier.role, list(tier.calls)) for name, tier in design.fleet.tiers.items()}


def work_per_copy(
    body: Mapping[str, Any], manifest: Mapping[str, Any], design: Design
) -> dict[str, float]:
    """Return the CPU seconds of a request and copy by tier, from the calibration if there was one.

    Otherwise it is the CPU of the first arm's machines, with their use without load included.
    """
    calibration = body.get("calibration")
    if calibration:
        return {
            tier: tier_work["cpu_s_per_copy"] for tier, tier_work in calibration["tiers"].items()
        }
    spec = spec_of(manifest)
    arms: Mapping[str, Any] = spec.get("arms") or {}
    name = next(iter(arms), "")
    measured = (body.get("utilisation") or {}).get(name) or {}
    rate_per_s = ((body.get("arms") or {}).get(name) or {}).get("offered_per_s")
    if not rate_per_s:
        return {}
    settings = arms[name].get("settings") or {}
    replicas = {
        tier: int(tier_settings.get("replicas") or 1) for tier, tier_settings in settings.items()
    }
    copies = copies_of(
        replicas, design.fleet, reads_of(design.workloads, design.experiment.load.user)
    )
    tiers = spec["fleet"]["tiers"]
    return {
        tier: use["measured"] * tiers[tier]["nodes"] * tiers[tier]["cpus"]
        / (rate_per_s * copies[tier])
        for tier, use in measured.items()
        if use["measured"] is not None and tier in copies
    }  # fmt: skip
