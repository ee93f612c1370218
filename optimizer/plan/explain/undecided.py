"""Reasons for an undecided plan: its run is not valid, or has too little evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.fit import ServiceFit
from optimizer.plan.inputs.case import Case
from optimizer.plan.inputs.evidence import thin_percentiles
from optimizer.plan.solve.deadline import OutOfTimeError

_MORE = "Measure for longer: more repeats in [design], or a longer measure in [phases]"


def report_invalid_run(service: ServiceFit) -> tuple[str, ...]:
    """Report a run that permits no conclusion."""
    if not service.against:
        return ()
    return (
        f"planned from a run that is not valid: {service.run} ({service.against}). "
        "Measure again, and plan from that run",
    )


def report_thin_evidence(missing: Sequence[str]) -> tuple[str, ...]:
    """Report the missing figures of the run, without which no fleet can be judged."""
    more = () if all("has no arbiter" in text for text in missing) else (_MORE,)
    return (f"too little evidence to plan from: {'; '.join(missing)}", *more)


def report_thin_percentiles(case: Case, relaxation: Mapping[str, Any]) -> tuple[str, ...]:
    """Report percentiles that no fleet keeps, if too few samples calibrate the law."""
    entries = (*relaxation["alone"], *relaxation["together"])
    limits = {entry["limit"] for entry in entries}
    thin = thin_percentiles(case.measured, [q for q in case.slo.latency_ms if f"p{q}_ms" in limits])
    if not thin:
        return ()
    return (f"too little evidence to say that no fleet is enough: {'; '.join(thin)}", _MORE)


def report_breach(breach: str | None) -> tuple[str, ...]:
    """Report a latency that violates the search's assumption."""
    if breach is None:
        return ()
    return (f"not proved, since a larger fleet is slower here: {breach}",)


def report_undecided(subject: str, limit_s: float) -> str:
    """Return the reason of a search beside the plan that ended without an answer."""
    return f"not decided within {limit_s:.3g} s: no {subject}, and none was proved not to be there"


def report_timeout(error: OutOfTimeError) -> tuple[str, ...]:
    """Report a search that ended without a plan and without a proof that there is none."""
    return (f"not decided: expected {error.expected} (got {error.got}). {error.hint}",)
