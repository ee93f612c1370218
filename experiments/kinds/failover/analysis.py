"""Analysis of the invocations: the fail-overs of each strike, their parts, and bounds.

A fail-over is an invocation that had to be sent again, or was given up, except if the first
server's reply came first. The longest one of each strike and client counts. A strike's fail-over
time is that of its slowest client: strikes are independent, but the clients of one strike are not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from scipy import stats

from core.json_object import JsonObject
from core.runfiles.manifest import manifest_if_any
from core.statistics.percentiles import percentile
from experiments.kinds.failover.availability_gain import gain_basis, gain_of
from experiments.kinds.failover.client import PARTS
from experiments.kinds.failover.measure import (
    HISTORY_FILE,
    INVOCATIONS_FILE,
    STRIKES_FILE,
    BlockRecord,
    FailoverManifest,
    StrikeRecord,
)
from experiments.kinds.failover.section import FailoverSection
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, samples_beyond
from experiments.record.result import Findings, not_measured

QUANTILES = (0.5, 0.9, 0.99, 0.999)
_SERVER_SIDE = ("detected", "removed", "ordered", "ready")


def analyse(folder: Path) -> Findings:
    """Return a row for each arm, fault and number of clients."""
    manifest = cast(FailoverManifest, manifest_if_any(folder))
    section = FailoverSection.model_validate(manifest["spec"]["failover"])
    blocks = manifest.get("blocks") or []
    invocations = pl.read_parquet(folder / INVOCATIONS_FILE)
    strike_records = strikes(folder)
    all_failovers = failovers(invocations, strike_records)
    history = json.loads((folder / HISTORY_FILE).read_text(encoding="utf-8"))
    rows = []
    for arm, fault, clients in _measured_cells(section, blocks):
        cell = [b for b in blocks if (b["arm"], b["fault"], b["clients"]) == (arm, fault, clients)]
        block_numbers = {block["block"] for block in cell}
        cell_failovers = all_failovers.filter(pl.col("block").is_in(block_numbers))
        cell_strikes = [strike for strike in strike_records if strike["block"] in block_numbers]
        rows.append({
            "arm": arm, "fault": fault, "clients": clients,
            **_figures(
                invocations.filter(pl.col("block").is_in(block_numbers)), cell_failovers,
                cell_strikes, history, section,
            ),
            "medians_ms": [
                percentile(_worst_ms(cell_failovers.filter(block=block["block"])), 0.5)
                for block in cell
            ],
            "audit": audit_total(cell),
            "bought": gain_of(
                arm, fault, _worst_ms(cell_failovers) / 1e3,
                server_times_s(cell_strikes, history)["ready"], section, manifest,
            ),
        })  # fmt: skip
    missing = [
        f"{row['arm']}, {row['fault']}: {row['strikes']:,} of {planned_strikes:,} strikes"
        for row in rows
        if row["strikes"] < (planned_strikes := section.strikes * len(row["medians_ms"]))
    ]
    verdicts = not_measured(manifest["verdicts"], missing)
    failover_count, beyond_count, lost_count = (
        sum(row[key] for row in rows) for key in ("failovers", "beyond", "lost")
    )
    summary = (
        f"{beyond_count:,} of {failover_count:,} fail-overs beyond {section.bound_s:g} s, "
        f"{lost_count:,} calls lost"
    )
    body = {"rows": rows, "bound_s": section.bound_s, "planned": gain_basis(section, manifest)}
    return Findings(body, verdicts, found=summary)


def _measured_cells(
    section: FailoverSection, blocks: Sequence[BlockRecord]
) -> list[tuple[str, str, int]]:
    """Return each measured arm, fault and number of clients, in the design's order; the order of
    blocks is random."""
    measured_cells = {(b["arm"], b["fault"], b["clients"]) for b in blocks}
    planned_cells = [
        (arm, fault.name, clients)
        for arm in section.strategies
        for fault, clients in section.cases()
    ]
    return [cell for cell in planned_cells if cell in measured_cells]


def audit_total(cell: Sequence[Mapping[str, Any]]) -> dict[str, int] | None:
    """Return the sum of the audits of a cell's blocks; None if a block has no audit."""
    audits = [block["audit"] for block in cell if block.get("audit") is not None]
    if not audits or len(audits) < len(cell):
        return None
    return {key: sum(audit[key] for audit in audits) for key in audits[0]}


def strikes(folder: Path) -> list[StrikeRecord]:
    records: list[StrikeRecord] = json.loads((folder / STRIKES_FILE).read_text(encoding="utf-8"))
    return sorted(records, key=lambda strike: (strike["block"], strike["asked_s"]))


