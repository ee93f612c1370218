"""One arm of a run: its arrivals and neighbours, its measurements, the scenario that repeats it.

The scenario replays the arm's own arrivals, and each neighbour and fault at its machine and time.
Caps on cores are quotas in periods of 10 ms, as the local platform sets them. A page's calls come
between equal pieces of its work, and a session holds its token for all of it. Machines of one host
compete for its cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from core.arrays import Floats
from core.errors import InputError
from core.runfiles.events import Window
from core.runfiles.requests import WARM_UP
from core.statistics.percentiles import OK, counted, percentile, time_out_of
from optimizer.fit import Results, ServiceFit
from optimizer.fit.series import Block, inside, tier_series, touched
from optimizer.fit.spec import TierSettings
from optimizer.simulation.disturbed import QUOTA_PERIOD_S, Visited
from optimizer.simulation.forms import Event, Report, Scenario, TierScenario
from optimizer.simulation.law import Law, call_s, counted_s, fitted_tier, lower_decile_distance

PERCENTILES = (50.0, 95.0, 99.0)
_NEAR = 2.0  # times the median: answers below that are hardly disturbed
_ANSWERS_LEAST = 10  # under a kind of neighbour, for a figure of it
_ARRIVALS_MAX = 20_000  # of an arm, its first
_PIECES_MOST = 8  # of a page: with one for each of 32 calls the figures are the same


class Arm:
    """One arm of a run: arrivals (up to a bound), neighbours, measurements and configuration."""

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
        is_measured = (rows["phase"] != WARM_UP).to_numpy()
        self.warm_up = int(is_measured.argmax())
        self._is_measured = is_measured[self.warm_up :]  # each block has a warm-up
        self.good = (rows["outcome"] == OK).to_numpy()[is_measured]
        if not self.good.any():
            expected = f"an arm of which the run has good answers, not {name}"
            raise InputError(option, expected=expected, got="none of it", hint="Take another.")
        self.start_s = float(rows["intended_s"][0])
        self.arrivals_s = [float(t) - self.start_s for t in rows["intended_s"]]
        self.time_out_s = time_out_of(results.manifest) / 1000.0
        latency_ms = rows.select(counted(1000.0 * self.time_out_s)).to_series()
        self.measured_s = latency_ms.to_numpy()[is_measured] / 1000.0
        self._pages = rows["name"].to_numpy()[is_measured].tolist()
        spans = rows.group_by("repeat").agg(
            pl.col("intended_s").min().alias("start"), pl.col("done_s").max().alias("end")
        )
        self.spans = [(float(r["start"]), float(r["end"])) for r in spans.iter_rows(named=True)]
        self.disturbed = [*results.interference, *results.faults]

    def simulated_s(self, report: Report) -> Floats:
        """Return the latency [s] of each measured page in a report of the arm's scenario."""
        latencies_s: Floats = counted_s(report, self.time_out_s)[self._is_measured]
        return latencies_s

    @cached_property
    def percentiles_s(self) -> dict[float, float]:
        """Measured percentiles of latency [s], by rank."""
        ordered = np.sort(self.measured_s)
        return {q: percentile(ordered, q / 100.0) or 0.0 for q in PERCENTILES}

    @property
    def policies(self) -> set[str]:
        tiers = (tier.spec.name for tier in self.service.tiers)
        return {self.results.settings(self.name, tier).policy for tier in tiers}

    @property
    def median_s(self) -> float:
        return self.percentiles_s[50.0]

    @cached_property
    def near_median(self) -> list[tuple[str, float]]:
        """Good answers of at most _NEAR times the median: the page and the latency [s]."""
        rows = zip(self._pages, self.measured_s.tolist(), self.good.tolist(), strict=False)
        most_s = _NEAR * self.median_s
        return [(page, s) for page, s, good in rows if good and 0.0 < s <= most_s]

    @cached_property
    def lower_s(self) -> float:
        """Distance of the lower decile of good answers from their median, of the logarithm [-]."""
        return lower_decile_distance(self.measured_s[self.good])

    @cached_property
    def host(self) -> dict[str, float]:
        """The host's cores, and those that were used by other work than the tiers' servers."""
        import polars as pl

        recorded_host = self.results.manifest.get("host") or {}
        blocks = [
            block
            for block in recorded_host.get("blocks") or ()
            if block["arm"] == self.name and block.get("others_share") is not None
        ]
        if not blocks:
            return {}
        cores = float(recorded_host["cores"])
        used = cores * float(np.mean([b["busy_share"] + b["stolen_share"] for b in blocks]))
        names = [name for tier in self.service.tiers for name in self.servers(tier.spec.name)]
        hosts, time_s = self.results.hosts, pl.col("time_s")
        in_spans = pl.any_horizontal([time_s.is_between(a, b) for a, b in self.spans])
        rows = hosts.filter(in_spans & pl.col("machine").is_in(names))
        servers = rows.group_by("machine").agg(pl.col("cpu_cores").mean())["cpu_cores"].sum()
        return {"cores": cores, "busy_cores": max(0.0, used - float(servers))}

    def scenario(self, law: Law, seed: int) -> Scenario:
        """Return the arm as a scenario, with the law's figures and this seed of the work."""
        settings = [self.results.settings(self.name, t.spec.name) for t in self.service.tiers]
        tiers: list[TierScenario] = []
        for index, (tier, tier_settings) in enumerate(
            zip(self.service.tiers, settings, strict=True)
        ):
            body = tier_scenario(
                self.service, index, law, tier_settings, tier.spec.nodes, self.burst_cores
            )
            tiers.append({**body, "faults": self._faults(index, law)})
        return {
            "host": law.host or None,
            "seed": seed,
            "arrivals": {"kind": "recorded", "times_s": self.arrivals_s},
            "warm_up_requests": self.warm_up,
            "each": True,
            "tiers": tiers,
        }

    @property
    def burst_cores(self) -> float:
        """Cores that a capped machine uses at once."""
        return float((self.results.manifest.get("host") or {}).get("cores") or 1)

    @property
    def core_speeds(self) -> list[float]:
        """The host's speed in each block, over that of the mean block; empty if not measured."""
        blocks = (self.results.manifest.get("host") or {}).get("blocks") or ()
        speeds = [block["core_speed"] for block in blocks if block.get("core_speed")]
        return [float(speed / np.mean(speeds)) for speed in speeds]

    @property
    def crowd_threads(self) -> int:
        """Number of threads of a neighbour that takes CPU time, at least 1."""
        stated = (self.results.manifest.get("spec") or {}).get("interference") or {}
        return max(1, int(stated.get("cpu_workers") or 1))

    @cached_property
    def calm_own_s(self) -> list[float | None]:
        """Mean latency [s] of each tier's servers without any neighbour there or below, less that
        of the tier below; None with too few answers."""
        calm_s = [self._calm_s(tier.spec.name) for tier in self.service.tiers]
        return own_s(calm_s, [t.requests_per_copy.value or 1.0 for t in self.service.tiers])

    def simulated_own_s(self, report: Report) -> list[float | None]:
        """Return the same of a report of the arm's scenario without neighbours."""
        tiers = range(len(self.service.tiers))
        calls = [1.0, *(float(_calls(self.service, index)) for index in tiers)]
        return own_s([tier["latency"]["mean_s"] for tier in report["tiers"]], calls)

    def _calm_s(self, tier: str) -> float | None:
        for calm_below in (True, False):
            if (calm := self._means_s(tier, calm_below=calm_below).get("")) is not None:
                return calm[0]
        return None

    def measured_kinds(self, tier: str) -> set[str]:
        """Return the kinds of neighbours and faults under which the tier answered often enough."""
        return set(self._means_s(tier)) - {""}

    def mean_s(self, tier: str) -> float | None:
        """Return the mean latency [s] of the tier's servers in this arm; None without answers."""
        spent_s = answered = 0.0
        for server in tier_series(self.results.arbiters, tier).servers.values():
            if len(server.time_s) < 2:
                continue
            in_spans = touched(
                server.time_s, [Block(self.name, 0, a, b, 0) for a, b in self.spans], 0.0
            )
            spent_s += float(np.diff(server.latency_s)[in_spans].sum())
            answered += float(np.diff(server.count)[in_spans].sum())
        return spent_s / answered if answered >= _ANSWERS_LEAST else None

    @cached_property
    def slowed(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Relative speed of a tier's servers under each kind of neighbour, and its answers.

        The speed is the ratio of two mean latencies, without neighbours and with this kind, each
        less the latency of the tier below. Both are taken at times when nobody disturbs the tier
        below; if these are too few, at all times, because that tier is disturbed equally often in
        both cases. Kinds under which the tier hardly answered are left out.
        """
        speeds: dict[tuple[str, str], tuple[float, float]] = {}
        below_s = {True: 0.0, False: 0.0}  # latency of the tier below; True: while undisturbed
        for tier in reversed(self.service.tiers):
            name, calls = tier.spec.name, tier.requests_per_copy.value or 1.0
            took_s = {}
            for calm_below in (True, False):
                means = self._means_s(name, calm_below=calm_below)
                calm_s, _ = means.pop("", (0.0, 0.0))
                for kind, (mean_s, answers) in means.items():
                    own_s, hit_s = (s - below_s[calm_below] for s in (calm_s, mean_s))
                    if own_s > 0.0 and hit_s > 0.0:
                        speeds.setdefault((name, kind), (min(1.0, own_s / hit_s), answers))
                took_s[calm_below] = calls * (calm_s if calm_below else self.mean_s(name) or calm_s)
            below_s = took_s
        return speeds

    def _means_s(self, tier: str, *, calm_below: bool = False) -> dict[str, tuple[float, float]]:
        """Return the mean latency [s] of the tier's servers and the answers behind it, by kind.

        The polls of a kind are those with this neighbour or fault, and no other, during all of
        their time; the key "" is for polls without any. With `calm_below`, only times at which
        nobody disturbs the tiers below count."""
        names = [service_tier.spec.name for service_tier in self.service.tiers]
        machines_below = {m for name in names[names.index(tier) + 1 :] for m in self.servers(name)}
        below = [
            window for window in self.disturbed if calm_below and window.machine in machines_below
        ]
        kinds = sorted({window.kind for window in self.disturbed})
        sums: dict[str, tuple[float, float]] = {}
        for machine, server in tier_series(self.results.arbiters, tier).servers.items():
            time_s = server.time_s
            if len(time_s) < 2:
                continue
            measured = touched(time_s, [Block(self.name, 0, a, b, 0) for a, b in self.spans], 0.0)
            windows_here = [window for window in self.disturbed if window.machine == machine]
            masks = {"": ~touched(time_s, [*windows_here, *below], 1.0)}
            for kind in kinds:
                rest = [*(w for w in windows_here if w.kind != kind), *below]
                other_disturbance = touched(time_s, rest, 0.0)
                masks[kind] = (
                    inside(time_s, [w for w in windows_here if w.kind == kind]) & ~other_disturbance
                )
            for kind, mask in masks.items():
                spent_s, answered = sums.get(kind, (0.0, 0.0))
                spent_s += float(np.diff(server.latency_s)[mask & measured].sum())
                answered += float(np.diff(server.count)[mask & measured].sum())
                sums[kind] = (spent_s, answered)
        return {k: (spent / n, n) for k, (spent, n) in sums.items() if n >= _ANSWERS_LEAST}

    def _faults(self, index: int, law: Law) -> list[Event]:
        tier = self.service.tiers[index].spec.name
        visit = visits(self.service, index, law, self.crowd_threads, self.burst_cores)
        kinds = [kind for name, kind in law.slowed if name == tier]
        events: list[Event] = []
        for server, machine in enumerate(self.servers(tier)):
            for kind in kinds:
                speed = law.speed(tier, kind)
                effects = visit.effects(kind, speed)
                windows = times_of(self.disturbed, kind, machine)
                for start_s, end_s in unite(windows, self.spans) if speed < 1.0 else ():
                    at_s, for_s = max(0.0, start_s - self.start_s), end_s - start_s
                    for effect in effects:
                        events.append({**effect, "server": server, "at_s": at_s, "for_s": for_s})
        return events

    def servers(self, tier: str) -> list[str]:
        """Return the names of the active machines of a tier."""
        return [
            machine["name"]
            for machine in self.results.manifest["fleet"]["machines"]
            if machine.get("tier") == tier
            and machine.get("role") != "arbiter"
            and not machine.get("standby")
        ]


def tier_scenario(
    service: ServiceFit,
    index: int,
    law: Law,
    settings: TierSettings,
    servers: int,
    burst_cores: float,
    cores: float | None = None,
) -> TierScenario:
    """Return a tier of a scenario, without neighbours.

    Parameters: service and index of the tier in it; law; settings of the arm; servers >= 1; cores
    of a machine, None: as measured; burst_cores, the most that it uses at once.
    """
    tier = service.tiers[index]
    cores = cores or tier.spec.cpus or 1.0
    scenario: TierScenario = {
        "name": tier.spec.name,
        "servers": servers,
        "cores": cores,
        "quota": {
            "period_s": QUOTA_PERIOD_S,
            "burst_cores": max(cores, burst_cores),
        },
        "work": {"kind": "exponential", "mean_s": law.slower * call_s(service, index)},
        "delay_s": law.delay_s.get(tier.spec.name, 0.0),
        "card_s": card_s(service, index),
        "copies": "same",
        "policy": settings.policy,
        "replicas": settings.replicas,
        "tokens": settings.tokens,
        "hold": tier.spec.token_hold,
    }
    if settings.look_ahead is not None:
        scenario["look_ahead"] = settings.look_ahead
    if index == fitted_tier(service):
        factor = law.slower * law.more_work(tier.spec.cpus or 1.0, cores)
        scenario["work"] = {"kind": "lognormal", "mean_s": factor * law.work_s, "cv2": law.cv2}
        scenario["after_s"] = factor * law.after_s
        if law.correlation is not None:
            scenario["copies"] = {"correlated": law.correlation}
    if calls := _calls(service, index):
        scenario["calls"] = {"kind": "fixed", "value": calls}
        scenario["pieces"] = min(calls, _PIECES_MOST)
    return scenario


def visits(service: ServiceFit, index: int, law: Law, threads: int, burst_cores: float) -> Visited:
    """Return a copy at a tier of the run, for the effect of neighbours with `threads` threads."""
    spec = service.tiers[index].spec
    return Visited(
        calm_s=law.calm_s.get(spec.name),
        work_s=law.work_s if index == fitted_tier(service) else call_s(service, index),
        delay_s=law.delay_s.get(spec.name, 0.0) + card_s(service, index),
        pieces=max(1, min(_calls(service, index), _PIECES_MOST)),
        cores=spec.cpus or 1.0,
        burst_cores=burst_cores,
        threads=threads,
        own_jobs=law.own_jobs,
    )


def own_s(latencies_s: Sequence[float | None], calls: Sequence[float]) -> list[float | None]:
    """Return the latency [s] of a copy at each tier, less that of its calls to the tier below.

    Parameters: latencies_s by tier, None: unknown; calls to each tier per copy above it.
    """
    below_s: list[float | None] = [
        None if latency_s is None else count * latency_s
        for latency_s, count in zip(latencies_s[1:], calls[1:], strict=False)
    ]
    return [
        None if latency_s is None or lower_s is None else latency_s - lower_s
        for latency_s, lower_s in zip(latencies_s, [*below_s, 0.0], strict=True)
    ]


def card_s(service: ServiceFit, index: int) -> float:
    """Return the time of a copy on its machine's network card [s], in the fuller direction."""
    tier = service.tiers[index]
    return 1e-3 * (tier.card_kbit.value or 0.0) / tier.spec.nic_mbps


def _calls(service: ServiceFit, index: int) -> int:
    """Return the calls of a copy to the tier below, 0 at the last tier."""
    if index + 1 == len(service.tiers):
        return 0
    return max(1, round(service.tiers[index + 1].requests_per_copy.value or 1.0))


def times_of(windows: Sequence[Window], kind: str, machine: str) -> list[tuple[float, float]]:
    return [(w.start_s, w.end_s) for w in windows if (w.kind, w.machine) == (kind, machine)]


def unite(
    windows: Sequence[tuple[float, float]], spans: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the windows (start, end) [s] inside the spans, with overlapping ones joined."""
    cut = sorted(
        (max(start_s, a), min(end_s, b))
        for start_s, end_s in windows
        for a, b in spans
        if min(end_s, b) > max(start_s, a)
    )
    union: list[tuple[float, float]] = []
    for start_s, end_s in cut:
        if union and start_s <= union[-1][1]:
            union[-1] = (union[-1][0], max(end_s, union[-1][1]))
        else:
            union.append((start_s, end_s))
    return union
