"""The report's findings beside a run's: its Table 2, and its text about its figures.

A design assigns arms to the report's versions (`[performability.versions]`). The report's faults
last 30 and 90 s and a run's may be shorter, so failures are compared by their time beyond the
fault. The report's clients record a failed request with its duration, and its statements on
latencies are compared with that. Its figures have no numbers; only its text about them can be
compared with a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from core.statistics.percentiles import percentile
from experiments.kinds.performability.folder import Run, between
from experiments.kinds.performability.phases import periods
from experiments.kinds.performability.section import fault_name
from experiments.report.text import percent
from optimizer.reproduce.published import Claim, published

NAME = "performability"  # of its data
_GOODPUT_OFF = 0.1  # how far a share that is read off a curve may be off
_PERIODS_MIN = 10
_MIRRORS = -0.5  # a rank correlation that is called one

Faults = Sequence[Mapping[str, Any]]


def compare_with_paper(run: Run, faults: Faults) -> dict[str, object] | None:
    """Return the report's Table 2 by fault and arm, and its statements; None if no arm is of it."""
    versions = run.section.versions
    if not versions:
        return None
    said = published(NAME)
    printed = {
        fault["name"]: {
            "fault_s": one["fault_s"],
            "failure_s": {arm: one["failure_s"][version] for arm, version in versions.items()},
        }
        for fault in faults
        if (one := said["faults"].get(fault["kind"]))
    }
    known = [fault for fault in faults if _is_known(fault["arms"], versions)]
    claims = [
        *_goodput(said, versions, known),
        *_restarts(said, versions, known),
        *_severity(versions, known),
        *_latencies(run, versions, known),
        *fewer_demerits(said, versions, known),
        *_mirrors(run, versions),
    ]
    return {"source": said["source"], "table_2": printed, "claims": [asdict(c) for c in claims]}


def _is_known(arms: Mapping[str, Any], versions: Mapping[str, str]) -> bool:
    """True if all of them failed under it; a run that was cut short has less."""
    return all(arm in arms and arms[arm]["failure"]["requests"] for arm in versions)


def _goodput(
    said: Mapping[str, Any], versions: Mapping[str, str], faults: Faults
) -> Iterator[Claim]:
    for fault in faults:
        printed = said["goodput_while_it_lasts"].get(fault["kind"])
        for arm, version in versions.items() if printed else ():
            phases = fault["arms"][arm]["phases"]
            found = (phases.get("degraded") or phases["fault"])["goodput"]
            yield Claim(
                printed["place"], f"{fault['name']}, {arm}: requests answered well while it lasts",
                percent(printed[version]), percent(found),
                abs(found - printed[version]) <= _GOODPUT_OFF,
            )  # fmt: skip


def _restarts(
    said: Mapping[str, Any], versions: Mapping[str, str], faults: Faults
) -> Iterator[Claim]:
    for fault in faults:
        printed = said["faults"].get(fault["kind"])
        if printed is None:
            continue
        needed = {arm: version in printed["restart"] for arm, version in versions.items()}
        found = {arm: fault["arms"][arm] for arm in versions}
        yield Claim(
            "4.2, Table 2", f"{fault['name']}: all are restarted to recover",
            ", ".join(f"{arm} {'yes' if is_so else 'no'}" for arm, is_so in needed.items()),
            ", ".join(f"{arm} {one['reset']} of {one['repeats']}" for arm, one in found.items()),
            all(one["reset"] == one["repeats"] * needed[arm] for arm, one in found.items()),
        )  # fmt: skip


def _severity(versions: Mapping[str, str], faults: Faults) -> Iterator[Claim]:
    of_kind = {fault["kind"]: fault["arms"] for fault in faults}
    arm = next(iter(versions))
    if {"net.link_down", "process.crash"} <= set(of_kind):
        link, crash = (
            of_kind[kind][arm]["failure"]["goodput"] for kind in ("net.link_down", "process.crash")
        )
        yield Claim(
            "5.2, Fig. 15", f"{arm}: a link down is worse than a process's crash",
            "much lower throughput", f"goodput {percent(link)}, {percent(crash)}", link < crash,
        )  # fmt: skip


def _latencies(run: Run, versions: Mapping[str, str], faults: Faults) -> Iterator[Claim]:
    ideal_ms = run.ideal.latency_ms
    if ideal_ms is None or not faults:
        return
    late, skewed, found = 0, 0, [(fault, arm) for fault in faults for arm in versions]
    for fault, arm in found:
        waited_ms = _waited_ms(run, fault["name"], arm)
        mean_ms = float(waited_ms.mean())
        late += ideal_ms / mean_ms < fault["arms"][arm]["failure"]["goodput"]
        skewed += (percentile(np.sort(waited_ms), 0.5) or 0.0) < mean_ms
    yield Claim(
        "5.3, Fig. 16", "punctuality is lower than goodput", "in all",
        f"in {late} of {len(found)}", late == len(found),
    )  # fmt: skip
    yield Claim(
        "5.4, Fig. 17", "the median latency is below the mean", "in most",
        f"in {skewed} of {len(found)}", 2 * skewed > len(found),
    )  # fmt: skip


def _waited_ms(run: Run, name: str, arm: str) -> Any:
    """Time [ms] that each request took while the failure lasted."""
    blocks = [
        one for one in run.blocks if one.arm == arm and fault_name(run.faults[one.fault]) == name
    ]
    rows = pl.concat([between(one.requests, *one.course.failure) for one in blocks])
    return rows["waited_ms"].to_numpy()


def fewer_demerits(
    said: Mapping[str, Any], versions: Mapping[str, str], faults: Faults
) -> Iterator[Claim]:
    arms = {version: arm for arm, version in versions.items()}
    if set(said["versions"]) != set(arms) or not faults:
        return
    perf, ha = (arms[version] for version in said["versions"])
    fewer = sum(
        fault["arms"][ha]["cost"]["demerits"]["median"]
        < fault["arms"][perf]["cost"]["demerits"]["median"]
        for fault in faults
    )
    yield Claim(
        "6.1.1, Fig. 19", f"{ha} has fewer demerits than {perf}", "in nearly every comparison",
        f"in {fewer} of {len(faults)}", fewer >= max(1, len(faults) - 1),
    )  # fmt: skip


def _mirrors(run: Run, versions: Mapping[str, str]) -> Iterator[Claim]:
    """Rank correlation, period by period, over all failures."""
    period_s = run.section.period_s
    for arm in versions:
        found = [
            periods(between(one.requests, *one.course.failure), one.course.start_s, period_s)
            for one in run.blocks
            if one.arm == arm
        ]
        if sum(frame.height for frame in found) < _PERIODS_MIN:
            continue
        rows = pl.concat(found)
        share = (rows["ok"] / rows["requests"]).to_numpy()
        rho = float(stats.spearmanr(share, rows["mean_ms"].to_numpy()).statistic)
        yield Claim(
            "4.5, 6.1.1", f"{arm}: latency mirrors throughput", "it does",
            f"rank correlation {rho:.2f} over {rows.height} periods", rho <= _MIRRORS,
        )  # fmt: skip
