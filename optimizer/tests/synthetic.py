"""A results folder with a known truth: two tiers without queueing, drawn from a seed.

A page takes exponential work on a web server (mean `web_s`), then `queries` database queries in a
row (mean `db_s` each). A disturbed server is 1 / gamma slower for as long as a copy's start falls
in a neighbour's run; CPU used is the work, whatever the speed, plus a hog's during the run. The
counters, polls and columns are those of a real run.

Machines, tiers and arms are those of the run that pages are made of, too
(`experiments/tests/report_fixture.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from optimizer.availability import FailureRates
from optimizer.latency import TierLatency, zero_load_s
from optimizer.plan.inputs.case import Case, Slo
from optimizer.plan.solve.model import solve
from optimizer.plan.solve.options import Limits, TierDemand
from optimizer.prices import Instance, PriceBook

WEB, DB = ("web-1", "web-2", "web-3", "web-4"), ("db-1", "db-2", "db-3")
TIERS: dict[str, dict[str, Any]] = {
    "web": {"role": "mediawiki", "calls": ["db"], "nodes": len(WEB)},
    "db": {"role": "mariadb", "calls": [], "nodes": len(DB)},
}
_TAD = {"policy": "tad", "replicas": 2}
ARMS: dict[str, dict[str, dict[str, Any]]] = {
    "baseline": {tier: {"policy": "round-robin", "replicas": 1} for tier in ("web", "db")},
    "replicated": {"web": {**_TAD, "tokens": 1}, "db": {**_TAD, "tokens": 12}},
}


@dataclass(frozen=True)
class Truth:
    """The values that the fit has to find."""

    pages_per_s: float = 12.0
    web_s: float = 0.050
    db_s: float = 0.004
    queries: int = 16
    gamma: float = 0.4
    gap_s: float = 20.0
    run_s: float = 10.0
    block_s: float = 120.0
    idle_cores: float = 0.0
    seed: int = 7
    slo: dict[str, float] = field(
        default_factory=lambda: {"availability": 0.999, "p95_ms": 500.0, "p99_ms": 1000.0}
    )

    @property
    def share(self) -> float:
        return self.run_s / (self.run_s + self.gap_s)


class _Server:
    """Counters of one server: increments at moments, read as cumulative sums at the polls."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.done: list[tuple[float, float]] = []  # when, latency
        self.work: list[tuple[float, float]] = []  # when, CPU seconds


def write_run(folder: Path, truth: Truth) -> Path:
    """Write all files of the run into the folder; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(truth.seed)
    sequence = ("baseline", "replicated", "replicated", "baseline")
    end_s = len(sequence) * (truth.block_s + 10.0) + 10.0
    runs = {m: _runs(rng, truth, end_s) for m in (*WEB, *DB)}
    servers = {m: _Server() for m in (*WEB, *DB)}
    holds: dict[str, list[tuple[float, float]]] = {"web": [], "db": []}
    received: dict[str, list[float]] = {"web": [], "db": []}
    accepted: list[float] = []
    rows: list[dict[str, Any]] = []
    spans = []
    for block, arm in enumerate(sequence):
        start_s = 5.0 + block * (truth.block_s + 10.0)
        spans.append((start_s - 2.0, arm))
        count = rng.poisson(truth.pages_per_s * truth.block_s)
        arrivals = np.sort(rng.uniform(start_s, start_s + truth.block_s, count))
        r = {tier: settings["replicas"] for tier, settings in ARMS[arm].items()}
        for index, arrival_s in enumerate(arrivals):
            latency_s = _page(
                rng, truth, float(arrival_s), r, runs, servers, holds, received, accepted
            )
            rows.append(
                {"arm": arm, "repeat": block, "pair": block // 2,
                 "phase": "measure" if arrival_s > start_s + 5.0 else "warm-up", "index": index,
                 "user": "wiki-reader", "name": "Page", "intended_s": float(arrival_s),
                 "sent_s": float(arrival_s), "done_s": float(arrival_s) + latency_s,
                 "latency_ms": 1000 * latency_s, "lag_ms": 0.0, "outcome": "ok", "status": 200,
                 "bytes": 1000}
            )  # fmt: skip
    polls = np.arange(0.0, end_s, 1.0)
    pl.DataFrame(rows).write_parquet(folder / "requests.parquet")
    _arbiters(polls, spans, servers, holds, received, accepted).write_parquet(
        folder / "arbiters.parquet"
    )
    _hosts(polls, servers, runs, truth).write_parquet(folder / "hosts.parquet")
    _events(folder / "events.jsonl", runs)
    (folder / "manifest.json").write_text(json.dumps(manifest(truth)))
    return folder


def machines(instance_type: str | None = None) -> list[dict[str, Any]]:
    """The inventory's machines, arbiters and telemetry included."""
    inventory: list[dict[str, Any]] = [
        {"name": name, "tier": tier, "role": TIERS[tier]["role"], "standby": False,
         "instance_type": instance_type, "address": "198.18.9.9"}
        for tier, names in (("web", WEB), ("db", DB))
        for name in names
    ]  # fmt: skip
    for k, (name, tier, role) in enumerate(
        (("arbiter-db", "db", "arbiter"), ("arbiter-web", "web", "arbiter"),
         ("influxdb-1", None, "influxdb"))
    ):  # fmt: skip
        inventory.append({"name": name, "tier": tier, "role": role, "standby": False,
                          "instance_type": None, "address": f"198.18.0.1{k}"})  # fmt: skip
    return inventory


