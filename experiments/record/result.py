"""The judgement of a run, written to result.json (format: `core/runfiles/result.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from core.errors import InputError
from core.json_object import JsonObject
from core.runfiles.manifest import COUNTING
from core.runfiles.result import FILE, SCHEMA, Cost, Head, Promise, Result, Slo, Verdict, Verdicts
from experiments.record.disturbed import disturbance, disturbed_words, undecided

WORDS = {True: "met", False: "missed", None: "undecided"}  # of an SLO


@dataclass(frozen=True)
class Findings:
    """A kind's findings in a run's files: its own part of the result, and its say in the head.

    verdicts: the runner's, with the kind's reasons added; found: the same in few words, of a kind
    without arms.
    """

    body: Mapping[str, Any]
    verdicts: Mapping[str, Verdict]
    slo: Mapping[str, Any] | None = None
    found: str = ""
    promise: Promise | None = None


def result_of(kind: str, manifest: Mapping[str, Any], found: Findings) -> Result:
    """Return the whole of result.json: the one place where any kind's run is judged."""
    verdicts, slo = found.verdicts, found.slo
    disturbed = disturbance((manifest.get("host") or {}).get("blocks") or ())
    if disturbed:
        reason = disturbed_words(disturbed)
        others = verdicts["measurement"]["reasons"]
        own: Verdict = {"ok": False, "disturbed": True, "reasons": [reason, *others]}
        verdicts = {**verdicts, "measurement": own}
        slo = undecided(slo, reason)
    valid = all(verdicts[name]["ok"] for name in COUNTING)
    head = _head(kind, manifest, valid, verdicts, _in_words(slo))
    head["promise"] = _promise(found.promise, valid, verdicts)
    return {**head, "disturbed": disturbed, "found": found.found, kind: dict(found.body)}


def _promise(
    promise: Promise | None, valid: bool, verdicts: Mapping[str, Verdict]
) -> Promise | None:
    """The promise as it counts: undecided in a run from which nothing may be concluded."""
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
            key: {**one, "verdict": "undecided", "covered": None}
            for key, one in promise["clauses"].items()
        },
        "figures": {"judged": 0, "covered": 0},
    }


def _in_words(slo: Mapping[str, Any] | None) -> Slo | None:
    """Add `verdict` (met, missed or undecided) beside each `met`."""
    if slo is None:
        return None
    arms = {
        arm: {**one, "verdict": WORDS[one["met"]]} for arm, one in (slo.get("arms") or {}).items()
    }
    judged = {**slo, "verdict": WORDS[slo["met"]], **({"arms": arms} if arms else {})}
    return cast(Slo, judged)  # with the limits of its kind


def validity(result: Mapping[str, Any]) -> str:
    """yes, no or disturbed: a run that was ended, or whose faults were not as asked or stay, is
    not valid whatever the host did."""
    if result["valid"]:
        return "yes"
    if not result.get("disturbed") or result.get("stopped"):
        return "no"
    others = [result["verdicts"][name]["ok"] for name in COUNTING if name != "measurement"]
    return "disturbed" if all(others) else "no"


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
    """Head and body as one mapping, for what shows both."""
    body = result[result["kind"]]
    return {**{key: value for key, value in result.items() if value is not body}, **body}


def passed(result: Result) -> bool:
    """The run is valid, its SLO, if it has one, was not missed, and nothing was left behind."""
    met = result["slo"] is None or result["slo"]["met"] is not False
    return bool(result["valid"] and met and result["verdicts"]["cleanup"]["ok"])


def not_measured(verdicts: Mapping[str, Verdict], reasons: Sequence[str]) -> Mapping[str, Verdict]:
    """Return the verdicts, where a kind has reasons why it did not find what it was to find."""
    own = verdicts["measurement"]
    if not reasons:
        return verdicts
    return {**verdicts, "measurement": {"ok": False, "reasons": [*own["reasons"], *reasons]}}


def stopped_words(result: Mapping[str, Any]) -> str:
    """Return the stop of the run: by whom, when and why, in a sentence; "" where it came to its
    end.
    """
    stop = result.get("stopped")
    if not stop:
        return ""
    by = "`sparecraft halt`" if stop["by"] == "halt" else f"its {stop['by']}"
    undone = f"{stop['undone_after_s']:.1f} s later nothing was disturbed any more."
    return f"Stopped by {by} after {stop['at_s']:.0f} s: {stop['reason']}; {undone}"


def of_kind(folder: Path, read: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Read a kind's own part of a run's result, by `read`. Raises InputError if that part is
    not what the kind wrote.
    """
    try:
        return read()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(
            str(folder / FILE),
            expected="the measurements of its kind",
            got=f"{type(error).__name__}: {error}",
            hint="It was written by another version, or changed: move the folder elsewhere.",
        ) from error