def failovers(invocations: pl.DataFrame, strike_records: Sequence[StrikeRecord]) -> pl.DataFrame:
    """Return the longest fail-over of each strike and client; `strike` is the index of its record.

    A fail-over belongs to the last strike that was requested before the client knew that there
    would be no reply. A fail-over from before the first strike of its block is left out.
    """
    was_sent_again = (pl.col("sent") != 1) & ~pl.col("needless")
    failed_calls = invocations.filter(was_sent_again | (pl.col("outcome") == "gave_up"))
    parts = [failed_calls.head(0).with_columns(strike=pl.lit(0))]
    for block in dict.fromkeys(strike["block"] for strike in strike_records):
        block_strikes = [
            (index, strike)
            for index, strike in enumerate(strike_records)
            if strike["block"] == block
        ]
        starts = np.array([strike["asked_s"] for _, strike in block_strikes])
        block_calls = failed_calls.filter(block=block)
        noticed_s = (block_calls["start_s"] + block_calls["detection_ms"] / 1e3).to_numpy()
        positions = np.searchsorted(starts, noticed_s, side="right") - 1
        indices = np.array([index for index, _ in block_strikes] or [0])[np.maximum(positions, 0)]
        attributed = block_calls.with_columns(strike=pl.Series(indices, dtype=pl.Int32)).filter(
            positions >= 0
        )
        longest = attributed.sort("latency_ms", descending=True)
        parts.append(longest.unique(["strike", "client"], keep="first", maintain_order=True))
    return pl.concat(parts, how="vertical_relaxed").sort("strike", "client")


def _figures(
    invocations: pl.DataFrame,
    longest_failovers: pl.DataFrame,
    strike_records: Sequence[StrikeRecord],
    history: Sequence[Mapping[str, Any]],
    section: FailoverSection,
) -> JsonObject:
    times = _worst_ms(longest_failovers)
    beyond = int((times > 1e3 * section.bound_s).sum())
    undisturbed = invocations.filter((pl.col("sent") == 1) & (pl.col("outcome") == "ok"))
    return {
        "invocations": invocations.height,
        "strikes": len(strike_records),
        "failovers": len(times),
        "lost": invocations.filter(outcome="gave_up").height,
        "repeated": invocations.filter(pl.col("sent") > 1).height,
        "wrong": invocations.filter(outcome="wrong").height,
        "methods": _methods(invocations),
        "undisturbed_ms": percentile(np.sort(undisturbed["latency_ms"].to_numpy()), 0.5),
        "quantiles_ms": {f"{100 * q:g}": percentile(times, q) for q in QUANTILES},
        "insufficient": [
            f"{100 * q:g}" for q in QUANTILES if samples_beyond(q, len(times)) < SAMPLES_BEYOND_MIN
        ],
        "max_ms": float(times[-1]) if len(times) else None,
        "longest_call_ms": invocations["latency_ms"].max(),
        "jitter_ms": float(times.std(ddof=1)) if len(times) > 1 else None,
        "covered": covered_share(len(times), section.confidence),
        "beyond": beyond,
        "beyond_share_most": share_most(beyond, len(times), section.confidence),
        "parts_ms": {name: _mean(longest_failovers[f"{name}_ms"]) for name in PARTS},
        "lock_ms_max": longest_failovers["lock_ms"].max(),
        "server_side_s": server_side(strike_records, history),
    }


def _methods(invocations: pl.DataFrame) -> dict[str, int]:
    """Return the invocations by method; empty for a run that did not record methods."""
    named = invocations.drop_nulls("method")["method"].value_counts().sort("method")
    return dict(named.iter_rows())


def covered_share(count: int, confidence: float) -> float | None:
    """Return the share of all fail-overs that the largest of `count` bounds with this confidence.

    For any distribution, the largest of n independent samples is above the quantile q with
    probability 1 - q^n; so q = (1 - confidence)^(1/n).
    """
    return (1.0 - confidence) ** (1.0 / count) if count else None


def share_most(beyond: int, count: int, confidence: float) -> float | None:
    """Return the upper limit of the share of fail-overs beyond the bound: Clopper and Pearson's
    one-sided limit.
    """
    if count == 0:
        return None
    if beyond == count:
        return 1.0
    return float(stats.beta.ppf(confidence, beyond + 1, count - beyond))


def server_side(
    strike_records: Sequence[StrikeRecord], history: Sequence[Mapping[str, Any]]
) -> dict[str, float | None]:
    """Return the mean time from a strike to each event of the server side [s]; None if the event
    never came."""
    times_by_event = server_times_s(strike_records, history)
    return {
        event_name: float(np.mean(times)) if times else None
        for event_name, times in times_by_event.items()
    }


def server_times_s(
    strike_records: Sequence[StrikeRecord], history: Sequence[Mapping[str, Any]]
) -> dict[str, list[float]]:
    """Return the times from each strike to the events of the server side [s], if they came."""
    times_by_event: dict[str, list[float]] = {event_name: [] for event_name in _SERVER_SIDE}
    for strike in strike_records:
        server, begin_s = strike["server"], strike["asked_s"]
        next_s = min((later["asked_s"] for later in strike_records if later["server"] == server
                      and later["asked_s"] > begin_s), default=math.inf)  # fmt: skip
        for event_name, times in times_by_event.items():
            after = [event["at"] - begin_s for event in history if event["what"] == event_name
                     and event["server"] == server and begin_s <= event["at"] < next_s]  # fmt: skip
            times += after[:1]
    return times_by_event


def _worst_ms(longest_failovers: pl.DataFrame) -> np.ndarray[Any, Any]:
    """Return the fail-over time of each strike, that of its slowest client, ascending [ms]."""
    worst = longest_failovers.group_by("strike").agg(pl.col("latency_ms").max())["latency_ms"]
    return np.sort(worst.to_numpy())


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None
