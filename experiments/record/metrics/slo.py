"""Verdict of an SLO for an arm: met, missed or undecided, by the share of requests beyond each
limit.

An SLO of p95 <= 600 ms allows 5 % of the requests to take longer or to fail. The measurement is a
sample, in a few blocks and with bursts of slow requests, so the share has an interval
(`core.statistics.shares`). A limit is met if the whole interval is allowed, missed if none of it
is, and otherwise undecided: more blocks decide it. A limit of one operation, or of sessions, is
judged by the same rule and its own requests, and is a limit of the whole. The interval's confidence
is 90 %, so either answer is wrong in at most one of twenty runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from core.statistics.percentiles import OK
from core.statistics.shares import effect, share_interval, slowest
from experiments.record.metrics.bootstrap import STRETCHES_MIN
from experiments.record.metrics.frames import ALLOWED
from experiments.record.metrics.sessions import whole_sessions

CONFIDENCE = 0.90


class Share(TypedDict):
    """Requests beyond a limit, with the interval of their share."""

    share: float
    low: float
    high: float
    allowed: float
    requests: int


Judgement = tuple[str, bool | None, Share, str]  # limit, met, share, reason


class ArmSlo(TypedDict):
    """An arm's verdict, or that of one operation: each limit with its share, and reasons."""

    met: bool | None
    limits: dict[str, bool | None]
    shares: dict[str, Share]
    reasons: list[str]
    operations: NotRequired[dict[str, ArmSlo]]
    sessions: NotRequired[dict[str, ArmSlo]]


class SloVerdict(TypedDict):
    """All arms' verdicts; `met` is that of the last arm, None if it is undecided."""

    asked: Mapping[str, Any]
    arm: str | None
    arms: dict[str, ArmSlo]
    met: bool | None
    reasons: list[str]


def slo_verdict(
    requests: pl.DataFrame,
    arms: Sequence[str],
    slo: Mapping[str, Any] | None,
    *,
    block_s: float,
    level: float = 1.0 - CONFIDENCE,
) -> SloVerdict:
    """Judge the SLO of each arm.

    A failed request counts as slower than any limit. Availability is a property of years: the plan
    answers it, not this run.

    Parameters: requests without the warm-up; slo, the design's limits; block_s float [s], about the
    length of a disturbance; level, 1 - the intervals' confidence, of the look that ended the run
    if there were looks.
    """
    verdicts: dict[str, ArmSlo] = {}
    for arm in arms if slo else ():
        arm_requests = requests.filter(pl.col("arm") == arm)
        parts = list(_parts(arm_requests, slo or {}))
        verdicts[arm] = _merge_parts(
            _arm_slo(arm_requests, slo or {}, block_s, level),
            {
                (table, name): _arm_slo(rows, limits, block_s, level)
                for table, name, rows, limits in parts
            },
        )
    last_arm = next(reversed(verdicts), None)
    return {
        "asked": dict(slo or {}),
        "arm": last_arm,
        "arms": verdicts,
        "met": verdicts[last_arm]["met"] if last_arm else None,
        "reasons": verdicts[last_arm]["reasons"] if last_arm else ["the design asks for no SLO"],
    }


def _arm_slo(
    requests: pl.DataFrame, slo: Mapping[str, Any], block_s: float, level: float
) -> ArmSlo:
    """Judge one arm: each limit by itself with its share, and the reasons against it."""
    if not requests.height:
        return {"met": None, "limits": {}, "shares": {}, "reasons": ["no request was measured"]}
    judgements = list(_judge_limits(requests, slo, block_s, level))
    limits = {name: met for name, met, _, _ in judgements}
    met = False if False in limits.values() else None if None in limits.values() else True
    return {
        "met": met,
        "limits": limits,
        "shares": {name: share for name, _, share, _ in judgements},
        "reasons": [reason for _, answer, _, reason in judgements if answer is not True],
    }


def _parts(
    requests: pl.DataFrame, slo: Mapping[str, Any]
) -> Iterator[tuple[str, str, pl.DataFrame, Mapping[str, Any]]]:
    """Yield the limits of operations and sessions, each with its requests."""
    for name, limits in (slo.get("operations") or {}).items():
        yield "operations", name, requests.filter(pl.col("name") == name), limits
    if slo.get("sessions"):
        sessions = whole_sessions(requests)
        for name, limits in slo["sessions"].items():
            yield "sessions", name, sessions.filter(pl.col("name") == name), limits