def tiers(cpus: float, instance_type: str = "t3.small") -> dict[str, dict[str, Any]]:
    """The fleet's tiers, as a spec has them."""
    return {
        name: {**tier, "cpus": cpus, "memory_mb": 512, "nic_mbps": 200, "disk_mbps": 80,
               "instance_type": instance_type}
        for name, tier in TIERS.items()
    }  # fmt: skip


def arms() -> dict[str, dict[str, Any]]:
    """The arms, as a spec has them."""
    return {name: {"settings": settings} for name, settings in ARMS.items()}


def manifest(truth: Truth) -> dict[str, Any]:
    """Return the keys of a manifest that the planner reads, as the runner writes them."""
    roles = {
        "mediawiki": {"state": "none"},
        "mariadb": {"state": "none", "fit": {"token_hold": "connection"}},
    }
    return {
        "schema": 1, "experiment": "mediawiki-noisy", "run": "20260101T000000Z",
        "platform": "local",
        "spec": {"arms": arms(), "slo": truth.slo,
                 "fleet": {"scheme": "on-prem", "tiers": tiers(4.0)}, "roles": roles},
        "fleet": {"scheme": "on-prem", "machines": machines(),
                  "endpoints": {"entries": [{"tier": "web", "urls": ["http://198.18.0.11/"]}]}},
    }  # fmt: skip


def _runs(rng: np.random.Generator, truth: Truth, end_s: float) -> list[tuple[float, float]]:
    runs, now_s = [], float(rng.exponential(truth.gap_s))
    while now_s < end_s and truth.run_s > 0:
        length = float(rng.exponential(truth.run_s))
        runs.append((now_s, now_s + length))
        now_s += length + float(rng.exponential(truth.gap_s))
    return runs


def _speed(truth: Truth, runs: list[tuple[float, float]], time_s: float) -> float:
    return truth.gamma if any(a <= time_s < b for a, b in runs) else 1.0


