"""This run among earlier ones of the same design, because runs differ more than blocks of a run."""

from __future__ import annotations

from core.runfiles.manifest import manifest_if_any, spec_of
from core.runfiles.result import results_in
from experiments.kinds.compare.folder import RunFolder
from experiments.record.result import flat
from experiments.report.text import interval, number

_SAME = ("kind", "load", "interference", "faults", "arms", "failover", "fleet")  # of the spec


def previous_factors(run: RunFolder, other: str) -> list[float]:
    """Return the p95 factors of the valid earlier runs of the same design beside this one,
    by name.
    """
    started = str(run.manifest.get("started_at"))
    found = []
    beside = run.path.resolve().parent
    for folder, result in results_in(beside, lambda error: run.notes.append(str(error)), ("*",)):
        asked = spec_of(manifest_if_any(folder))
        same = all(asked.get(key) == run.spec.get(key) for key in _SAME)
        if same and result["valid"] and str(result["started"]) < started:
            body = flat(result)
            many = body.get("comparison")
            entries = many.get(other) if many else body.get("improvement")
            found.append(((entries or {}).get("p95") or {}).get("factor"))
    return [factor for factor in found if factor is not None]


def compare_with_previous(run: RunFolder, other: str | None) -> str:
    """Return the claim of this run, and the distance between earlier ones."""
    if other is None:
        return ""
    factors = previous_factors(run, other)
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
