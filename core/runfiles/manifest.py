"""manifest.json: the conditions of a run; and objections to a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from core.json_object import JsonObject
from core.runfiles.checked import TOLERANT, load_json, validate
from core.runfiles.result import Stopped, Verdict

FILE = "manifest.json"
_HINT = "Name a run's folder: `sparecraft list` shows them."


@with_config(TOLERANT)
class Manifest(TypedDict, total=False):
    """A run as its runner recorded it; a kind adds keys, and a later version may add more."""

    schema: int
    experiment: str
    run: str
    platform: str
    started_at: str
    ended_at: str
    cut_short: bool
    seed: int
    command: list[str]
    versions: dict[str, str]
    spec: JsonObject
    """The whole validated specification (`spec_of`)."""
    fleet: JsonObject | None
    """The inventory; None where no fleet came up."""
    host: JsonObject
    verdicts: dict[str, Verdict]
    stopped: Stopped | None
    undone: JsonObject | None
    doses: list[JsonObject]
    setup_s: dict[str, float]
    telemetry: JsonObject
    fingerprint_clean: bool | None


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a run's folder. Raises InputError (file and key), also without one."""
    path = folder / FILE
    return validate(_adapter(), load_json(path, _HINT), str(path), _HINT)


def manifest_if_any(folder: Path) -> Manifest:
    """Return the manifest of a run's folder; empty if it is missing or incomplete."""
    try:
        json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):
        return {}
    return read_manifest(folder)


@cache
def _adapter() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def spec_of(manifest: Mapping[str, Any]) -> JsonObject:
    """Return the specification in a manifest; empty if it has none."""
    return dict(manifest.get("spec") or {})


COUNTING = ("measurement", "injection", "revert")  # if one fails, no figure of the run counts


def against_run(folder: Path) -> str:
    """Return the reasons why a run does not count; "" if it is valid.

    They come from result.json, or without one from the runner's verdicts in manifest.json.
    """
    for name in ("result.json", "manifest.json"):
        try:
            head = json.loads((folder / name).read_text(encoding="utf-8"))
            return against(head) if head.get("valid") is not True else ""
        except (OSError, ValueError, AttributeError, RecursionError):
            continue
    return ""


def against(head: Mapping[str, Any]) -> str:
    """Return the reasons why a run does not count, from its result's head or its manifest; "" if it
    counts.
    """
    stopped = head.get("stopped") or {}
    reasons = [f"stopped by {stopped.get('by')}"] if stopped else []
    verdicts = head.get("verdicts") or {}
    for name in COUNTING:
        verdict = verdicts.get(name) or {}
        if verdict.get("ok") is False:
            first = next(iter(verdict.get("reasons") or ()), "failed")
            reasons.append(str(first) if verdict.get("disturbed") else f"{name}: {first}")
    return "; ".join(reasons)
