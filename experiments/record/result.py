"""The judgement of a run, written to result.json (format: `core/runfiles/result.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from core.json_object import JsonObject
from core.runfiles.manifest import COUNTING
from core.runfiles.result import SCHEMA, Cost, Head, Promise, Result, Slo, Verdict, Verdicts
from experiments.record.disturbed import disturbance, disturbed_words, undecided

WORDS = {True: "met", False: "missed", None: "undecided"}  # of an SLO


@dataclass(frozen=True)
class Findings:
    """A kind's findings in a run's files: its own part of the result, and its part of the head.

    verdicts: the runner's, with the kind's reasons added; found: the answer in few words, of a kind
    without arms.
    """

    body: Mapping[str, Any]
    verdicts: Mapping[str, Verdict]
    slo: Mapping[str, Any] | None = None
    found: str = ""
    promise: Promise | None = None


def result_of(kind: str, manifest: Mapping[str, Any], findings: Findings) -> Result:
    """Return the content of result.json. Only this function judges a run, of any kind."""
    verdicts, slo = findings.verdicts, findings.slo
    disturbed = disturbance((manifest.get("host") or {}).get("blocks") or ())
    if disturbed:
        reason = disturbed_words(disturbed)
        other_reasons = verdicts["measurement"]["reasons"]
        measurement: Verdict = {"ok": False, "disturbed": True, "reasons": [reason, *other_reasons]}
        verdicts = {**verdicts, "measurement": measurement}
        slo = undecided(slo, reason)
    valid = all(verdicts[name]["ok"] for name in COUNTING)
    head = _head(kind, manifest, valid, verdicts, _add_verdicts(slo))
    head["promise"] = _promise(findings.promise, valid, verdicts)
    return {**head, "disturbed": disturbed, "found": findings.found, kind: dict(findings.body)}


def _promise(
    promise: Promise | None, valid: bool, verdicts: Mapping[str, Verdict]
) -> Promise | None:
    """Return the promise; it is undecided in a run that is not valid."""
    if promise is None:
        return None
    if valid:
        return promise
    reasons = [reason for name in COUNTING for reason in verdicts[name]["reasons"]]
    return {
        **promise,
        "verdict": "undecided",
        "reasons": reasons,
        "clauses": {
            key: {**clause, "verdict": "undecided", "covered": None}
            for key, clause in promise["clauses"].items()
        },
        "figures": {"judged": 0, "covered": 0},
    }


def _add_verdicts(slo: Mapping[str, Any] | None) -> Slo | None:
    """Add `verdict` (met, missed or undecided) beside each `met`."""
    if slo is None:
        return None
    arms = {
        arm: {**arm_slo, "verdict": WORDS[arm_slo["met"]]}
        for arm, arm_slo in (slo.get("arms") or {}).items()
    }
    worded = {**slo, "verdict": WORDS[slo["met"]], **({"arms": arms} if arms else {})}
    return cast(Slo, worded)  # with the limits of its kind


def validity(result: Mapping[str, Any]) -> str:
    """Return yes, no or disturbed.

    A run that was ended, or whose faults were not as requested or remain, is not valid, whatever
    the host did.
    """
    if result["valid"]:
        return "yes"
    if not result.get("disturbed") or result.get("stopped"):
        return "no"
    other_answers = [result["verdicts"][name]["ok"] for name in COUNTING if name != "measurement"]
    return "disturbed" if all(other_answers) else "no"


def _head(
    kind: str,
    manifest: Mapping[str, Any],
    valid: bool,
    verdicts: Mapping[str, Verdict],
    slo: Slo | None,
) -> Head:
    host = {key: value for key, value in (manifest.get("host") or {}).items() if key != "blocks"}
    return {
        "schema": SCHEMA,
        "kind": kind,
        "experiment": manifest.get("experiment"),
        "run": manifest.get("run"),
        "platform": manifest.get("platform"),
        "valid": valid,
        "verdicts": cast(Verdicts, verdicts),
        "stopped": manifest.get("stopped"),
        "disturbed": None,
        "undone": manifest.get("undone"),
        "infeasible": manifest.get("infeasible") or [],
        "found": "",
        "slo": slo,
        "promise": None,
        "cost": _cost(manifest),
        "started": manifest.get("started_at"),
        "commit": (manifest.get("versions") or {}).get("commit"),
        "host": host,
    }


def _cost(manifest: Mapping[str, Any]) -> Cost:
    """Return the machines' cost from the run's begin to its end; null where a price is not
    known.
    """
    machines = (manifest.get("fleet") or {}).get("machines") or []
    prices = [machine.get("usd_per_hour") for machine in machines if not machine.get("standby")]
    try:
        ends = [datetime.fromisoformat(str(manifest[key])) for key in ("started_at", "ended_at")]
    except (KeyError, ValueError):
        return {"usd": None, "usd_per_hour": None}
    if not prices or None in prices:
        return {"usd": None, "usd_per_hour": None}
    per_hour = float(sum(prices))
    hours = (ends[1] - ends[0]).total_seconds() / 3600
    return {"usd": round(per_hour * hours, 6), "usd_per_hour": per_hour}


def flat(result: Result) -> JsonObject:
    """Return head and body as one mapping, for pages that show both."""
    body = result[result["kind"]]
    return {**{key: value for key, value in result.items() if value is not body}, **body}


def passed(result: Result) -> bool:
    """Return True if the run is valid, its SLO (if any) was not missed, and clean-up succeeded."""
    met = result["slo"] is None or result["slo"]["met"] is not False
    return bool(result["valid"] and met and result["verdicts"]["cleanup"]["ok"])


def not_measured(verdicts: Mapping[str, Verdict], reasons: Sequence[str]) -> Mapping[str, Verdict]:
    """Return the verdicts, with a kind's reasons for a missing measurement added."""
    measurement = verdicts["measurement"]
    if not reasons:
        return verdicts
    return {
        **verdicts,
        "measurement": {"ok": False, "reasons": [*measurement["reasons"], *reasons]},
    }


def stopped_words(result: Mapping[str, Any]) -> str:
    """Return cause, time and reason of the run's stop in a sentence; "" if it reached its end."""
    stop = result.get("stopped")
    if not stop:
        return ""
    by = "`sparecraft halt`" if stop["by"] == "halt" else f"its {stop['by']}"
    undone = f"{stop['undone_after_s']:.1f} s later nothing was disturbed any more."
    return f"Stopped by {by} after {stop['at_s']:.0f} s: {stop['reason']}; {undone}"
