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
from experiments.kinds.performability.folder import Run
from experiments.kinds.performability.phases import periods
from experiments.kinds.performability.section import fault_name
from experiments.report.text import percent
from optimizer.reproduce.published import Claim, published

NAME = "performability"  # of the report's data
_GOODPUT_OFF = 0.1  # tolerance of a share that is read off a curve
_PERIODS_MIN = 10
_MIRRORS = -0.5  # highest rank correlation that counts as mirroring

Faults = Sequence[Mapping[str, Any]]


def compare_with_paper(run: Run, faults: Faults) -> dict[str, object] | None:
    """Return the report's Table 2 by fault and arm, and its statements; None if no arm has a
    version of the report.
    """
    versions = run.section.versions
    if not versions:
        return None
    report = published(NAME)
    printed = {
        fault["name"]: {
            "fault_s": entry["fault_s"],
            "failure_s": {arm: entry["failure_s"][version] for arm, version in versions.items()},
        }
        for fault in faults
        if (entry := report["faults"].get(fault["kind"]))
    }
    complete_faults = [fault for fault in faults if _failed_everywhere(fault["arms"], versions)]
    claims = [
        *_goodput(report, versions, complete_faults),
        *_restarts(report, versions, complete_faults),
        *_severity(versions, complete_faults),
        *_latencies(run, versions, complete_faults),
        *fewer_demerits(report, versions, complete_faults),
        *_mirrors(run, versions),
    ]
    return {"source": report["source"], "table_2": printed, "claims": [asdict(c) for c in claims]}


def _failed_everywhere(arms: Mapping[str, Any], versions: Mapping[str, str]) -> bool:
    """Tell whether every arm has requests during the failure; a run that was cut short may not."""
    return all(arm in arms and arms[arm]["failure"]["requests"] for arm in versions)


def _goodput(
    report: Mapping[str, Any], versions: Mapping[str, str], faults: Faults
) -> Iterator[Claim]:
    for fault in faults:
        printed = report["goodput_while_it_lasts"].get(fault["kind"])
        for arm, version in versions.items() if printed else ():
            phases = fault["arms"][arm]["phases"]
            goodput = (phases.get("degraded") or phases["fault"])["goodput"]
            yield Claim(
                printed["place"], f"{fault['name']}, {arm}: requests answered well while it lasts",
                percent(printed[version]), percent(goodput),
                abs(goodput - printed[version]) <= _GOODPUT_OFF,
            )  # fmt: skip


def _restarts(
    report: Mapping[str, Any], versions: Mapping[str, str], faults: Faults
) -> Iterator[Claim]:
    for fault in faults:
        printed = report["faults"].get(fault["kind"])
        if printed is None:
            continue
        needed = {arm: version in printed["restart"] for arm, version in versions.items()}
        arms = {arm: fault["arms"][arm] for arm in versions}
        yield Claim(
            "4.2, Table 2", f"{fault['name']}: all are restarted to recover",
            ", ".join(f"{arm} {'yes' if is_so else 'no'}" for arm, is_so in needed.items()),
            ", ".join(
                f"{arm} {figures['reset']} of {figures['repeats']}" for arm, figures in arms.items()
            ),
            all(
                figures["reset"] == figures["repeats"] * needed[arm]
                for arm, figures in arms.items()
            ),
        )  # fmt: skip


def _severity(versions: Mapping[str, str], faults: Faults) -> Iterator[Claim]:
    arms_by_kind = {fault["kind"]: fault["arms"] for fault in faults}
    arm = next(iter(versions))
    if {"net.link_down", "process.crash"} <= set(arms_by_kind):
        link, crash = (
            arms_by_kind[kind][arm]["failure"]["goodput"]
            for kind in ("net.link_down", "process.crash")
        )
        yield Claim(
            "5.2, Fig. 15", f"{arm}: a link down is worse than a process's crash",
            "much lower throughput", f"goodput {percent(link)}, {percent(crash)}", link < crash,
        )  # fmt: skip


def _latencies(run: Run, versions: Mapping[str, str], faults: Faults) -> Iterator[Claim]:
    ideal_ms = run.ideal.latency_ms
    if ideal_ms is None or not faults:
        return
    late, skewed, cases = 0, 0, [(fault, arm) for fault in faults for arm in versions]
    for fault, arm in cases:
        waited_ms = _waited_ms(run, fault["name"], arm)
        mean_ms = float(waited_ms.mean())
        late += ideal_ms / mean_ms < fault["arms"][arm]["failure"]["goodput"]
        skewed += (percentile(np.sort(waited_ms), 0.5) or 0.0) < mean_ms
    yield Claim(
        "5.3, Fig. 16", "punctuality is lower than goodput", "in all",
        f"in {late} of {len(cases)}", late == len(cases),
    )  # fmt: skip
    yield Claim(
        "5.4, Fig. 17", "the median latency is below the mean", "in most",
        f"in {skewed} of {len(cases)}", 2 * skewed > len(cases),
    )  # fmt: skip


def _waited_ms(run: Run, name: str, arm: str) -> Any:
    """Return the time [ms] that each request took while the failure lasted."""
    blocks = run.blocks_of(arm)
    rows = [block.failing for block in blocks if fault_name(run.faults[block.fault]) == name]
    return pl.concat(rows)["waited_ms"].to_numpy()


def fewer_demerits(
    report: Mapping[str, Any], versions: Mapping[str, str], faults: Faults
) -> Iterator[Claim]:
    arms = {version: arm for arm, version in versions.items()}
    if set(report["versions"]) != set(arms) or not faults:
        return
    perf, ha = (arms[version] for version in report["versions"])
    fewer_count = sum(
        fault["arms"][ha]["cost"]["demerits"]["median"]
        < fault["arms"][perf]["cost"]["demerits"]["median"]
        for fault in faults
    )
    yield Claim(
        "6.1.1, Fig. 19", f"{ha} has fewer demerits than {perf}", "in nearly every comparison",
        f"in {fewer_count} of {len(faults)}", fewer_count >= max(1, len(faults) - 1),
    )  # fmt: skip


def _mirrors(run: Run, versions: Mapping[str, str]) -> Iterator[Claim]:
    """Yield the rank correlation of latency and throughput over the periods of all failures."""
    period_s = run.section.period_s
    for arm in versions:
        arm_periods = [
            periods(block.failing, block.course.start_s, period_s) for block in run.blocks_of(arm)
        ]
        if sum(frame.height for frame in arm_periods) < _PERIODS_MIN:
            continue
        rows = pl.concat(arm_periods)
        share = (rows["ok"] / rows["requests"]).to_numpy()
        rho = float(stats.spearmanr(share, rows["mean_ms"].to_numpy()).statistic)
        yield Claim(
            "4.5, 6.1.1", f"{arm}: latency mirrors throughput", "it does",
            f"rank correlation {rho:.2f} over {rows.height} periods", rho <= _MIRRORS,
        )  # fmt: skip
