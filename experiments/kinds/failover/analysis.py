"""Analysis of the invocations: the fail-overs of each strike, their parts, and bounds.

A fail-over is an invocation that had to be sent again, or was given up, except if the first
server's reply came first. The longest one of each strike and client counts. A strike's fail-over
time is that of its slowest client, because the clients of one strike are not independent; strikes
are.
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
from experiments.kinds.failover.availability_gain import bought, planned
from experiments.kinds.failover.client import INVOCATIONS, PARTS
from experiments.kinds.failover.measure import (
    HISTORY_FILE,
    INVOCATIONS_FILE,
    STRIKES_FILE,
    BlockDone,
    FailoverManifest,
    StrikeMade,
)
from experiments.kinds.failover.section import FailoverSection
from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN, samples_beyond
from experiments.record.records import read_table
from experiments.record.result import Findings, not_measured
from experiments.report.text import milliseconds

QUANTILES = (0.5, 0.9, 0.99, 0.999)
_SERVER_SIDE = ("detected", "removed", "ordered", "ready")


def analyse(folder: Path) -> Findings:
    """Return a row for each arm, fault and number of clients."""
    manifest = cast(FailoverManifest, manifest_if_any(folder))
    section = section_of(manifest)
    blocks = manifest.get("blocks") or []
    invocations = read_invocations(folder)
    struck = strikes(folder)
    found = failovers(invocations, struck)
    history = json.loads((folder / HISTORY_FILE).read_text(encoding="utf-8"))
    rows = []
    for arm, fault, clients in _cells(section, blocks):
        cell = [b for b in blocks if (b["arm"], b["fault"], b["clients"]) == (arm, fault, clients)]
        mine = {one["block"] for one in cell}
        own = found.filter(pl.col("block").is_in(mine))
        by_block = [one for one in struck if one["block"] in mine]
        rows.append({
            "arm": arm, "fault": fault, "clients": clients,
            **_figures(
                invocations.filter(pl.col("block").is_in(mine)), own, by_block, history, section
            ),
            "medians_ms": [
                percentile(_worst_ms(own.filter(block=one["block"])), 0.5) for one in cell
            ],
            "audit": audited(cell),
            "bought": bought(
                arm, fault, _worst_ms(own) / 1e3, server_times_s(by_block, history)["ready"],
                section, manifest,
            ),
        })  # fmt: skip
    missing = [
        f"{row['arm']}, {row['fault']}: {row['strikes']} of {asked} strikes"
        for row in rows
        if row["strikes"] < (asked := section.strikes * len(row["medians_ms"]))
    ]
    verdicts = not_measured(manifest["verdicts"], missing)
    said = ", ".join(f"{r['arm']} {milliseconds(r['max_ms'])}" for r in rows)
    body = {"rows": rows, "bound_s": section.bound_s, "planned": planned(section, manifest)}
    return Findings(body, verdicts, found=f"at most: {said}")


def section_of(manifest: Mapping[str, Any]) -> FailoverSection:
    """Return a run's own."""
    return FailoverSection.model_validate(manifest["spec"]["failover"])


def _cells(section: FailoverSection, blocks: Sequence[BlockDone]) -> list[tuple[str, str, int]]:
    """Arm, fault and clients, in the design's order; blocks have one of their own."""
    measured = {(b["arm"], b["fault"], b["clients"]) for b in blocks}
    planned_cells = [
        (arm, fault.name, clients)
        for arm in section.strategies
        for fault, clients in section.cases()
    ]
    return [cell for cell in planned_cells if cell in measured]


def audited(cell: Sequence[Mapping[str, Any]]) -> dict[str, int] | None:
    """Return the audits of a cell's blocks together; None if a block has none."""
    audits = [one["audit"] for one in cell if one.get("audit") is not None]
    if not audits or len(audits) < len(cell):
        return None
    return {key: sum(one[key] for one in audits) for key in audits[0]}


def read_invocations(folder: Path) -> pl.DataFrame:
    """Every invocation of a run."""
    return read_table(folder / INVOCATIONS_FILE, INVOCATIONS)


def strikes(folder: Path) -> list[StrikeMade]:
    """Every strike, in order."""
    found: list[StrikeMade] = json.loads((folder / STRIKES_FILE).read_text(encoding="utf-8"))
    return sorted(found, key=lambda one: (one["block"], one["asked_s"]))


