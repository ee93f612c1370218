"""Checks that the requested load was sent on time, by workers below their limits.

A generator at its limit measures itself: its queue looks like the server's. Signs of it:

    cpu        a worker took more than 90 % of a core: requests wait for earlier ones
    lag        the p99 of sent - intended is above 1 ms and above 5 % of the median latency
    pace       less than 99 % of the offered rate was reached
    in-flight  more than 1 % was dropped at `max_in_flight`: the server is slow, or the limit low
    lost       a worker died with unreported requests
    pool       no user of a Locust file was free for more than 1 % of the arrivals
    tasks      more than 1 % of a Locust file's tasks raised an exception

`in-flight` is no fault of the generator, but the offered rate did not reach the server, so nothing
can be concluded.

`lag_limit_ms` is the rule for lateness of a block, of a run (`verdicts.py`) and of a capacity's
step. It is at least 1 ms, because 5 % of a fast service's median can be less than the lateness of a
timer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from core.statistics.percentiles import OK, percentile_of

CPU_SHARE_MAX = 0.9
LAG_MS_MIN = 1.0
_LAG_SHARE_MAX = 0.05
SENT_SHARE_MIN = 0.99


@dataclass(frozen=True)
class Saturation:
    """The verdict; `limits` are the names of reached limits, `reasons` are in the same order.

    sent_share: of the offered rate; cpu_share: of the busiest worker, None if it is not known.
    """

    limits: tuple[str, ...]
    reasons: tuple[str, ...]
    sent_share: float
    lag_ms_p99: float | None
    cpu_share: float | None

    @property
    def ok(self) -> bool:
        return not self.limits


def lag_limit_ms(latency_ms: float | None) -> float:
    """Return the largest acceptable p99 of sent - intended for latencies around `latency_ms`.

    `latency_ms` is None if no request was answered.
    """
    return max(LAG_MS_MIN, _LAG_SHARE_MAX * (latency_ms or 0.0))


def saturation(records: pl.DataFrame, workers: Sequence[Mapping[str, Any]]) -> Saturation:
    """Return the verdict on one block, or on one step of one.

    Parameters: records (n,) as in requests.parquet; workers as `LoadHandle.workers`, each with
    `worker`, `cpu_share` (of one core, mean), `planned` and `recorded`; may be empty.
    """
    records = records.filter(pl.col("outcome") != "unreached")  # no time was planned for it
    reached: list[tuple[str, str]] = []
    cpu = {
        worker["worker"]: worker["cpu_share"]
        for worker in workers
        if worker.get("cpu_share") is not None
    }
    reached += [
        (
            "cpu",
            f"load worker {worker} took {share:.0%} of a core, {CPU_SHARE_MAX:.0%} is its limit",
        )
        for worker, share in cpu.items()
        if share > CPU_SHARE_MAX
    ]
    sent = records.filter(~pl.col("outcome").is_in(["dropped", "lost"]))
    lag_ms = percentile_of(sent["lag_ms"], 0.99)
    answered = sent.filter(pl.col("outcome") == OK)
    lag_ms_max = lag_limit_ms(percentile_of(answered["latency_ms"], 0.5))
    if lag_ms is not None and lag_ms > lag_ms_max:
        text = f"requests left late, lag p99 {lag_ms:.2f} ms, {lag_ms_max:.2f} ms is the limit"
        reached.append(("lag", text))
    pace = _pace(records, sent)
    if pace < SENT_SHARE_MIN:
        reached.append(("pace", f"{pace:.1%} of the offered rate was reached"))
    dropped = records.filter(pl.col("outcome") == "dropped").height
    if any(worker.get("tasks") for worker in workers):
        reached += _task_limits(records, workers, dropped)
    elif dropped > (1.0 - SENT_SHARE_MIN) * records.height:
        text = f"{dropped:,} of {records.height:,} requests were dropped at max_in_flight"
        reached.append(("in-flight", text))
    if lost := lost_text(records, workers):
        reached.append(("lost", lost))
    return Saturation(
        limits=tuple(limit for limit, _ in reached),
        reasons=tuple(reason for _, reason in reached),
        sent_share=pace * sent.height / max(1, records.height),
        lag_ms_p99=lag_ms,
        cpu_share=max(cpu.values(), default=None),
    )


def _task_limits(
    records: pl.DataFrame, workers: Sequence[Mapping[str, Any]], dropped: int
) -> list[tuple[str, str]]:
    """Return the limits that users of a Locust file reached."""
    reached = []
    arrivals = records["index"].n_unique()
    if dropped > (1.0 - SENT_SHARE_MIN) * arrivals:
        users = sum(worker["tasks"]["users"] for worker in workers)
        not_started = f"{dropped:,} of {arrivals:,} arrivals were not started"
        text = f"{not_started}: none of {users:,} users was free"
        reached.append(("pool", text))
    planned = sum(worker["planned"] for worker in workers)
    raised = sum(worker["tasks"]["raised"] for worker in workers)
    if raised > (1.0 - SENT_SHARE_MIN) * planned:
        first = next((error for worker in workers for error in worker["tasks"]["errors"]), "")
        reached.append(("tasks", f"{raised:,} of {planned:,} tasks raised: {first}"))
    return reached


def lost_text(records: pl.DataFrame, workers: Sequence[Mapping[str, Any]]) -> str:
    """Return the requests that were lost with each worker, in words; empty if there are none."""
    lost = records.filter(pl.col("outcome") == "lost").height
    if not lost:
        return ""
    lost_workers = [
        str(worker["worker"]) for worker in workers if worker["recorded"] < worker["planned"]
    ]
    return (
        f"{lost:,} of {records.height:,} requests were lost with load worker "
        f"{' and '.join(lost_workers) or 'unknown'}"
    )


def _pace(records: pl.DataFrame, sent: pl.DataFrame) -> float:
    """Return the planned duration of the arrivals over that of sending them; at most 1."""
    if sent.height < 2:
        return 1.0
    begin_s, end_s = _number(records["intended_s"].min()), _number(sent["intended_s"].max())
    last_s = _number((sent["intended_s"] + sent["lag_ms"] / 1e3).max())
    return (end_s - begin_s) / (last_s - begin_s) if last_s > end_s > begin_s else 1.0


def _number(value: Any) -> float:
    return 0.0 if value is None else float(value)
