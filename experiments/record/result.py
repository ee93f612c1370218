"""result.json: the head that every kind of run has, and under the kind's own name what it found.

Head: schema, kind, experiment, run, platform, valid, verdicts, stopped (null but where a guard or
`sparecraft halt` ended the run), disturbed (`disturbed.py`; null where the host was the fleet's,
and in runs before it was judged), undone (`revert_time.py`; null in runs before it was recorded),
infeasible (arms that break a limit of sPARE's and say so), found (in few words, "" where arms say
it), slo (null where none was asked for), cost, started, commit,
host.
Folders of older versions, with summary.json, capacity.json or tune.json, are read as if they had
been written so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.runfiles.manifest import COUNTING
from experiments.record.disturbed import disturbance, disturbed_words, undecided
from experiments.record.manifest import Verdicts

SCHEMA = 1
WORDS = {True: "met", False: "missed", None: "undecided"}  # of an SLO
FILE = "result.json"
VERDICTS = tuple(field.name for field in fields(Verdicts))

Result = dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """A kind's findings in a run's files: its own part of the result, and its say in the head.

    verdicts: the runner's, with the kind's reasons added; found: the same in few words, of a kind
    without arms.
    """

    body: dict[str, Any]
    verdicts: Mapping[str, Any]
    slo: Mapping[str, Any] | None = None
    found: str = ""


def result_of(kind: str, manifest: Mapping[str, Any], found: Findings) -> Result:
    """The whole of result.json: the one place where any kind's run is judged."""
    verdicts, slo = found.verdicts, found.slo
    disturbed = disturbance((manifest.get("host") or {}).get("blocks") or ())
    if disturbed:
        reason = disturbed_words(disturbed)
        others = verdicts["measurement"]["reasons"]
        own = {"ok": False, "disturbed": True, "reasons": [reason, *others]}
        verdicts = {**verdicts, "measurement": own}
        slo = undecided(slo, reason)
    slo = _in_words(slo)
    valid = all(verdicts[name]["ok"] for name in COUNTING)
    head = _head(kind, manifest, valid, verdicts, slo)
    return {**head, "disturbed": disturbed, "found": found.found, kind: dict(found.body)}


def _in_words(slo: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """With `verdict`, met, missed or undecided, beside each `met`."""
    if slo is None:
        return None
    arms = {
        arm: {**one, "verdict": WORDS[one["met"]]} for arm, one in (slo.get("arms") or {}).items()
    }
    return {**slo, "verdict": WORDS[slo["met"]], **({"arms": arms} if arms else {})}


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
    verdicts: Mapping[str, Any],
    slo: Mapping[str, Any] | None,
) -> Result:
    host = {key: value for key, value in (manifest.get("host") or {}).items() if key != "blocks"}
    return {
        "schema": SCHEMA,
        "kind": kind,
        "experiment": manifest.get("experiment"),
        "run": manifest.get("run"),
        "platform": manifest.get("platform"),
        "valid": valid,
        "verdicts": verdicts,
        "stopped": manifest.get("stopped"),
        "disturbed": None,
        "undone": manifest.get("undone"),
        "infeasible": manifest.get("infeasible") or [],
        "found": "",
        "slo": slo,
        "cost": _cost(manifest),
        "started": manifest.get("started_at"),
        "commit": (manifest.get("versions") or {}).get("commit"),
        "host": host,
    }


def _cost(manifest: Mapping[str, Any]) -> dict[str, float | None]:
    """The machines' cost from the run's begin to its end; null where a price is not known."""
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


def flat(result: Result) -> dict[str, Any]:
    """Head and body as one mapping, for what shows both."""
    body = result[result["kind"]]
    return {**{key: value for key, value in result.items() if value is not body}, **body}


def passed(result: Result) -> bool:
    """The run is valid, its SLO, if it has one, was not missed, and nothing was left behind."""
    met = result["slo"] is None or result["slo"]["met"] is not False
    return bool(result["valid"] and met and result["verdicts"]["cleanup"]["ok"])


def not_measured(verdicts: Mapping[str, Any], reasons: Sequence[str]) -> dict[str, Any]:
    """The verdicts, where a kind has reasons why it did not find what it was to find."""
    own = verdicts["measurement"]
    if not reasons:
        return dict(verdicts)
    return {**verdicts, "measurement": {"ok": False, "reasons": [*own["reasons"], *reasons]}}


def stopped_words(result: Mapping[str, Any]) -> str:
    """The stop of the run: by whom, when and why, in a sentence; "" where it came to its end."""
    stop = result.get("stopped")
    if not stop:
        return ""
    by = "`sparecraft halt`" if stop["by"] == "halt" else f"its {stop['by']}"
    undone = f"{stop['undone_after_s']:.1f} s later nothing was disturbed any more."
    return f"Stopped by {by} after {stop['at_s']:.0f} s: {stop['reason']}; {undone}"


