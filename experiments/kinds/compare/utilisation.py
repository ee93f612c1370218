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
    """CPU of each arm's tiers, predicted and measured; None if no machine was sampled."""
    found = run.summary.get("utilisation") or {}
    tiers = list(next(iter(found.values()), {}))
    if not any(one["samples"] for arm in found.values() for one in arm.values()):
        return None
    calibrated = run.summary.get("calibration") is not None
    head = ["arm"]
    for tier in tiers:
        head += [f"{tier}, predicted"] if calibrated else []
        head += [f"{tier}, measured"]
    rows = []
    for arm, of in found.items():
        cells = [named(arm)]
        for tier in tiers:
            cells += [Cell(percent(of[tier]["foreseen"]))] if calibrated else []
            cells += [Cell(percent(of[tier]["measured"]))]
        rows.append(tuple(cells))
    caption = "CPU over caps, of machines while nothing disturbed them"
    return Table("utilisation-table", caption, tuple(head), tuple(rows))


def calibration_table(run: RunFolder) -> Table | None:
    """CPU of a request by tier, as the calibration measured it; None without one."""
    found = run.summary.get("calibration")
    if not found:
        return None
    rows = tuple(
        (
            named(tier), Cell(number(one["cores"])), Cell(milliseconds(1e3 * one["cpu_s"])),
            Cell(interval(1e3 * one["ci_low"], 1e3 * one["ci_high"], milliseconds)),
            Cell(number(one["idle_cores"])),
        )
        for tier, one in found["tiers"].items()
    )  # fmt: skip
    head = ("tier", "cores", "CPU of a request", f"{100 * found['confidence']:g} % interval",
            "cores without load")  # fmt: skip
    return Table("calibration-table", calibration_words(found), head, rows)


def calibration_words(found: Mapping[str, Any]) -> str:
    """ "12 % of the CPU of web: 3.2 per second (2.9 to 3.6)"."""
    bounds = interval(found["ci_low"], found["ci_high"])
    return (
        f"{percent(found['utilisation'])} of the CPU of {found['tier']}: "
        f"{number(found['rate_per_s'])} per second ({bounds})"
    )


def predicted_utilisation(design: Design, results: Path) -> dict[str, object]:
    """Utilisation by arm and tier that a run of the design will have.

    By the work of the newest valid run of the same tiers' roles and user in `results`, whose name
    is `run`; without one, of an asked utilisation the most that it can be; else `arms` is empty.
    """
    load, fleet = design.experiment.load, design.fleet
    reads = reads_of(design.workloads, design.experiment.load.user)
    copies = {
        arm: copies_of(one.replicas, fleet, reads) for arm, one in design.experiment.arms.items()
    }
    first = next(iter(copies.values()))
    run, work_s = earlier_work(design, results / fleet.experiment)
    found: dict[str, object] = {
        "asked": load.utilisation,
        "run": run,
        "rate_per_s": load.rate_per_s,
    }
    if not work_s:
        asked = load.utilisation
        most = {} if asked is None else {a: most_used(asked, first, c) for a, c in copies.items()}
        return {**found, "at_most": True, "arms": most}
    rate_per_s = load.rate_per_s
    if load.utilisation is not None:
        tier = binding_tier(work_s, first, fleet)
        full = used(work_s, 1.0, first, fleet)
        rate_per_s = load.utilisation / full[tier] if tier else None
    arms = {} if rate_per_s is None else {
        arm: used(work_s, rate_per_s, one, fleet) for arm, one in copies.items()
    }  # fmt: skip
    return {**found, "rate_per_s": rate_per_s, "at_most": False, "arms": arms}


def earlier_work(design: Design, beside: Path) -> tuple[str | None, dict[str, float]]:
    """Return the newest valid run's name in `beside`, and CPU seconds of a request by tier, per
    copy.
    """
    newest = reversed(list(results_in(beside, lambda _: None, ("*",))))
    for folder, result in newest:
        manifest = manifest_if_any(folder)
        if result["valid"] and _alike(design, spec_of(manifest)):
            work_s = work_per_copy(flat(result), manifest, design)
            if set(work_s) == set(design.fleet.tiers):
                return str(result["run"]), work_s
    return None, {}


def _alike(design: Design, spec: Mapping[str, Any]) -> bool:
    """A run with the same tiers' roles and calls, asked by the same user."""
    tiers = (spec.get("fleet") or {}).get("tiers") or {}
    user = (spec.get("load") or {}).get("user")
    return user == design.experiment.load.user and {
        name: (one.get("role"), list(one.get("calls") or ())) for name, one in tiers.items()
    } == {name: (one.role, list(one.calls)) for name, one in design.fleet.tiers.items()}


def work_per_copy(
    body: Mapping[str, Any], manifest: Mapping[str, Any], design: Design
) -> dict[str, float]:
    """CPU seconds of a request and copy by tier: a calibration's; else by what the machines of the
    run's first arm used, whatever they use without load included."""
    calibration = body.get("calibration")
    if calibration:
        return {tier: one["cpu_s_per_copy"] for tier, one in calibration["tiers"].items()}
    spec = spec_of(manifest)
    arms: Mapping[str, Any] = spec.get("arms") or {}
    name = next(iter(arms), "")
    measured = (body.get("utilisation") or {}).get(name) or {}
    rate_per_s = ((body.get("arms") or {}).get(name) or {}).get("offered_per_s")
    if not rate_per_s:
        return {}
    settings = arms[name].get("settings") or {}
    replicas = {tier: int(one.get("replicas") or 1) for tier, one in settings.items()}
    copies = copies_of(
        replicas, design.fleet, reads_of(design.workloads, design.experiment.load.user)
    )
    tiers = spec["fleet"]["tiers"]
    return {
        tier: one["measured"] * tiers[tier]["nodes"] * tiers[tier]["cpus"]
        / (rate_per_s * copies[tier])
        for tier, one in measured.items()
        if one["measured"] is not None and tier in copies
    }  # fmt: skip
