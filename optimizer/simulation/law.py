"""A service for the simulator: the figures that are fitted to a run's arms.

The work of a copy at one tier, the fitted one (`fitted_tier`), is lognormal, so that pages have the
median and spread of the lower half of the latencies, which neighbours hardly affect. (The shape of
all latencies includes the neighbours, so their effect would count twice.) The work is at most the
CPU time in the counters; the rest of a page's time needs no core. A copy at another tier costs the
CPU time in the counters, and a time without a core. The slowdown of servers under each kind of
neighbour comes from the arbiters' counters. The correlation of copies' work is that of two answers
with the same page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from core.arrays import Floats
from core.statistics.percentiles import percentile
from optimizer.simulation.disturbed import QUOTA_PERIOD_S
from optimizer.simulation.program import reports

if TYPE_CHECKING:
    from optimizer.fit import ServiceFit
    from optimizer.simulation.arm import Arm
    from optimizer.simulation.forms import Report

SPEED_LEAST = 0.005
_SPEED_MOST = 0.8  # a kind that slows a tier less than that, within its scatter, is left out
_STEPS = 6
_PAGES_ENOUGH = 1_200  # of an arm, over several seeds of the work
_SEEDS_MOST = 4
_SPREADS = (0.05, 0.8)  # of the logarithm of a page's work
_BUSY_LEAST = 0.2  # of the CPU time that a tier's machines use: no idle machine uses more
# Under a lower cap than that of the run, a page takes more CPU time, by a power of the ratio of the
# caps: 30 to 32 ms under 0.35 cores, 37 and 37 under 0.25, so the power is 0.5 to 0.6. Above the
# run's cap it may take 0.9 times as much (28 ms on a whole core); the law takes it as equal.
# MediaWiki on the local platform, docs/results/closed-loop.md.
CAP_POWERS = (0.3, 0.8)  # the power is drawn from this interval
DELAY = "delay "  # before the tier's name, of a time without a core in `figures`
# Beside four threads a server of requests of 1.3 ms had the share of 1.2 to 1.9 jobs, with four
# requests at it (a Python service); a process with one thread has that of one (`disturbed`).
OWN_JOBS = (1.0, 2.0)
_PAGES_AGAIN = 30  # least pages that came more than once, for a correlation of copies


@dataclass(frozen=True)
class Law:
    """The fitted figures of a service: times [s], speeds and shares [-]."""

    work_s: float  # of a copy at the fitted tier before the reply, mean
    spread: float  # of its logarithm
    whole_s: float  # with the work after the reply, by the CPU time of its machines
    slowed: Mapping[tuple[str, str], float]  # speed by tier and kind, from the counters
    correlation: float | None  # of the work of a request's copies; None: unknown
    delay_s: Mapping[str, float]  # per copy at a tier, without a core
    host: Mapping[str, float]  # of a scenario; empty: the machines are not of one host
    calm_s: Mapping[str, float] = field(default_factory=dict)  # of a copy without neighbours, mean
    cap_power: float = 0.0  # drawn for a fleet that may have other caps than the run's
    slower: float = 1.0  # factor of all CPU times: drawn for a host whose speed varies
    own_jobs: float = 1.4  # of a server with short requests beside neighbours: drawn from OWN_JOBS

    @property
    def after_s(self) -> float:
        """CPU time of a copy at the fitted tier after its reply [core s]."""
        return max(0.0, self.whole_s - self.work_s)

    @property
    def cv2(self) -> float:
        """Squared coefficient of variation of that work."""
        return math.expm1(self.spread**2)

    def more_work(self, run_cores: float, cores: float) -> float:
        """Return the CPU time of that copy under a cap of `cores`, over that in the run [-]."""
        if self.work_s <= cores * QUOTA_PERIOD_S:
            return 1.0  # it fits into a period
        return float(max(1.0, min(1.0, run_cores) / min(1.0, cores)) ** self.cap_power)

    def speed(self, tier: str, kind: str) -> float:
        """Return the speed [-] of a server of the tier under that kind of neighbour or fault."""
        return max(SPEED_LEAST, self.slowed[tier, kind])

    @property
    def figures(self) -> dict[str, float]:
        """The fitted figures by name."""
        return {
            "work_s": self.work_s,
            "spread": self.spread,
            **{_speed_name(*key): self.speed(*key) for key in self.slowed},
            **{_delay_name(tier): delay_s for tier, delay_s in self.delay_s.items()},
        }

    def with_figures(self, figures: Mapping[str, float]) -> Law:
        """Return the law with other figures, within the bounds of a fit."""
        slowed = {key: min(1.0, figures[_speed_name(*key)]) for key in self.slowed}
        delays = {tier: figures.get(_delay_name(tier), 0.0) for tier in self.delay_s}
        return replace(
            self,
            work_s=figures["work_s"],
            spread=_clip(figures["spread"], *_SPREADS),
            slowed=slowed,
            delay_s=delays,
        )


def fit_law(arms: Sequence[Arm]) -> Law:
    """Return the law that reproduces the arms' medians and lower deciles together.

    Each step simulates all arms and corrects the work by the medians (or the time without a core,
    if all the CPU time is used already), and its spread by the distance of the lower decile.
    """
    service = arms[0].service
    tier = service.tiers[fitted_tier(service)].spec.name
    copies = _copies_per_page(service, fitted_tier(service))
    law = _initial_law(arms)
    spread = _log_mean([arm.lower_s for arm in arms])
    for _ in range(_STEPS):
        runs = list(zip(arms, _simulate_arms(arms, law), strict=True))
        simulated_s = [pages_s(arm, arm_reports) for arm, arm_reports in runs]
        median = _log_mean(
            [(a.median_s, float(np.median(o))) for a, o in zip(arms, simulated_s, strict=True)]
        )
        shape = _log_mean([lower_decile_distance(o) for o in simulated_s])
        wider = _clip(law.spread * _clip(spread / shape, 0.5, 2.0), *_SPREADS)
        same_median = math.exp((wider**2 - law.spread**2) / 2.0)  # of a lognormal of that mean
        work_s, delay_s = law.work_s * median * same_median, law.delay_s[tier]
        if delay_s > 0.0 or work_s > law.whole_s:
            late_s = [
                a.median_s - float(np.median(o)) for a, o in zip(arms, simulated_s, strict=True)
            ]
            work_s, delay_s = law.whole_s, max(0.0, delay_s + float(np.mean(late_s)) / copies)
        law = replace(
            law,
            work_s=work_s,
            delay_s={**law.delay_s, tier: delay_s},
            spread=wider,
        )
    return law


def _speed_name(tier: str, kind: str) -> str:
    return f"speed {tier}, {kind}"


def _delay_name(tier: str) -> str:
    return f"{DELAY}{tier}"


def fitted_tier(service: ServiceFit) -> int:
    """Return the index of the tier at which work is fitted: the one that varies latencies the most.

    It is the tier with the largest standard deviation of a page's time there, under its cap, if the
    work of copies is exponential: sixteen queries of 4 ms vary less than one page of 50 ms.
    """
    deviations_s = [
        math.sqrt(_copies_per_page(service, index)) * call_s(service, index) / (tier.spec.cpus or 1)
        for index, tier in enumerate(service.tiers)
    ]
    return int(np.argmax(deviations_s))


def call_s(service: ServiceFit, index: int) -> float:
    """Return the CPU time of one copy at a tier [core s], without its machines' use when idle.

    It is that of the run, not of a calibration: in a calibration (some seconds without neighbours)
    a page took 0.9 to 1.1 times the CPU time under the run's load, and a query a third to twice.
    """
    measured_s = service.tiers[index].processing_s.value or 1e-3
    calibrated = ((service.calibration or {}).get("tiers") or {}).get(
        service.tiers[index].spec.name
    )
    if not calibrated:
        return measured_s
    idle_s = float(calibrated.get("idle_cores") or 0.0) / _copies_per_s(service, index)
    return max(_BUSY_LEAST * measured_s, measured_s - idle_s)


def _copies_per_s(service: ServiceFit, index: int) -> float:
    """Return the copies per second [1/s] at a tier's machines in the run, mean over its arms."""
    requests = sum(arm.requests for arm in service.arms)
    copies = sum(arm.requests * math.prod(arm.replicas[: index + 1]) for arm in service.arms)
    pages_per_s = service.pages_per_s.value or 1.0
    return pages_per_s * _copies_per_page(service, index) * copies / requests


