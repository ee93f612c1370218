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
    """Reasons why the host was not the fleet's during a block; none where it was.

    Parameters: shares of all cores' time, others_share None if the fleet is not on this host.
    """
    words = []
    if stolen_share > STOLEN_SHARE_MAX:
        words.append(f"other guests took {stolen_share:.0%} of the cores")
    if others_share is not None and others_share > OTHERS_SHARE_MAX:
        words.append(f"other work on this host took {others_share:.0%} of the cores")
    return words


def disturbance(blocks: Sequence[Mapping[str, Any]]) -> Disturbance | None:
    """`disturbed` of result.json; None if no block was.

    Parameters: blocks, as `host` of a manifest has them; older ones know no others_share.
    """
    counting = [one for one in blocks if not one.get("spoiled")]
    hit = [one for one in counting if taken_words(*_shares(one))]
    if not hit:
        return None
    stolen, others = zip(*(_shares(one) for one in hit), strict=True)
    return {
        "blocks": len(hit),
        "of": len(counting),
        "others_share": max(others),
        "stolen_share": max(stolen),
    }


def _shares(block: Mapping[str, Any]) -> tuple[float, float]:
    """Stolen, and taken by other work."""
    return block.get("stolen_share") or 0.0, block.get("others_share") or 0.0


def disturbed_words(found: Mapping[str, Any]) -> str:
    """Return a disturbance in a sentence without its full stop."""
    took = " and ".join(taken_words(found["stolen_share"], found["others_share"]))
    return f"disturbed in {found['blocks']} of {found['of']} blocks: {took}"


def taken_share(found: Mapping[str, Any] | None) -> float | None:
    """Return the larger share of the cores that others took; None of a run that was not
    disturbed.
    """
    return max(found["others_share"], found["stolen_share"]) if found else None


def undecided(slo: Mapping[str, Any] | None, reason: str) -> Mapping[str, Any] | None:
    """Return the SLO's part of result.json where the run can say neither yes nor no."""
    if slo is None:
        return None
    arms = {
        arm: {**one, "met": None, "limits": {}, "reasons": [reason]}
        for arm, one in (slo.get("arms") or {}).items()
    }
    return {**slo, "met": None, "arms": arms, "reasons": [reason]}
