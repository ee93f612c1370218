"""What a run was asked for, as its manifest has it, in today's words.

Until 23 November 2026 a tier named one `backend`, and an arm had replicas and tokens by tier but
one policy for all. Results from before then are read as if written today.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def spec_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The specification in a manifest; empty if it has none."""
    spec = dict(manifest.get("spec") or {})
    if "arms" in spec:
        spec["arms"] = {name: _arm(arm) for name, arm in spec["arms"].items()}
    if "fleet" in spec:
        spec["fleet"] = fleet_of(spec["fleet"])
    return spec


COUNTING = ("measurement", "injection", "revert")  # without these no figure of a run counts


def failed_verdicts(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Which of the runner's own verdicts failed that a run's figures rest on."""
    verdicts = manifest.get("verdicts") or {}
    return tuple(name for name in COUNTING if (verdicts.get(name) or {}).get("ok") is False)


def fleet_of(fleet: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a fleet.tfvars."""
    tiers, arbiters = fleet.get("tiers") or {}, fleet.get("arbiters") or {}
    return {
        **fleet,
        "tiers": {name: _tier(tier) for name, tier in tiers.items()},
        "arbiters": {
            name: {key: value for key, value in one.items() if key not in ("policy", "replicas")}
            for name, one in arbiters.items()
        },
    }


def _tier(tier: Mapping[str, Any]) -> dict[str, Any]:
    today = dict(tier)
    backend = today.pop("backend", None)
    return {**today, "calls": [backend]} if backend is not None else today


def _arm(arm: Mapping[str, Any]) -> dict[str, Any]:
    if "replicas" not in arm:
        return dict(arm)
    tokens = arm.get("tokens") or {}
    return {
        "settings": {
            tier: {"policy": arm.get("policy"), "replicas": r, "tokens": tokens.get(tier)}
            for tier, r in arm["replicas"].items()
        }
    }
