"""Comparison with earlier runs of the same design: runs differ more than the blocks of one run."""

from __future__ import annotations

from core.runfiles.manifest import manifest_if_any, spec_of
from core.runfiles.result import results_in
from experiments.kinds.compare.folder import RunFolder
from experiments.record.result import flat
from experiments.report.text import interval, number

_SAME = ("kind", "load", "interference", "faults", "arms", "failover", "fleet")  # of the spec


def previous_factors(run: RunFolder, other_arm: str) -> list[float]:
    """Return the p95 factors of valid earlier runs of the same design in the same folder, in order
    of name.
    """
    started = str(run.manifest.get("started_at"))
    factors = []
    beside = run.path.resolve().parent
    for folder, result in results_in(beside, lambda error: run.notes.append(str(error)), ("*",)):
        spec = spec_of(manifest_if_any(folder))
        same = all(spec.get(key) == run.spec.get(key) for key in _SAME)
        if same and result["valid"] and str(result["started"]) < started:
            body = flat(result)
            comparison = body.get("comparison")
            entries = comparison.get(other_arm) if comparison else body.get("improvement")
            factors.append(((entries or {}).get("p95") or {}).get("factor"))
    return [factor for factor in factors if factor is not None]


def compare_with_previous(run: RunFolder, other_arm: str | None) -> str:
    """Return a sentence on the scope of this run's result, with the factors of earlier runs."""
    if other_arm is None:
        return ""
    factors = previous_factors(run, other_arm)
    if not factors:
        return "This holds within this run; no earlier valid run of this design lies beside it."
    if len(factors) == 1:
        return (
            f"This holds within this run; one earlier run had a p95 factor of {number(factors[0])}."
        )
    return (
        f"This holds within this run; {len(factors)} earlier runs had p95 factors from "
        f"{interval(min(factors), max(factors))}."
    )
