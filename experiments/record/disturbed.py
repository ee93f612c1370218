"""Disturbed runs: other work took too much of the host for a verdict on the fleet.

Machines of a local fleet share the host's cores with other work. One rule sets the limit:
`--quiet-wait` discards blocks by it, and a run in which such a block counts is disturbed. Such a
run is neither valid nor invalid: its SLO is undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

STOLEN_SHARE_MAX = 0.05
OTHERS_SHARE_MAX = 0.15  # runner, load and kernel leave 5 to 8 % on 2 cores unexplained


class Disturbance(TypedDict):
    """Disturbed blocks `of` those that count, and the largest shares in one of them."""

    blocks: int
    of: int
    others_share: float
    stolen_share: float


def taken_words(stolen_share: float, others_share: float | None) -> list[str]:
    """Return the work that took the host from the fleet during a block, if it took too much.

    Parameters: shares of all cores' time, others_share None if the fleet is not on this host.
    """
    causes = []
    if stolen_share > STOLEN_SHARE_MAX:
        causes.append(f"other guests took {stolen_share:.0%} of the cores")
    if others_share is not None and others_share > OTHERS_SHARE_MAX:
        causes.append(f"other work on this host took {others_share:.0%} of the cores")
    return causes


def disturbance(blocks: Sequence[Mapping[str, Any]]) -> Disturbance | None:
    """Return `disturbed` of result.json; None if no block was disturbed.

    Parameters: blocks from `host` of a manifest.
    """
    counting = [block for block in blocks if not block.get("spoiled")]
    disturbed = [block for block in counting if taken_words(*_shares(block))]
    if not disturbed:
        return None
    stolen, by_others = zip(*(_shares(block) for block in disturbed), strict=True)
    return {
        "blocks": len(disturbed),
        "of": len(counting),
        "others_share": max(by_others),
        "stolen_share": max(stolen),
    }


def _shares(block: Mapping[str, Any]) -> tuple[float, float]:
    """Return the share stolen by other guests, and the share taken by other work."""
    return block.get("stolen_share") or 0.0, block.get("others_share") or 0.0


def disturbed_words(summary: Mapping[str, Any]) -> str:
    """Return a disturbance in a sentence without its full stop."""
    causes = " and ".join(taken_words(summary["stolen_share"], summary["others_share"]))
    return f"disturbed in {summary['blocks']} of {summary['of']} blocks: {causes}"


def taken_share(summary: Mapping[str, Any] | None) -> float | None:
    """Return the larger share of the cores taken by others; None if the run was not disturbed."""
    return max(summary["others_share"], summary["stolen_share"]) if summary else None


def undecided(slo: Mapping[str, Any] | None, reason: str) -> Mapping[str, Any] | None:
    """Return the SLO's part of result.json for a run that decides neither yes nor no."""
    if slo is None:
        return None
    arms = {
        arm: {**arm_slo, "met": None, "limits": {}, "reasons": [reason]}
        for arm, arm_slo in (slo.get("arms") or {}).items()
    }
    return {**slo, "met": None, "arms": arms, "reasons": [reason]}