def failovers(invocations: pl.DataFrame, struck: Sequence[StrikeMade]) -> pl.DataFrame:
    """Return the longest fail-over of each strike and client: `strike` is its index in `struck`. It
    is of the last strike that was asked for before the client knew that there would be no reply.
    One from before the first strike of its block is of none.
    """
    is_again = (pl.col("sent") != 1) & ~pl.col("needless")
    again = invocations.filter(is_again | (pl.col("outcome") == "gave_up"))
    parts = [again.head(0).with_columns(strike=pl.lit(0))]
    for block in dict.fromkeys(one["block"] for one in struck):
        own = [(index, one) for index, one in enumerate(struck) if one["block"] == block]
        starts = np.array([one["asked_s"] for _, one in own])
        mine = again.filter(block=block)
        noticed_s = (mine["start_s"] + mine["detection_ms"] / 1e3).to_numpy()
        positions = np.searchsorted(starts, noticed_s, side="right") - 1
        indices = np.array([index for index, _ in own] or [0])[np.maximum(positions, 0)]
        kept = mine.with_columns(strike=pl.Series(indices, dtype=pl.Int32)).filter(positions >= 0)
        longest = kept.sort("latency_ms", descending=True)
        parts.append(longest.unique(["strike", "client"], keep="first", maintain_order=True))
    return pl.concat(parts, how="vertical_relaxed").sort("strike", "client")


def _figures(
    invocations: pl.DataFrame,
    found: pl.DataFrame,
    struck: Sequence[StrikeMade],
    history: Sequence[Mapping[str, Any]],
    section: FailoverSection,
) -> JsonObject:
    times = _worst_ms(found)
    beyond = int((times > 1e3 * section.bound_s).sum())
    undisturbed = invocations.filter((pl.col("sent") == 1) & (pl.col("outcome") == "ok"))
    return {
        "invocations": invocations.height,
        "strikes": len(struck),
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
        "covered": covered(len(times), section.confidence),
        "beyond": beyond,
        "beyond_share_most": share_most(beyond, len(times), section.confidence),
        "parts_ms": {name: _mean(found[f"{name}_ms"]) for name in PARTS},
        "lock_ms_max": found["lock_ms"].max(),
        "server_side_s": server_side(struck, history),
    }


def _methods(invocations: pl.DataFrame) -> dict[str, int]:
    """Invocations by method; none of a run that did not record them."""
    named = invocations.drop_nulls("method")["method"].value_counts().sort("method")
    return dict(named.iter_rows())


def covered(count: int, confidence: float) -> float | None:
    """Return the share of all fail-overs that the largest of `count` bounds with this confidence.

    The largest of n independent samples is above the quantile q with probability 1 - q^n, whatever
    the distribution; so q = (1 - confidence)^(1/n).
    """
    return (1.0 - confidence) ** (1.0 / count) if count else None


def share_most(beyond: int, count: int, confidence: float) -> float | None:
    """Return the most that the share of fail-overs beyond the bound may be: Clopper and Pearson's
    one-sided limit.
    """
    if count == 0:
        return None
    if beyond == count:
        return 1.0
    return float(stats.beta.ppf(confidence, beyond + 1, count - beyond))


def server_side(
    struck: Sequence[StrikeMade], history: Sequence[Mapping[str, Any]]
) -> dict[str, float | None]:
    """Mean time after a strike at which the server side did its part [s]; None if it never
    did."""
    found = server_times_s(struck, history)
    return {what: float(np.mean(times)) if times else None for what, times in found.items()}


def server_times_s(
    struck: Sequence[StrikeMade], history: Sequence[Mapping[str, Any]]
) -> dict[str, list[float]]:
    """Times after each strike at which the server side did its part [s], if it did."""
    found: dict[str, list[float]] = {what: [] for what in _SERVER_SIDE}
    for one in struck:
        next_s = min((two["asked_s"] for two in struck if two["server"] == one["server"]
                      and two["asked_s"] > one["asked_s"]), default=math.inf)  # fmt: skip
        for what, times in found.items():
            after = [event["at"] - one["asked_s"] for event in history if event["what"] == what
                     and event["server"] == one["server"]
                     and one["asked_s"] <= event["at"] < next_s]  # fmt: skip
            times += after[:1]
    return found


def _worst_ms(found: pl.DataFrame) -> np.ndarray[Any, Any]:
    """Return the fail-over time of each strike, that of its slowest client, in order."""
    worst = found.group_by("strike").agg(pl.col("latency_ms").max())["latency_ms"]
    return np.sort(worst.to_numpy())


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None