def _page(
    rng: np.random.Generator, truth: Truth, arrival_s: float, r: dict[str, int],
    runs: dict[str, list[tuple[float, float]]], servers: dict[str, _Server],
    holds: dict[str, list[tuple[float, float]]], received: dict[str, list[float]],
    accepted: list[float],
) -> float:  # fmt: skip
    """Serve one page: copies on distinct web servers, each with its own database connection."""
    received["web"].append(arrival_s)
    latencies = []
    for web in rng.choice(WEB, size=r["web"], replace=False):
        work_s = float(rng.exponential(truth.web_s))
        now = arrival_s + work_s / _speed(truth, runs[web], arrival_s)
        opened = now
        accepted.append(opened)
        backends = rng.choice(DB, size=r["db"], replace=False)
        for _ in range(truth.queries):
            received["db"].append(now)
            stays = []
            for db in backends:
                query_s = float(rng.exponential(truth.db_s))
                stay_s = query_s / _speed(truth, runs[db], now)
                servers[db].began.append(now)
                servers[db].done.append((now + stay_s, stay_s))
                servers[db].work.append((now, query_s))
                stays.append(stay_s)
            now += min(stays)
        holds["db"] += [(opened, now)] * r["db"]
        holds["web"].append((arrival_s, now))
        servers[web].began.append(arrival_s)
        servers[web].done.append((now, now - arrival_s))
        servers[web].work.append((arrival_s, work_s))
        latencies.append(now - arrival_s)
    return min(latencies)


def _arbiters(
    polls: Any, spans: list[tuple[float, str]], servers: dict[str, _Server],
    holds: dict[str, list[tuple[float, float]]], received: dict[str, list[float]],
    accepted: list[float],
) -> pl.DataFrame:  # fmt: skip
    which = np.searchsorted([s for s, _ in spans], polls, side="right") - 1
    arms = [spans[max(0, k)][1] for k in which]
    frames = []
    for tier, names in (("web", WEB), ("db", DB)):
        client = accepted if tier == "db" else [0.0] * 20
        taken = np.sort([a for a, _ in holds[tier]])
        freed = np.sort([b for _, b in holds[tier]])
        in_use = np.searchsorted(taken, polls, "right") - np.searchsorted(freed, polls, "right")
        for name in names:
            ends = sorted(servers[name].done)
            when = [t for t, _ in ends]
            latency = np.concatenate(([0.0], np.cumsum([s for _, s in ends])))
            count = np.searchsorted(when, polls, side="right")
            last = np.array([0.0, *(s for _, s in ends)])[count]
            frames.append(
                pl.DataFrame(
                    {"time_s": polls, "tier": [tier] * len(polls),
                     "protocol": ["http" if tier == "web" else "mysql"] * len(polls),
                     "policy": [ARMS[a][tier]["policy"] for a in arms],
                     "replicas": [ARMS[a][tier]["replicas"] for a in arms],
                     "server": [name] * len(polls),
                     "requests": np.searchsorted(np.sort(servers[name].began), polls, "right"),
                     "last_latency_us": (last * 1e6).astype(np.int64),
                     "latency_us_sum": (latency[count] * 1e6).astype(np.int64),
                     "latency_count": count,
                     "received": np.searchsorted(np.sort(received[tier]), polls, "right"),
                     "reads": 0, "reads_of_one": 0, "writes": 0, "tokens_in_use": in_use,
                     "client_accepted": np.searchsorted(np.sort(client), polls, "right")}
                )
            )  # fmt: skip
    return pl.concat(frames)


def _hosts(
    polls: Any, servers: dict[str, _Server], runs: dict[str, list[tuple[float, float]]],
    truth: Truth,
) -> pl.DataFrame:  # fmt: skip
    """Cores used in the second before each sample; a hog takes what is left of the cap."""
    frames = []
    for name, server in servers.items():
        cap = 4.0
        work = sorted(server.work)
        when = [t for t, _ in work]
        work_s = np.concatenate(([0.0], np.cumsum([w for _, w in work])))
        used_s = work_s[np.searchsorted(when, polls, side="right")]
        cores = np.diff(used_s, prepend=0.0) + truth.idle_cores
        hogged = [any(a < t and b > t - 1.0 for a, b in runs[name]) for t in polls]
        cores = np.where(hogged, np.maximum(cores, cap), cores)
        frames.append(
            pl.DataFrame(
                {"time_s": polls, "machine": [name] * len(polls),
                 "tier": [name.split("-")[0]] * len(polls), "cpu_cores": cores,
                 "cpu_percent": 100 * cores / cap, "net_rx_mbps": 0.0, "net_tx_mbps": 0.0}
            )
        )  # fmt: skip
    return pl.concat(frames)


