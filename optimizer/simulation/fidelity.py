"""Accuracy of the simulator, fitted to one arm of a live run, for another arm's latencies.

Replayed are the predicted arm's own arrivals, and each neighbour and fault at its machine and time,
as a slower server. From `optimizer.fit`: queries per page, work per query and work per page. What
p50 leaves over of the latter comes after the reply: nobody waits for it, and it takes cores. From
the fitted arm's pages: the law of the work, that of pages that met no neighbour. From its
arbiters' counters: how much slower a tier's servers were under each kind of neighbour, in the mean.
And two numbers that make its simulated p50 and p95 those that were measured: the web tier's work,
and a factor of all those speeds, as a mean contains the queue. Nothing of the predicted arm but its
policy, r and tokens is used.

Caps on cores are quotas in periods of 10 ms, as the local platform sets them. Machines of one host
compete for its cores, of which all but the tiers' servers (load, arbiters, kernel, other guests)
are taken to use what they used in the fitted arm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import InputError
from core.runfiles.events import Window
from core.statistics.percentiles import OK, counted, percentile, time_out_of
from optimizer.fit import Results, ServiceFit, fit, read_results
from optimizer.fit.series import Block, tier_series, touched
from optimizer.simulation.program import percentile_s, reports

PERCENTILES = (50.0, 95.0)
_STEPS = 8
_WORK_STEPS = 3
_SPEED_LEAST = 0.005
_SPEED_MOST = 0.8  # a kind that slows a tier less than that, within its scatter, is left out
_CROWD = "interference.cpu"  # its threads are jobs beside a server's own
_FACTORS = (0.1, 10.0)  # of the speeds that the counters tell
_ANSWERS_LEAST = 10  # under a kind of neighbour, to tell of it
_SEEDS, _SEEDS_PREDICTED = 5, 20  # of the work; their requests together need be no more than
_REQUESTS_ENOUGH = 50_000
_ARRIVALS_MAX = 300_000  # of an arm, its first: 32 times they are simulated
_CALM, _CALM_MOST = 30, 1_000
_QUOTA_PERIOD_S = 0.01  # that of `fleet_machine`


@dataclass(frozen=True)
class Fidelity:
    """Percentiles [s] of both arms, measured and simulated, by rank."""

    fitted_arm: str
    predicted_arm: str
    requests: int
    work_s: float  # of the web tier, before the reply
    after_s: float  # and after it
    speeds: Mapping[str, float]  # of a server, by "tier, kind of neighbour"; of what slowed it
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
            got="; ".join(service.missing),
            hint="Take another run: `sparecraft list` shows them.",
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
                after_s=law.after_s,
                speeds={", ".join(both): law.speed(*both) for both in law.slowed},
                host_cores=law.host.get("cores"),
                busy_cores=law.host.get("busy_cores", 0.0),
                fitted=fitted,
                predicted=_pairs(second, law),
            )
        )
    return found


@dataclass(frozen=True)
class _Law:
    """The figures of the fitted arm."""

    work_s: float  # of the web tier before the reply, mean
    whole_s: float  # and with what comes after it, as its machines' CPU time tells
    calm: tuple[float, ...]  # work of single pages, of a mean of 1
    slowed: Mapping[tuple[str, str], float]  # speed by tier and kind, as the counters tell it
    host: Mapping[str, float]  # of a scenario; empty: the machines are not of one host
    factor: float = 1.0

    @property
    def after_s(self) -> float:
        """Of a page, after its reply."""
        return max(0.0, self.whole_s - self.work_s)

    def speed(self, tier: str, kind: str) -> float:
        """Of a server of the tier, under that kind of neighbour or fault."""
        return max(_SPEED_LEAST, min(1.0, self.factor * self.slowed[tier, kind]))


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
                got=name,
                hint="Take one of them.",
            )
        self.results, self.service, self.name = results, service, name
        rows = results.requests.filter(pl.col("arm") == name).sort("intended_s")
        rows = rows.filter(pl.col("intended_s").is_not_null()).head(_ARRIVALS_MAX)
        phases = rows["phase"].to_list()
        self.warm_up = next((i for i, phase in enumerate(phases) if phase == "measure"), 0)
        self.good = (rows["outcome"] == OK).to_numpy()[self.warm_up :]
        if not self.good.any():
            expected = f"an arm of which the run has good answers, not {name}"
            raise InputError(option, expected=expected, got="none of it", hint="Take another.")
        self.start_s = float(rows["intended_s"][0])
        self.arrivals_s = [float(t) - self.start_s for t in rows["intended_s"]]
        latency_ms = rows.select(counted(time_out_of(results.manifest))).to_series()
        self.measured_s = latency_ms.to_numpy()[self.warm_up :] / 1000.0
        spans = rows.group_by("repeat").agg(
            pl.col("intended_s").min().alias("start"), pl.col("done_s").max().alias("end")
        )
        self.spans = [(float(r["start"]), float(r["end"])) for r in spans.iter_rows(named=True)]
        self.disturbed = [*results.interference, *results.faults]

    @property
    def percentiles_s(self) -> dict[float, float]:
        """Measured."""
        ordered = np.sort(self.measured_s)
        return {q: percentile(ordered, q / 100.0) or 0.0 for q in PERCENTILES}

    @property
    def calm(self) -> tuple[float, ...]:
        """Latencies of good pages while no machine had a neighbour, over their mean."""
        times = self.start_s + np.array(self.arrivals_s[self.warm_up :])
        noisy = np.zeros(len(times), dtype=bool)
        for window in self.disturbed:
            noisy |= (times > window.start_s - 1.0) & (times < window.end_s + 1.0)
        calm = self.measured_s[self.good & ~noisy]
        chosen = calm if len(calm) >= _CALM else self.measured_s[self.good]
        count = min(len(chosen), _CALM_MOST)
        values = np.quantile(chosen, (np.arange(count) + 0.5) / count)
        return tuple(float(value) for value in values / values.mean())

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
        tiers = [self._tier(i, law) for i in range(len(self.service.tiers))]
        values_s = [law.work_s * share for share in law.calm]
        tiers[0]["work"] = {"kind": "empirical", "values_s": values_s}
        tiers[0]["after_s"] = law.after_s
        return {
            "host": law.host or None,
            "seed": seed,
            "arrivals": {"kind": "recorded", "times_s": self.arrivals_s},
            "warm_up_requests": self.warm_up,
            "tiers": tiers,
        }

    @property
    def slowed(self) -> dict[tuple[str, str], float]:
        """The speed of a tier's servers under each kind of neighbour, of the rate that their cap
        allows: from mean latencies with it and without any, less the tier's below.

        A kind that hardly slows the tier, or under which it hardly answered, is not in it.
        """
        found, below_s = {}, 0.0
        for tier in reversed(self.service.tiers):
            name = tier.spec.name
            means = self._means_s(name)
            calm_s = means.pop("", 0.0)
            for kind, mean_s in means.items():
                own_s, hit_s = calm_s - below_s, mean_s - below_s
                if own_s > 0.0 and hit_s > 0.0:
                    told = own_s / hit_s * _above_cap(tier.processing_s.value, tier.spec.cpus)
                    if told < _SPEED_MOST:
                        found[name, kind] = told
            below_s = calm_s * (tier.requests_per_copy.value or 1.0)
        return found

    def _means_s(self, tier: str) -> dict[str, float]:
        """Mean latency of the tier's servers in this arm [s], alone with each kind of neighbour or
        fault, and, as "", with none."""
        kinds = sorted({window.kind for window in self.disturbed})
        sums: dict[str, tuple[float, float]] = {}
        for machine, server in tier_series(self.results.arbiters, tier).servers.items():
            time_s = server.time_s
            if len(time_s) < 2:
                continue
            inside = touched(time_s, [Block(self.name, 0, a, b, 0) for a, b in self.spans], 0.0)
            mine = [window for window in self.disturbed if window.machine == machine]
            hit = {k: touched(time_s, [w for w in mine if w.kind == k], 0.0) for k in kinds}
            several = sum(one.astype(int) for one in hit.values()) if hit else 0
            hit = {kind: one & (several == 1) for kind, one in hit.items()}
            hit[""] = ~touched(time_s, mine, 1.0)
            for kind, kept in hit.items():
                spent_s, answered = sums.get(kind, (0.0, 0.0))
                spent_s += float(np.diff(server.latency_s)[kept & inside].sum())
                answered += float(np.diff(server.count)[kept & inside].sum())
                sums[kind] = (spent_s, answered)
        return {k: spent / n for k, (spent, n) in sums.items() if n >= _ANSWERS_LEAST}

    def _tier(self, index: int, law: _Law) -> dict[str, Any]:
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
            "faults": self._faults(name, law),
        }
        if not last:
            below = self.service.tiers[index + 1].requests_per_copy.value or 1.0
            found["calls"] = {"kind": "fixed", "value": round(below)}
        return found

    def _faults(self, tier: str, law: _Law) -> list[dict[str, Any]]:
        kinds = [kind for name, kind in law.slowed if name == tier]
        found = []
        for server, machine in enumerate(self._servers(tier)):
            for kind in kinds:
                speed = law.speed(tier, kind)
                mine = [w for w in self.disturbed if (w.machine, w.kind) == (machine, kind)]
                for start_s, end_s in _united(mine, self.spans) if speed < 1.0 else ():
                    at_s = max(0.0, start_s - self.start_s)
                    slow: dict[str, Any] = {"kind": "limp", "speed": speed}
                    if kind == _CROWD:
                        slow = {"kind": "crowd", "jobs": 1.0 / speed - 1.0}
                    found.append(slow | {"server": server, "at_s": at_s, "for_s": end_s - start_s})
        return found

    def _servers(self, tier: str) -> list[str]:
        return [
            machine["name"]
            for machine in self.results.manifest["fleet"]["machines"]
            if machine.get("tier") == tier
            and machine.get("role") != "arbiter"
            and not machine.get("standby")
        ]


def _above_cap(work_s: float | None, cores: float | None) -> float:
    """The factor by which a server is faster than its cap at one piece of such work: 1 where that
    takes many periods, 1 / cores where it is done within one."""
    if not work_s or not cores or cores >= 1.0:
        return 1.0
    each_s = cores * _QUOTA_PERIOD_S
    periods = math.ceil(work_s / each_s) - 1
    taken_s = periods * _QUOTA_PERIOD_S + (work_s - periods * each_s)
    return work_s / taken_s / cores


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
    """The web tier's work and the factor of the speeds that give the arm's own p50 and p95: the
    work by proportion, the factor by halving an interval, since p95 falls with it."""
    whole_s = arm.service.tiers[0].processing_s.value or 0.05
    law = _Law(whole_s, whole_s, arm.calm, arm.slowed, arm.host)
    real = arm.percentiles_s
    slow, fast = _FACTORS
    for _ in range(_STEPS):
        law = replace(law, factor=math.sqrt(slow * fast))
        for _ in range(_WORK_STEPS):
            law = replace(law, work_s=law.work_s * real[50.0] / _simulated(arm, law)[50.0])
        if _simulated(arm, law)[95.0] > real[95.0]:
            slow = law.factor
        else:
            fast = law.factor
    return replace(law, factor=math.sqrt(slow * fast))


def _simulated(arm: _Arm, law: _Law, seeds_most: int = _SEEDS) -> dict[float, float]:
    """Percentiles [s], means over several seeds of the work, where an arm has few requests;
    arrivals and neighbours are given."""
    count = math.ceil(_REQUESTS_ENOUGH / len(arm.measured_s))
    seeds = range(1, min(seeds_most, count) + 1)
    found = reports([arm.scenario(law, seed) for seed in seeds])
    return {
        q: float(np.mean([percentile_s(report["latency"], q) for report in found]))
        for q in PERCENTILES
    }


def _pairs(arm: _Arm, law: _Law) -> dict[str, tuple[float, float]]:
    ours = _simulated(arm, law, _SEEDS_PREDICTED)
    return {f"p{q:g}": (real_s, ours[q]) for q, real_s in arm.percentiles_s.items()}
