"""A result folder that looks like a real one, from a small queue simulation. For tests only.

Four web servers, one queue each (first come, first served), slowed by bursts of interference and by
a limping network card; `baseline` sends each page to the next server in turn, `replicated` to two
of them, and the first reply wins. Both arms see the same arrivals. Nothing here measures anything:
it exists so that metrics and report have every file, with plausible shapes and known truth.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from core.runfiles.events import Dose
from experiments.record.metrics.summary import summarize, summarize_run
from experiments.record.records import ARBITERS, HOSTS, REQUESTS, EventLog, write_json, write_table
from experiments.record.result import flat, result_of
from experiments.tests.manifest_fixture import VERDICTS
from optimizer.tests.synthetic import DB, WEB, arms, machines, tiers

T0 = datetime(2026, 11, 20, 9, 30, 0, tzinfo=UTC)
TIME_OUT_MS = 6000.0
_GAP_S = 4.0


@dataclass
class FakeRun:
    """Everything that a run's files hold, ready to be written."""

    requests: pl.DataFrame
    events: list[dict[str, Any]]
    manifest: dict[str, Any]
    arbiters: pl.DataFrame
    hosts: pl.DataFrame
    plan: dict[str, Any] = field(default_factory=dict)
    prediction: dict[str, Any] = field(default_factory=dict)

    def summary(self, **changes: Any) -> dict[str, Any]:
        """The result, head and body in one; `changes` take the place of the run's own parts."""
        parts = {
            "requests": self.requests, "events": self.events, "manifest": self.manifest,
            "plan": self.plan, "arbiters": self.arbiters, "hosts": self.hosts, **changes,
        }  # fmt: skip
        return flat(result_of("compare", parts["manifest"], summarize(**parts)))

    def write(self, folder: Path) -> Path:
        """Write all files of the folder, result.json included, but no report."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "manifest.json", self.manifest)
        write_table(folder / "requests.parquet", self.requests, REQUESTS)
        write_table(folder / "arbiters.parquet", self.arbiters, ARBITERS)
        write_table(folder / "hosts.parquet", self.hosts, HOSTS)
        (folder / "events.jsonl").unlink(missing_ok=True)  # the log appends
        log = EventLog(folder / "events.jsonl")
        for event in self.events:
            log.append(event)
        log.close()
        if self.plan:
            write_json(folder / "plan.json", self.plan)
        if self.prediction:
            write_json(folder / "predicted.json", self.prediction)
        findings = summarize_run(folder)
        write_json(folder / "result.json", result_of("compare", self.manifest, findings))
        return folder


def fake_run(
    *,
    seed: int = 20260101,
    rate_per_s: float = 8.0,
    warm_up_s: float = 10.0,
    measure_s: float = 60.0,
    order: str = "ABBA",
    fault: bool = True,
    title: str = "mediawiki-noisy",
) -> FakeRun:
    """Simulate a run. Same seed, same run."""
    run = _simulated(seed, rate_per_s, warm_up_s, measure_s, order, fault, title)
    return copy.deepcopy(run)


@cache
def _simulated(
    seed: int, rate_per_s: float, warm_up_s: float, measure_s: float, order: str, fault: bool,
    title: str,
) -> FakeRun:  # fmt: skip
    rng = np.random.default_rng(seed)
    block_s = warm_up_s + measure_s
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    slow: list[tuple[str, float, float, float]] = []
    for repeat, letter in enumerate(order):
        arm = "baseline" if letter == "A" else "replicated"
        start_s = 5.0 + repeat * (block_s + _GAP_S)
        pair = repeat // 2
        events += _block_events(arm, repeat, start_s, warm_up_s, block_s)
        slow += _disturb(np.random.default_rng((seed, pair)), arm, repeat, start_s, block_s, events)
        if fault:
            slow.append(_limp(arm, repeat, start_s + warm_up_s + 30.0, events))
        schedule = np.random.default_rng((seed, pair, 1))
        count = schedule.poisson(rate_per_s * block_s)
        arrivals = np.sort(schedule.uniform(0.0, block_s, count))
        rows += _serve(rng, arm, repeat, pair, start_s, arrivals, warm_up_s, slow)
    end_s = 5.0 + len(order) * (block_s + _GAP_S)
    events.sort(key=lambda event: float(event["time_s"]))
    requests = pl.DataFrame(rows, schema=REQUESTS)
    return FakeRun(
        requests=requests,
        events=events,
        manifest=_manifest(seed, title, rate_per_s, warm_up_s, measure_s, order, end_s),
        arbiters=_arbiters(rng, requests, slow, end_s),
        hosts=_hosts(rng, slow, end_s),
        plan=example_plan(),
    )


def example_plan() -> dict[str, Any]:
    """A plan as the optimizer writes it."""
    tier = {"instance_type": "t3.small", "nodes": 4, "spares": 1, "mechanism": "pf", "replicas": 2,
            "tokens": 1, "utilisation": 0.41, "availability": 0.9999962, "needed": 3,
            "usd_per_month": 75.92, "collision": 0.33}  # fmt: skip
    return {
        "schema": 1, "feasible": True, "usd_per_month": 106.29, "scheme": "on-prem",
        "region": "on-prem", "prices_as_of": "2026-05-04",
        "tiers": {"web": tier, "db": {**tier, "nodes": 2, "spares": 0, "replicas": 1,
                                      "tokens": 12, "usd_per_month": 30.37}},
        "predicted": {"availability": 0.9999931, "p95_ms": 231.0, "p99_ms": 874.0},
        "binding": ["latency: without it 25.00 USD a month less"],
        "assumptions": ["crash rate 1 per node and year: a default, not measured"],
        "insufficient": ["arm replicated: p99 from 960 requests, 1,000 needed for 10 beyond it"],
        "reasons": [],
        "pareto": [
            _front("availability", 0.999, [(0.9991, 0.999, 106.29), (0.99995, 0.9995, 140.0)]),
            _front("p99_ms", 1000.0, [(874.0, 1100.0, 106.29), (610.0, 700.0, 151.83)]),
        ],
    }  # fmt: skip


def _front(
    limit: str, limit_value: float, points: Sequence[tuple[float, float, float]]
) -> dict[str, Any]:
    """A front as `sparecraft plan --pareto` has it: what is reached, from which limit, for what."""
    return {
        "limit": limit, "asked": limit_value, "complete": True, "cut": None,
        "points": [
            {limit: reached, "same_cost_from": loose, "nines": 3.2, "usd_per_month": usd,
             "fleet": "web 4 + 1, db 2", "predicted": {}, "chosen": usd == 106.29,
             "next_is_adjacent": True}
            for reached, loose, usd in points
        ],
    }  # fmt: skip


def event(time_s: float, what: str, kind: str, action: str, **more: Any) -> dict[str, Any]:
    line = {
            "time_s": round(time_s, 3), "wall": (T0 + timedelta(seconds=time_s)).isoformat(),
            "what": what, "kind": kind, "machine": "", "arm": "", "repeat": None,
            "action": action, "id": "", "parameters": {}, "duration_s": None,
            "text": "", "asked_s": None, "dose": None}  # fmt: skip
    return {**line, **more}


def dose(
    asked: float | None, measured: float | None, bit: bool | None, unit: str, seconds: float = 5.0
) -> Dose:
    return {"asked": asked, "measured": measured, "unit": unit, "how": "by the kernel's counters",
            "bit": bit, "samples": 6, "seconds": seconds, "problem": None}  # fmt: skip


def _block_events(
    arm: str, repeat: int, start_s: float, warm_up_s: float, block_s: float
) -> list[dict[str, Any]]:
    tags: dict[str, Any] = {"arm": arm, "repeat": repeat}
    switch_s, end_s = start_s + warm_up_s, start_s + block_s
    return [
        event(start_s, "arm", arm, "start", **tags),
        event(start_s, "phase", "warm-up", "start", **tags),
        event(switch_s, "phase", "warm-up", "end", **tags),
        event(switch_s, "phase", "measure", "start", **tags),
        event(end_s, "phase", "measure", "end", **tags),
        event(end_s, "arm", arm, "end", **tags),
    ]


def _disturb(
    rng: np.random.Generator,
    arm: str,
    repeat: int,
    start_s: float,
    block_s: float,
    events: list[dict[str, Any]],
) -> list[tuple[str, float, float, float]]:
    """Poisson gaps and exponential runs on every machine; returns (machine, start, end, factor)."""
    slow = []
    for machine in WEB + DB:
        at_s = float(rng.exponential(40.0))
        while at_s < block_s:
            end_s = min(block_s, at_s + float(rng.exponential(10.0)))
            kind = "interference.cpu" if rng.random() < 0.6 else "interference.iperf"
            tags: dict[str, Any] = {"machine": machine, "arm": arm, "repeat": repeat,
                                    "id": f"{machine}-{repeat}-{at_s:.0f}"}  # fmt: skip
            events.append(event(start_s + at_s, "interference", kind, "inject", **tags))
            lasted_s = end_s - at_s
            dose_json = dose(0.4, 0.21, lasted_s > 0.25 or None, "cores", lasted_s)
            if kind != "interference.cpu":
                dose_json = dose(100.0, 99.2, lasted_s > 0.25 or None, "Mbit/s", lasted_s)
            events.append(
                event(start_s + end_s, "interference", kind, "revert", dose=dose_json, **tags)
            )
            slow.append((machine, start_s + at_s, start_s + end_s, 6.0 if machine in WEB else 2.0))
            at_s = end_s + float(rng.exponential(40.0))
    return slow


def _limp(
    arm: str, repeat: int, at_s: float, events: list[dict[str, Any]]
) -> tuple[str, float, float, float]:
    tags: dict[str, Any] = {"machine": "web-2", "arm": arm, "repeat": repeat}
    tags |= {"id": f"limp-{repeat}", "parameters": {"factor": 100}}
    events.append(event(at_s, "fault", "net.limp", "inject", duration_s=10.0, **tags))
    dose_json = dose(2.0, 2.01, True, "Mbit/s", 9.25)
    events.append(event(at_s + 10.0, "fault", "net.limp", "revert", dose=dose_json, **tags))
    return ("web-2", at_s, at_s + 10.0, 25.0)


def _slowness(machine: str, at_s: float, slow: Sequence[tuple[str, float, float, float]]) -> float:
    factors = [f for name, start, end, f in slow if name == machine and start <= at_s < end]
    tier_db = [f for name, start, end, f in slow if name in DB and start <= at_s < end]
    return max([1.0, *factors]) * (1.25 if tier_db else 1.0)


def _serve(
    rng: np.random.Generator,
    arm: str,
    repeat: int,
    pair: int,
    start_s: float,
    arrivals: np.ndarray[Any, np.dtype[np.float64]],
    warm_up_s: float,
    slow: Sequence[tuple[str, float, float, float]],
) -> list[dict[str, Any]]:
    """Push one block's arrivals through the queues."""
    free_s = dict.fromkeys(WEB, 0.0)
    copies = 1 if arm == "baseline" else 2
    rows = []
    for index, offset_s in enumerate(arrivals):
        intended_s = start_s + float(offset_s)
        if copies == 1:
            chosen = [WEB[index % len(WEB)]]
        else:
            chosen = sorted(WEB, key=lambda name: free_s[name])[:copies]
        work_s = 0.055 * float(rng.lognormal(0.0, 0.45))
        starts = {name: max(intended_s, free_s[name]) for name in chosen}
        ends = {
            name: begin + work_s * _slowness(name, begin, slow) * float(rng.lognormal(0.0, 0.15))
            for name, begin in starts.items()
        }
        done_s = min(ends.values())
        for name in chosen:
            free_s[name] = min(ends[name], max(done_s, starts[name]), intended_s + 6.0)
        rows.append(_row(rng, arm, repeat, pair, index, intended_s, done_s, offset_s < warm_up_s))
    return rows


