"""Validity of a run; every "no" has a reason in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from core.runfiles.events import CLOSING, OPENING, Window
from core.runfiles.result import VERDICTS, Verdict
from experiments.record.dose import dose_reasons
from experiments.record.metrics.performability import UserMetrics
from experiments.record.metrics.saturation import lag_limit_ms


class FaultCounts(TypedDict):
    """Faults and interference loads that were injected and taken back."""

    injected: int
    reverted: int
    fingerprint_clean: bool | None
    by_kind: dict[str, dict[str, int]]


def fault_counts(
    events: Sequence[Mapping[str, Any]], fingerprint_clean: bool | None
) -> FaultCounts:
    """Return the faults and interference loads that were injected and taken back, by kind."""
    injected, reverted = (
        Counter(
            str(event.get("kind") or "unknown")
            for event in events
            if event.get("what") in ("fault", "interference") and event.get("action") in actions
        )
        for actions in (OPENING, CLOSING)
    )
    return {
        "injected": injected.total(),
        "reverted": reverted.total(),
        "fingerprint_clean": fingerprint_clean,
        "by_kind": {
            kind: {"injected": injected[kind], "reverted": reverted[kind]}
            for kind in sorted(injected | reverted)
        },
    }


def run_verdicts(
    manifest: Mapping[str, Any],
    arms: Mapping[str, UserMetrics],
    disturbances: Sequence[Window],
    faults: Mapping[str, Any],
    against: Sequence[str] = (),
) -> dict[str, Verdict]:
    """Return the runner's verdicts with the reasons that the data add against the run.

    `against` are reasons against the measurement beyond the arms' figures. A missing verdict of the
    runner counts as not passed, except `cleanup`, which comes last and never voids data: it is None
    until then.
    """
    verdicts: dict[str, Verdict] = {}
    stated = manifest.get("verdicts") or {}
    for name in VERDICTS:
        verdict = stated.get(name)
        if verdict is None:
            verdicts[name] = {"ok": None if name == "cleanup" else False, "reasons": []}
            if name != "cleanup":
                verdicts[name]["reasons"].append("the runner gave no verdict")
        else:
            reasons = [str(reason) for reason in verdict.get("reasons") or []]
            verdicts[name] = {"ok": bool(verdict.get("ok")), "reasons": reasons}
    limit = ((manifest.get("spec") or {}).get("slo") or {}).get("max_error_share")
    _add_reasons(verdicts["measurement"], [*measurement_reasons(arms, limit), *against])
    _add_reasons(verdicts["injection"], _injection_reasons(manifest, faults))
    _add_reasons(verdicts["injection"], dose_reasons(faults.get("doses") or []))
    _add_reasons(verdicts["revert"], _revert_reasons(manifest, disturbances, faults))
    return verdicts


def measurement_reasons(
    arms: Mapping[str, UserMetrics], error_share_max: float | None
) -> list[str]:
    """Return the reasons not to believe the latencies of these arms."""
    reasons = [] if arms else ["no arm was measured"]
    for name, arm in arms.items():
        if not arm["requests"]:
            reasons.append(f"{name}: no request was measured")
            continue
        if not arm["ok"]:
            reasons.append(f"{name}: none of {arm['requests']:,} requests was answered ok")
        lag_ms, lag_ms_max = arm["lag_ms_p99"], lag_limit_ms(arm["p50_ms"])
        if lag_ms is None:
            reasons.append(f"{name}: the generator's lag is not known")
        elif lag_ms > lag_ms_max:
            reasons.append(
                f"{name}: the generator sent late, lag p99 {lag_ms:.2f} ms is above "
                f"{lag_ms_max:.2f} ms, by the measured p50 ({arm['p50_ms']:.1f} ms); "
                "free the host, lower rate_per_s or raise workers"
            )
        error_share = arm["error_share"] or 0.0
        if error_share_max is not None and error_share > error_share_max:
            reasons.append(
                f"{name}: {arm['errors']:,} of {arm['requests']:,} requests failed "
                f"({100 * error_share:.3g} %), the design allows {100 * error_share_max:g} %"
            )
    return reasons


def _injection_reasons(manifest: Mapping[str, Any], faults: Mapping[str, Any]) -> list[str]:
    planned = (manifest.get("spec") or {}).get("faults") or []
    counts = faults["by_kind"]
    return [
        f"{fault.get('kind')}: asked for, never injected"
        for fault in planned
        if not counts.get(fault.get("kind"), {}).get("injected")
    ]


def _revert_reasons(
    manifest: Mapping[str, Any], disturbances: Sequence[Window], faults: Mapping[str, Any]
) -> list[str]:
    reasons = [
        f"{window.kind} on {window.machine or 'an unnamed machine'} at {window.start_s:.1f} s: "
        "no revert was recorded"
        for window in disturbances
        if not window.closed
    ]
    if faults["fingerprint_clean"] is False:
        reasons.append("a machine's fingerprint differs from before the run")
    elif faults["fingerprint_clean"] is None and manifest.get("fleet", True) is not None:
        reasons.append("the machines' fingerprints were not checked")
    return reasons


def _add_reasons(verdict: Verdict, reasons: Sequence[str]) -> None:
    if reasons:
        verdict["ok"] = False
        verdict["reasons"] += [text for text in reasons if text not in verdict["reasons"]]
