"""How well the simulator, fitted to one arm of a live run, predicts another arm's latencies.

Replayed are the predicted arm's own arrivals, and each neighbour and fault at its machine and time,
as a slower server. From `optimizer.fit`: queries per page and work per query. From the fitted arm's
pages: the variation of the work (of pages that met no neighbour), and two numbers that make its
simulated p50 and p95 those that were measured: the web tier's work, and the speed of a server of
either tier under a neighbour. Nothing of the predicted arm but its policy, r and tokens is used.

Caps on cores are quotas in periods of 10 ms, as the local platform sets them. Machines of one host
compete for its cores, of which all but the tiers' servers (load, arbiters, kernel, other guests)
are taken to use what they used in the fitted arm. Not in it: neighbours of different kinds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.errors import InputError
from optimizer.fit import Results, ServiceFit, fit, read_results
from optimizer.fit.events import Window
from optimizer.simulation.program import percentile_s, reports

PERCENTILES = (50.0, 95.0)
_STEPS = 8
_WORK_STEPS = 3
_SPEED_LEAST = 0.02
_SEEDS = 5  # of the work; their requests together need be no more than
_REQUESTS_ENOUGH = 50_000
_ARRIVALS_MAX = 300_000  # of an arm, its first: 32 times they are simulated
_CALM = 30
_QUOTA_PERIOD_S = 0.01  # that of `fleet_machine`


@dataclass(frozen=True)
class Fidelity:
    """Percentiles [s] of both arms, measured and simulated, by rank."""

    fitted_arm: str
    predicted_arm: str
    requests: int
    work_s: float  # of the web tier
    work_cv2: float
    speed: float  # of a server under a neighbour
    host_cores: float | None  # that all machines share; None where each has its own
    busy_cores: float  # of them, used by others than the tiers' servers
    fitted: Mapping[str, tuple[float, float]]  # p50, p95: measured, simulated
    predicted: Mapping[str, tuple[float, float]]

    @property
    def off(self) -> dict[str, float]:
        """simulated / measured - 1 of the predicted arm."""
        return {name: ours / real - 1.0 for name, (real, ours) in self.predicted.items()}


def fidelity(run_dir: Path, fitted_arm: str, predicted_arms: Sequence[str] = ()) -> list[Fidelity]:
    """Fit to one arm of a run, predict others: all of them if none are named.

    Raises: InputError for an arm that is not in it, or a run too thin to be fitted.
    """
    results = read_results(run_dir)
    service = fit(results)
    if service.missing:
        raise InputError(
            str(run_dir),
            expected="a run that can be fitted",
            came="; ".join(service.missing),
            do="Take another run: `sparecraft list` shows them.",
        )
    first = _Arm(results, service, fitted_arm)
    others = predicted_arms or [name for name in results.arms if name != fitted_arm]
    law = _fitted(first)
    fitted = _pairs(first, law)
    found = []
    for name in others:
        second = _Arm(results, service, name, "--predict")
        found.append(
            Fidelity(
                fitted_arm=fitted_arm,
                predicted_arm=name,
                requests=len(second.measured_s),
                work_s=law.work_s,
                work_cv2=law.cv2,
                speed=law.speed,
                host_cores=law.host.get("cores"),
                busy_cores=law.host.get("busy_cores", 0.0),
                fitted=fitted,
                predicted=_pairs(second, law),
            )
        )
    return found


@dataclass(frozen=True)
class _Law:
    """What the fitted arm tells."""

    work_s: float  # of the web tier, mean
    cv2: float
    speed: float
    host: Mapping[str, float]  # of a scenario; empty: the machines are not of one host


class _Arm:
    """One arm of a run: its arrivals, up to a bound, its neighbours, what it measured, its
    configuration."""

    def __init__(
        self, results: Results, service: ServiceFit, name: str, option: str = "--arm"
    ) -> None:
        import polars as pl

        if name not in results.arms:
            raise InputError(
                option,
                expected=f"one of {', '.join(results.arms)}",
                came=name,
                do="Take one of them.",
            )
        self.results, self.service, self.name = results, service, name
        rows = results.requests.filter(pl.col("arm") == name).sort("intended_s")
        rows = rows.filter(pl.col("intended_s").is_not_null()).head(_ARRIVALS_MAX)
        if rows.is_empty():
            expected = f"an arm of which the run has requests, not {name}"
            raise InputError(option, expected=expected, came="none of it", do="Take another.")
        self.start_s = float(rows["intended_s"][0])
        self.arrivals_s = [float(t) - self.start_s for t in rows["intended_s"]]
        phases = rows["phase"].to_list()
        self.warm_up = next((i for i, phase in enumerate(phases) if phase == "measure"), 0)
        self.measured_s = rows["latency_ms"].fill_null(6000.0).to_numpy()[self.warm_up :] / 1000.0
        spans = rows.group_by("repeat").agg(
            pl.col("intended_s").min().alias("start"), pl.col("done_s").max().alias("end")
        )
        self.spans = [(float(r["start"]), float(r["end"])) for r in spans.iter_rows(named=True)]
        self.disturbed = [*results.interference, *results.faults]

    @property
    def cv2(self) -> float:
        """Of a page's latency where no machine had a neighbour, as a lognormal law's: from the
        half between its quartiles, which few queues reach."""
        times = self.start_s + np.array(self.arrivals_s[self.warm_up :])
        noisy = np.zeros(len(times), dtype=bool)
        for window in self.disturbed:
            noisy |= (times > window.start_s - 1.0) & (times < window.end_s + 1.0)
        calm = self.measured_s[~noisy]
        chosen = calm if len(calm) >= _CALM else self.measured_s
        low, high = np.percentile(chosen, [25, 75])
        return float(math.expm1((math.log(high / low) / 1.349) ** 2))

    @property
    def host(self) -> dict[str, float]:
        """The host's cores, and how many of them others than the tiers' servers used meanwhile."""
        import polars as pl

        said = self.results.manifest.get("host") or {}
        blocks = [
            block
            for block in said.get("blocks") or ()
            if block["arm"] == self.name and block.get("others_share") is not None
        ]
        if not blocks:
            return {}
        cores = float(said["cores"])
        used = cores * float(np.mean([b["busy_share"] + b["stolen_share"] for b in blocks]))
        names = [name for tier in self.service.tiers for name in self._servers(tier.spec.name)]
        hosts, time_s = self.results.hosts, pl.col("time_s")
        inside = pl.any_horizontal([time_s.is_between(a, b) for a, b in self.spans])
        rows = hosts.filter(inside & pl.col("machine").is_in(names))
        servers = rows.group_by("machine").agg(pl.col("cpu_cores").mean())["cpu_cores"].sum()
        return {"cores": cores, "busy_cores": max(0.0, used - float(servers))}

    def scenario(self, law: _Law, seed: int) -> dict[str, Any]:
        """The arm as a scenario."""
        tiers = [self._tier(i, law.speed) for i in range(len(self.service.tiers))]
        tiers[0]["work"] = {"kind": "lognormal", "mean_s": law.work_s, "cv2": law.cv2}
        return {
            "host": law.host or None,
            "seed": seed,
            "arrivals": {"kind": "recorded", "times_s": self.arrivals_s},
            "warm_up_requests": self.warm_up,
            "tiers": tiers,
        }

    def _tier(self, index: int, speed: float) -> dict[str, Any]:
        tier = self.service.tiers[index]
        name, last = tier.spec.name, index + 1 == len(self.service.tiers)
        mean_s = tier.processing_s.value or 1e-3
        cores = tier.spec.cpus or 1.0
        at_once = max(cores, float((self.results.manifest.get("host") or {}).get("cores") or 1))
        found: dict[str, Any] = {
            "name": name,
            "servers": tier.spec.nodes,
            "cores": cores,
            "quota": {"period_s": _QUOTA_PERIOD_S, "burst_cores": at_once},
            "work": {"kind": "exponential", "mean_s": mean_s},
            "copies": "same",
            **asdict(self.results.settings(self.name, name)),
            "hold": tier.spec.token_hold,
            "faults": self._faults(name, speed),
        }
        if not last:
            below = self.service.tiers[index + 1].requests_per_copy.value or 1.0
            found["calls"] = {"kind": "fixed", "value": round(below)}
        return found

    def _faults(self, tier: str, speed: float) -> list[dict[str, Any]]:
        found = []
        for server, machine in enumerate(self._servers(tier)):
            mine = [w for w in self.disturbed if w.machine == machine]
            for start_s, end_s in _united(mine, self.spans):
                at_s = max(0.0, start_s - self.start_s)
                limp = {"kind": "limp", "server": server, "at_s": at_s, "for_s": end_s - start_s}
                found.append(limp | {"speed": speed})
        return found

    def _servers(self, tier: str) -> list[str]:
        return [
            machine["name"]
            for machine in self.results.manifest["fleet"]["machines"]
            if machine.get("tier") == tier
            and machine.get("role") != "arbiter"
            and not machine.get("standby")
        ]


def _united(
    windows: Sequence[Window], spans: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """The windows cut to the spans, overlaps joined: a server is slowed once."""
    cut = sorted(
        (max(w.start_s, a), min(w.end_s, b))
        for w in windows
        for a, b in spans
        if min(w.end_s, b) > max(w.start_s, a)
    )
    joined: list[tuple[float, float]] = []
    for start_s, end_s in cut:
        if joined and start_s <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end_s, joined[-1][1]))
        else:
            joined.append((start_s, end_s))
    return joined


def _fitted(arm: _Arm) -> _Law:
    """The web tier's work and the speed that give the arm's own p50 and p95: the work by
    proportion, the speed by halving an interval, since p95 falls with it."""
    law = _Law(arm.service.tiers[0].processing_s.value or 0.05, arm.cv2, 1.0, arm.host)
    real = {q: float(np.percentile(arm.measured_s, q)) for q in PERCENTILES}
    slow, fast = _SPEED_LEAST, 1.0
    for _ in range(_STEPS):
        law = replace(law, speed=math.sqrt(slow * fast))
        for _ in range(_WORK_STEPS):
            law = replace(law, work_s=law.work_s * real[50.0] / _simulated(arm, law)[50.0])
        if _simulated(arm, law)[95.0] > real[95.0]:
            slow = law.speed
        else:
            fast = law.speed
    return replace(law, speed=math.sqrt(slow * fast))


def _simulated(arm: _Arm, law: _Law) -> dict[float, float]:
    """Percentiles [s], means over several seeds of the work, where an arm has few requests;
    arrivals and neighbours are given."""
    count = math.ceil(_REQUESTS_ENOUGH / len(arm.measured_s))
    seeds = range(1, min(_SEEDS, count) + 1)
    found = reports([arm.scenario(law, seed) for seed in seeds])
    return {
        q: float(np.mean([percentile_s(report["latency"], q) for report in found]))
        for q in PERCENTILES
    }


def _pairs(arm: _Arm, law: _Law) -> dict[str, tuple[float, float]]:
    ours = _simulated(arm, law)
    return {f"p{q:g}": (float(np.percentile(arm.measured_s, q)), ours[q]) for q in PERCENTILES}