def read_result(folder: Path) -> Result:
    """The result of a run's folder. Raises InputError where there is none, or it is torn."""
    file = result_file(folder)
    if not file.is_file():
        raise InputError(
            str(folder),
            expected=f"a run's folder with {FILE} in it",
            got="none",
            hint="`sparecraft list` shows the runs.",
        )
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        return _READERS[file.name](body, read_manifest(folder))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
        raise InputError(
            str(file),
            expected="a run's result",
            got=f"{type(error).__name__}: {error}",
            hint="Its tables are as they were. Move the folder elsewhere, or run the design again.",
        ) from error


def result_file(folder: Path) -> Path:
    """The file that the result stands in: result.json, but in older folders."""
    return next((folder / name for name in _READERS if (folder / name).is_file()), folder / FILE)


def results_in(
    root: Path,
    unreadable: Callable[[InputError], None],
    depths: tuple[str, ...] = ("*/*", "*/*/*"),
) -> Iterator[tuple[Path, Result]]:
    """Every run under `results/`, by experiment and time: EXPERIMENT/RUN, and EXPERIMENT/KIND/RUN
    where the kind is not the design's own; elsewhere those at `depths`. `unreadable` is told of
    those that are left out."""
    files = (file for depth in depths for name in _READERS for file in root.glob(f"{depth}/{name}"))
    for folder in sorted({file.parent for file in files if not file.parent.is_symlink()}):
        try:
            yield folder, read_result(folder)
        except InputError as error:
            unreadable(error)


def read_manifest(folder: Path) -> dict[str, Any]:
    """manifest.json; empty where it is not there or torn."""
    try:
        return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    except (ValueError, TypeError, OSError, RecursionError):
        return {}


# Folders of older versions


def _new(body: dict[str, Any], manifest: Mapping[str, Any]) -> Result:
    # older ones knew nothing of these
    if body["schema"] > SCHEMA:
        raise ValueError(f"schema {body['schema']} of a later version, {SCHEMA} is known")
    unknown = {"stopped": None, "disturbed": None, "undone": manifest.get("undone"), "found": ""}
    body = {**unknown, **body}
    expected = {*_head("", manifest, True, {}, None), body["kind"]}
    if missing := expected - body.keys():
        raise KeyError(", ".join(sorted(missing)))
    _check_head(body)
    return body


def _check_head(body: Mapping[str, Any]) -> None:
    """Raises TypeError or KeyError where the head is not what every reader takes it for."""
    tables = ("verdicts", "cost", "host", body["kind"])
    maybe = ("slo", "stopped", "disturbed", "undone")
    wrong = [key for key in tables if not isinstance(body[key], Mapping)]
    wrong += [key for key in maybe if not isinstance(body[key], Mapping | None)]
    wrong += [] if isinstance(body["valid"], bool) else ["valid"]
    if wrong:
        raise TypeError(f"{', '.join(wrong)} of another type")
    needed = {"verdicts": VERDICTS, "cost": ("usd",), "slo": ("met",), "stopped": ("by",)}
    for table, keys in needed.items():
        if lacking := [key for key in keys if body[table] is not None and key not in body[table]]:
            raise KeyError(f"{table}: {', '.join(lacking)}")
    if any(not isinstance(body["verdicts"][name], Mapping) for name in VERDICTS):
        raise TypeError("verdicts of another type")


def of_kind(folder: Path, read: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Read a kind's own part of a run's result, by `read`. Raises InputError where that part is
    not what the kind wrote."""
    try:
        return dict(read())
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(
            str(folder / FILE),
            expected="what its kind measured",
            got=f"{type(error).__name__}: {error}",
            hint="It was written by another version, or changed: move the folder elsewhere.",
        ) from error


def _old_summary(body: dict[str, Any], manifest: Mapping[str, Any]) -> Result:
    kind = "schemes" if body.get("schemes") else "compare"
    compared = body.get("compared") or {}
    if "spare" in compared:
        body["compared"] = {"baseline": compared["baseline"], "other": compared["spare"]}
    body["strength"] = body.pop("schemes", None)
    body["host_blocks"] = (body.get("host") or {}).get("blocks") or []
    return _old(kind, body, manifest, bool(body["valid"]), body["slo"])


def _old_capacity(body: dict[str, Any], manifest: Mapping[str, Any]) -> Result:
    return _old("capacity", body, manifest, bool(body["complete"]), None)


def _old_tune(body: dict[str, Any], manifest: Mapping[str, Any]) -> Result:
    return _old("tune", body, manifest, bool(body["complete"]), None)


def _old(
    kind: str,
    body: dict[str, Any],
    manifest: Mapping[str, Any],
    valid: bool,
    slo: Mapping[str, Any] | None,
) -> Result:
    names = {name: body.get(name) for name in ("experiment", "run", "platform")}
    named = {**manifest, **{key: value for key, value in names.items() if value is not None}}
    head = _head(kind, named, valid, body["verdicts"], slo)
    return {**head, kind: {key: value for key, value in body.items() if key not in head}}


_READERS: dict[str, Callable[[dict[str, Any], Mapping[str, Any]], Result]] = {
    FILE: _new,
    "summary.json": _old_summary,
    "capacity.json": _old_capacity,
    "tune.json": _old_tune,
}