def _copies_per_page(service: ServiceFit, index: int) -> float:
    """Return the copies of a page at a tier with r = 1 at all tiers [-]."""
    return math.prod(tier.requests_per_copy.value or 1.0 for tier in service.tiers[: index + 1])


def _initial_law(arms: Sequence[Arm]) -> Law:
    """Return the initial figures, from the counters."""
    service = arms[0].service
    whole_s = call_s(service, fitted_tier(service))
    slowed: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for arm in arms:
        for key, speed_and_answers in arm.slowed.items():
            slowed.setdefault(key, []).append(speed_and_answers)
    speeds = {key: _weighted_mean(values) for key, values in slowed.items()}
    slow_kinds = {key: speed for key, speed in speeds.items() if speed < _SPEED_MOST}
    hosts = [arm.host for arm in arms if arm.host]
    host = (
        {key: float(np.mean([arm_host[key] for arm_host in hosts])) for key in hosts[0]}
        if hosts
        else {}
    )
    calm_s = _calm_s(arms)
    law = Law(whole_s, 0.3, whole_s, slow_kinds, correlation(arms), {}, host, calm_s)
    return replace(law, delay_s=_delays_s(arms, law))


def _calm_s(arms: Sequence[Arm]) -> dict[str, float]:
    """Return the mean latency [s] of a copy at each tier without neighbours or the tier below.

    It is the geometric mean over arms, as that of `slowed`. A tier with too few answers, or whose
    time is nearly all at the tier below, is left out."""
    calm_s = {}
    for index, tier in enumerate(arms[0].service.tiers):
        known_s = [arm.calm_own_s[index] for arm in arms]
        positive_s = [own for own in known_s if own is not None and own > 0.0]
        if positive_s:
            calm_s[tier.spec.name] = _log_mean(positive_s)
    return calm_s