def _merge_parts(arm_verdict: ArmSlo, parts: Mapping[tuple[str, str], ArmSlo]) -> ArmSlo:
    """Return the arm's verdict, combined with those of its parts."""
    if not parts:
        return arm_verdict
    answers = [arm_verdict["met"], *(part["met"] for part in parts.values())]
    operations, sessions = (
        {name: part for (part_table, name), part in parts.items() if part_table == table}
        for table in ("operations", "sessions")
    )
    return {
        **arm_verdict,
        "met": False if False in answers else None if None in answers else True,
        "reasons": [
            *arm_verdict["reasons"],
            *(
                f"{name}: {reason}"
                for (_, name), part in parts.items()
                for reason in part["reasons"]
            ),
        ],
        "operations": operations,
        "sessions": sessions,
    }


def _judge_limits(
    requests: pl.DataFrame, slo: Mapping[str, Any], block_s: float, level: float
) -> Iterator[Judgement]:
    position = block_positions(requests, block_s)
    latency_ms = requests["latency_ms"].to_numpy()
    failed = (requests["outcome"] != OK).to_numpy()
    for name, allowed in ALLOWED.items():
        if slo.get(name) is not None:
            limit_ms = float(slo[name])
            beyond = failed | (latency_ms > limit_ms)
            effects = [effect(flags, *position) for flags in (beyond, slowest(latency_ms, allowed))]
            interval = share_interval(int(beyond.sum()), beyond.size, effects, 1.0 - level)
            failure = f"took longer than {limit_ms:,g} ms or failed"
            yield _judge(name, beyond, interval, allowed, failure)
    if slo.get("max_error_share") is not None:
        allowed = float(slo["max_error_share"])
        interval = share_interval(
            int(failed.sum()), failed.size, [effect(failed, *position)], 1.0 - level
        )
        if allowed == 0.0:  # no sample is large enough to prove none: the observation decides
            interval = (float(failed.any()), float(failed.any()))
        yield _judge("max_error_share", failed, interval, allowed, "failed")


def _judge(
    name: str,
    beyond: NDArray[np.bool_],
    interval: tuple[float, float],
    allowed: float,
    failure: str,
) -> Judgement:
    low, high = interval
    met = True if high <= allowed else False if low > allowed else None
    hits, size = int(beyond.sum()), beyond.size
    share: Share = {
        "share": hits / size,
        "low": low,
        "high": high,
        "allowed": allowed,
        "requests": size,
    }
    label = f"{name.removesuffix('_ms')}: " if name in ALLOWED else ""
    low_text = f"{100 * low:.2g}" if low >= 0.0005 else "0"  # a beta's bound comes close to it
    text = (
        f"{label}{hits:,} of {size:,} requests ({100 * hits / size:.3g} %, interval {low_text} to "
        f"{100 * high:.2g} %) {failure}, {100 * allowed:g} % allowed"
    )
    return name, met, share, text if met is not None else f"{text}: undecided"


def block_positions(
    requests: pl.DataFrame, block_s: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the block and the stretch of time of each request, numbered from 0.

    Parameters: requests (n,) of one arm, with repeat and intended_s; block_s float [s].
    """
    begun_s = pl.col("intended_s") - pl.col("intended_s").min().over("repeat")
    frame = requests.select("repeat", begun_s=begun_s).with_columns(
        length_s=pl.col("begun_s").max().over("repeat")
    )
    stretch_s = np.maximum(np.minimum(block_s, frame["length_s"].to_numpy() / STRETCHES_MIN), 1e-3)
    stretch_of_block = np.floor(frame["begun_s"].to_numpy() / stretch_s)
    _, block = np.unique(frame["repeat"].to_numpy(), return_inverse=True)
    pairs = np.stack([block.astype(np.float64), stretch_of_block], axis=1)
    _, stretch = np.unique(pairs, axis=0, return_inverse=True)
    return block.astype(np.int64), stretch.ravel().astype(np.int64)