def _row(
    rng: np.random.Generator,
    arm: str,
    repeat: int,
    pair: int,
    index: int,
    intended_s: float,
    done_s: float,
    warm_up: bool,
) -> dict[str, Any]:
    lag_ms = float(rng.exponential(0.25))
    latency_ms = (done_s - intended_s) * 1000.0 + lag_ms
    outcome, status = "ok", 200
    if latency_ms >= TIME_OUT_MS:
        latency_ms, outcome, status = TIME_OUT_MS, "time_out", 0
    elif rng.random() < 0.001:
        latency_ms, outcome, status = 1.5 + lag_ms, "connection_error", 0
    return {"arm": arm, "repeat": repeat, "pair": pair,
            "phase": "warm-up" if warm_up else "measure", "index": index, "user": "wiki-reader",
            "name": f"Page {index % 97}", "intended_s": intended_s,
            "sent_s": intended_s + lag_ms / 1000.0, "done_s": intended_s + latency_ms / 1000.0,
            "latency_ms": latency_ms, "lag_ms": lag_ms, "outcome": outcome, "status": status,
            "bytes": 18200 if outcome == "ok" else 0}  # fmt: skip


def _arbiters(
    rng: np.random.Generator,
    requests: pl.DataFrame,
    slow: Sequence[tuple[str, float, float, float]],
    end_s: float,
) -> pl.DataFrame:
    """Polls of both arbiters, once a second, counters cumulative as `/v1/stats` gives them."""
    at_s = np.sort(requests["intended_s"].to_numpy())
    replicated_s = np.sort(requests.filter(pl.col("arm") == "replicated")["intended_s"].to_numpy())
    rows: list[dict[str, Any]] = []
    for tier, servers, calls in (("web", WEB, 1), ("db", DB, 20)):
        sums = dict.fromkeys(servers, 0)
        counts = dict.fromkeys(servers, 0)
        for second in range(int(end_s)):
            received = int(np.searchsorted(at_s, second)) * calls
            extra = int(np.searchsorted(replicated_s, second)) * calls
            busy = np.searchsorted(at_s, second) - np.searchsorted(at_s, second - 1)
            for server in servers:
                answered = int(rng.poisson(busy * calls / len(servers)))
                mean_us = 55_000 / calls * _slowness(server, second, slow) * rng.lognormal(0, 0.1)
                sums[server] += int(answered * mean_us)
                counts[server] += answered
                rows.append({
                    "time_s": float(second), "tier": tier, "policy": "tad", "replicas": 2,
                    "server": server, "alive": True, "requests": counts[server],
                    "wins": counts[server], "errors": 0, "in_flight": answered % 3,
                    "tokens_free": 1, "last_latency_us": int(mean_us),
                    "latency_us_sum": sums[server], "latency_count": counts[server],
                    "received": received, "answered": received,
                    "replicas_sent": received + extra, "replicas_wasted": extra // 2,
                    "wasted_us": extra * 20_000, "tokens_total": len(servers),
                    "tokens_in_use": 1, "client_accepted": 1, "token_wait_us_total": 0,
                })  # fmt: skip
    return pl.DataFrame(rows, schema=ARBITERS)