def _events(path: Path, runs: dict[str, list[tuple[float, float]]]) -> None:
    lines = [{"what": "arm", "kind": "baseline", "machine": "", "time_s": 0.0, "action": "start"}]
    for machine, spans in runs.items():
        for number, (start_s, end_s) in enumerate(spans):
            event = {"what": "interference", "kind": "interference.cpu", "machine": machine,
                     "id": f"{machine}-{number}"}  # fmt: skip
            lines.append({**event, "time_s": start_s, "action": "inject"})
            lines.append({**event, "time_s": end_s, "action": "revert"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def plan_instance(
    seed: int = 0, *, tiers: int = 6, types: int = 40, max_nodes: int = 60, max_replicas: int = 4,
    availability: float = 0.9995, tightness: float = 0.4,
) -> Case:  # fmt: skip
    """A planning case of any size: a chain of tiers under interference, machines of five families.

    tightness in (0, 1): where the latency limits lie between the page without load (0) and that on
    the cheapest machines that are 70 % busy (1). No measurement is behind any figure.
    """
    rng = np.random.default_rng(seed)
    demands, rate = [], float(rng.uniform(200.0, 600.0))
    for number in range(tiers):
        visits = 1.0 if number == 0 else float(rng.choice([0.5, 1.0, 2.0]))
        rate *= visits
        law = TierLatency(processing_s=float(rng.uniform(0.004, 0.03)),
                          cv2=float(rng.uniform(0.5, 2.0)), visits=visits, interference_share=0.15,
                          gamma=0.4, run_s=10.0)  # fmt: skip
        memory_mb = float(rng.choice([512, 1500, 3500]))
        demands.append(TierDemand(f"t{number + 1}", law, rate, memory_mb, rate, 0.1))
    case = Case(tiers=tuple(demands), slo=Slo(availability=availability), scheme="cloud",
                region="here",
                book=PriceBook("2026-01-01", "drawn from a seed", {"here": _machines(rng, types)}),
                limits=Limits(max_nodes=max_nodes, max_replicas=max_replicas),
                rates=FailureRates(crash_per_year=12.0, failover_s=120.0))  # fmt: skip
    cheapest = solve(case.problem()).path
    assert cheapest is not None  # 60 nodes are far more than the load needs
    cores = [float(max(i.vcpus for i in case.book.instances("here")))] * tiers
    laws = [demand.latency for demand in demands]
    least_s = zero_load_s(laws, cores, [max_replicas] * tiers, "tad", [95, 99])
    # the page without limits is evaluated on a grid that surely holds it
    wide = replace(case, slo=Slo(availability=availability, p95_ms=60_000.0, p99_ms=60_000.0))
    loose_ms = wide.latency(cheapest)
    p95_ms, p99_ms = (
        1000.0 * least_s[q] + tightness * (loose_ms[q] - 1000.0 * least_s[q]) for q in (95, 99)
    )
    return replace(case, slo=Slo(availability=availability, p95_ms=p95_ms, p99_ms=p99_ms))


def _machines(rng: np.random.Generator, types: int) -> tuple[Instance, ...]:
    """Draw machines of five families: balanced, much processor, much memory, burstable, older."""
    families = (("g", 4.0, 1.0), ("c", 2.0, 0.88), ("m", 8.0, 1.3), ("b", 4.0, 0.7),
                ("o", 4.0, 1.1))  # fmt: skip
    instances = []
    for number in range(types):
        name, memory, price = families[number % len(families)]
        vcpus = 2 ** (number // len(families))
        usd = 0.045 * vcpus * price * float(rng.uniform(0.97, 1.03))
        share = 0.3 if name == "b" else 1.0
        instances.append(Instance(f"{name}{vcpus}", vcpus, memory * vcpus, usd, share))
    return tuple(sorted(instances, key=lambda instance: (instance.usd_per_hour, instance.name)))