def _delays_s(arms: Sequence[Arm], law: Law) -> dict[str, float]:
    """Return the time without a core [s] of a copy at each tier.

    It is the mean latency without neighbours, less that of the tier below, and less that of a
    simulation without this time. At the fitted tier it starts at 0."""
    service = arms[0].service
    fitted = fitted_tier(service)
    late_s: list[list[float]] = [[] for _ in service.tiers]
    calm = replace(law, slowed={})
    for arm, report in zip(arms, reports([arm.scenario(calm, 1) for arm in arms]), strict=True):
        pairs = zip(arm.calm_own_s, arm.simulated_own_s(report), strict=True)
        for index, (measured_s, simulated_s) in enumerate(pairs):
            if measured_s is not None and simulated_s is not None and index != fitted:
                late_s[index].append(measured_s - simulated_s)
    return {
        tier.spec.name: max(0.0, float(np.mean(late))) if late else 0.0
        for tier, late in zip(service.tiers, late_s, strict=True)
    }


def correlation(arms: Sequence[Arm]) -> float | None:
    """Return the correlation [-] of the logarithms of two answers with the same page.

    It is the share of the variance between pages (one-way analysis of variance), over answers near
    the median.

    Returns: float in [0, 1], or None if too few pages came more than once.
    """
    groups: dict[str, list[float]] = {}
    for arm in arms:
        for page, latency_s in arm.near_median:
            groups.setdefault(page, []).append(math.log(latency_s))
    repeated = [np.array(values) for values in groups.values() if len(values) > 1]
    if len(repeated) < _PAGES_AGAIN:
        return None
    sizes = np.array([len(values) for values in repeated])
    total, count = int(sizes.sum()), len(repeated)
    middle = float(np.concatenate(repeated).mean())
    between = sum(len(v) * (float(v.mean()) - middle) ** 2 for v in repeated) / (count - 1)
    inside = sum(float(((v - v.mean()) ** 2).sum()) for v in repeated) / (total - count)
    group_size = (total - float((sizes**2).sum()) / total) / (count - 1)
    return _clip((between - inside) / (between + (group_size - 1.0) * inside), 0.0, 1.0)


def _simulate_arms(arms: Sequence[Arm], law: Law) -> list[list[Report]]:
    """Return the reports of each arm, over several seeds of the work if it has few pages."""
    counts = [min(_SEEDS_MOST, math.ceil(_PAGES_ENOUGH / len(arm.measured_s))) for arm in arms]
    scenarios = [
        arm.scenario(law, seed)
        for arm, count in zip(arms, counts, strict=True)
        for seed in range(1, count + 1)
    ]
    answers = iter(reports(scenarios))
    return [[next(answers) for _ in range(count)] for count in counts]


def pages_s(arm: Arm, arm_reports: Sequence[Report]) -> Floats:
    """Return the latency [s] of each measured page in an arm's reports."""
    return np.concatenate([arm.simulated_s(report) for report in arm_reports])


def counted_s(report: Report, time_out_s: float) -> Floats:
    """Return the latency [s] of each page in a report; `time_out_s` [s] without an answer."""
    each_s = np.array([math.inf if s is None else s for s in report["each_s"]], dtype=np.float64)
    return np.minimum(each_s, time_out_s)


def lower_decile_distance(pages: Floats) -> float:
    """Return the distance of the lower decile from the median, of the logarithm [-]."""
    ordered = np.sort(pages)
    low, middle = percentile(ordered, 0.1), percentile(ordered, 0.5)
    return max(1e-3, math.log(middle / low)) if low and middle else 1e-3


def _weighted_mean(values: Sequence[tuple[float, float]]) -> float:
    """Return the geometric mean of speeds, each weighted by its number of answers."""
    logs, weights = zip(*((math.log(speed), answers) for speed, answers in values), strict=True)
    return math.exp(float(np.average(logs, weights=weights)))


def _clip(value: float, least: float, most: float) -> float:
    return max(least, min(most, value))


def _log_mean(values: Sequence[float | tuple[float, float]]) -> float:
    """Return the geometric mean of figures, or of ratios of pairs."""
    ratios = [v[0] / v[1] if isinstance(v, tuple) else v for v in values]
    return math.exp(float(np.mean(np.log(ratios))))