def _hosts(
    rng: np.random.Generator, slow: Sequence[tuple[str, float, float, float]], end_s: float
) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for machine in (*WEB, *DB, "arbiter-web", "arbiter-db"):
        tier = machine.removeprefix("arbiter-").split("-")[0]
        for second in range(int(end_s)):
            hit = any(n == machine and start <= second < end for n, start, end, _ in slow)
            cpu = 96.0 if hit else 14.0 if machine.startswith("arbiter") else 38.0
            rows.append({
                "time_s": float(second), "machine": machine, "tier": tier,
                "role": "arbiter" if machine.startswith("arbiter") else "mediawiki",
                "cpu_percent": float(np.clip(cpu + rng.normal(0, 5), 0, 100)),
                "cpu_cores": cpu / 100 * 0.6, "memory_mb": 210.0, "net_rx_mbps": 1.2,
                "net_tx_mbps": 3.4, "disk_read_mbps": 0.0, "disk_write_mbps": 0.1,
                "throttled_percent": 60.0 if hit else 2.0, "faults_active": int(hit),
            })  # fmt: skip
    return pl.DataFrame(rows, schema=HOSTS)


def _manifest(
    seed: int,
    title: str,
    rate_per_s: float,
    warm_up_s: float,
    measure_s: float,
    order: str,
    end_s: float,
) -> dict[str, Any]:
    verdicts = copy.deepcopy(VERDICTS)
    return {
        "schema": 1, "experiment": title, "run": "20261120T093000Z", "platform": "local",
        "started_at": T0.isoformat(), "ended_at": (T0 + timedelta(seconds=end_s)).isoformat(),
        "seed": seed, "command": ["sparecraft", "run", title],
        "versions": {"sparecraft": "0.1.0", "python": "3.11.2", "terraform": "1.9.8",
                     "docker": "20.10.24", "commit": "3f2a91c"},
        "spec": _spec(seed, rate_per_s, warm_up_s, measure_s, order),
        "fleet": {"machines": machines()},
        "host": {"cpu": "Example CPU", "cores": 2, "memory_gb": 7.8, "kernel": "6.1.0",
                 "blocks": [
                     {"repeat": repeat, "arm": {"A": "baseline", "B": "replicated"}[letter],
                      "busy_share": 0.6 + 0.1 * repeat, "stolen_share": 0.002,
                      "others_share": 0.05,
                      "core_speed": 20.0 - repeat}
                     for repeat, letter in enumerate(order)
                 ]},
        "load": {"blocks": [
            {"repeat": repeat, "arm": {"A": "baseline", "B": "replicated"}[letter],
             "workers": [{"worker": worker, "host": "example", "priority": "SCHED_RR 1",
                          "planned": 1, "recorded": 1, "cpu_share": 0.05 + 0.01 * worker,
                          "cpu_share_max": 0.1} for worker in range(2)]}
            for repeat, letter in enumerate(order)
        ]},
        "verdicts": verdicts,
        "setup_s": {"up": 21.4, "ready": 17.9, "warm_up": warm_up_s},
        "telemetry": {"in_influxdb": 48210},
        "fingerprint_clean": True,
    }  # fmt: skip


def _spec(
    seed: int, rate_per_s: float, warm_up_s: float, measure_s: float, order: str
) -> dict[str, Any]:
    return {
        "load": {"user": "wiki-reader", "arrivals": "poisson", "rate_per_s": rate_per_s,
                 "connect_timeout_s": 2.0, "response_timeout_s": 6.0, "max_in_flight": 200},
        "phases": {"warm_up": warm_up_s, "measure": measure_s},
        "interference": {"pattern": "both", "kinds": ["cpu", "iperf"], "mean_gap_s": 40.0,
                         "mean_run_s": 10.0, "cpu_workers": 4, "iperf_mbps": 100.0},
        "faults": [{"kind": "net.limp", "select": {"tier": "web", "count": 1}, "at_s": 30.0,
                    "for_s": 10.0, "parameters": {"factor": 100}}],
        "arms": arms(),
        "slo": {"availability": 0.999, "p95_ms": 500.0, "p99_ms": 1000.0,
                "max_error_share": 0.05, "preregistered": False},
        "fleet": {"scheme": "on-prem", "tiers": tiers(0.4)},
        "design": {"order": order, "repeats": 1, "seed": seed},
    }  # fmt: skip
