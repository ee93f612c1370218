"""Accuracy of the simulator: it is fitted to some arms of a live run and predicts the others.

`fidelity` fits one arm and predicts others. `cross_validate` leaves out each arm in turn, fits the
rest and predicts that arm with an interval: figures are drawn with their variation from fit to fit,
and the work from another seed; arrivals and neighbours are those of the arm. Of the predicted arm
only its arrivals, neighbours, policy, r and tokens are used. The simulator is trusted if each
measured figure lies in its interval. The interval includes the simulator's own error (`stretch`),
and is never narrower than `_NEAR` on each side of a latency.
If this error is no larger than stated, all figures lie in their intervals with the stated
confidence. The runs of a plan are drawn with this error too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from core.arrays import Floats
from core.errors import InputError
from core.statistics.percentiles import percentile
from optimizer.fit import fit, read_results
from optimizer.simulation.arm import PERCENTILES, Arm
from optimizer.simulation.law import DELAY, OWN_JOBS, Law, fit_law, fitted_tier
from optimizer.simulation.program import reports

CONFIDENCE = 0.95  # of all figures of all arms together
_SEEDS = 20  # of a prediction without an interval
_PAGES_ENOUGH = 50_000
_DRAWS = 40  # behind an interval
_BEYOND_LEAST = 10  # samples beyond a percentile, for it to be compared with its interval
_SPREAD_LEAST = {"work_s": 0.05, "spread": 0.1}  # of a figure's logarithm
_DELAY_LEAST = 0.05  # of a time without a core, over that time
_SPREAD_OTHERS = 0.15
# Relative: a latency that is nearer to its prediction is not missed, however little runs vary. If a
# network card takes most of a reply's time, p50 is predicted within 0.3 %, and was off by 0.6 %.
_NEAR = 0.05
_FACTOR_MOST = 4.0  # of an interval that proves something
_TIMES_MOST = 1_000.0  # times as long: more is out of reach
# Spread of the logarithm of p95 - p50, measured over simulated: 0.31 for twelve arms of four runs
# of the demo, 0.58 for four planned fleets, 0.39 for all. docs/results/closed-loop.md.
TAIL_SPREAD = 0.4


@dataclass(frozen=True)
class Fidelity:
    """Percentiles [s] of both arms, measured and simulated, by rank."""

    fitted_arm: str
    predicted_arm: str
    requests: int
    tier: str  # the one at which work is fitted
    work_s: float  # of a copy there, before the reply
    after_s: float  # and after the reply
    copies_correlation: float | None  # of the work of a page's copies; None: unknown
    speeds: Mapping[str, float]  # of a slowed server, by "tier, kind of neighbour"
    host_cores: float | None  # shared by all machines; None if each machine has its own
    busy_cores: float  # of these, used by other work than the tiers' servers
    fitted: Mapping[str, tuple[float, float]]  # p50, p95, p99: measured, simulated
    predicted: Mapping[str, tuple[float, float]]

    @property
    def off(self) -> dict[str, float]:
        """simulated / measured - 1 [-] of the predicted arm, by rank."""
        return {name: ours / real - 1.0 for name, (real, ours) in self.predicted.items()}


@dataclass(frozen=True)
class ValueCheck:
    """A measured figure and its prediction: the middle and an interval."""

    name: str
    measured: float
    point: float
    low: float
    high: float
    counts: bool  # False: too few samples beyond it, or an arm with another policy
    factor: float = 1.0  # of a latency: width of the interval without the simulator's own error

    @property
    def inside(self) -> bool:
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class FittedLaw:
    """The law of all arms, the spread of its figures, and its predictions of unseen arms."""

    law: Law
    spreads: Mapping[str, float]  # for another arm, of the logarithm; of a delay [s]
    arms: Mapping[str, tuple[ValueCheck, ...]]  # each predicted from the others; empty for one arm

    @property
    def missed(self) -> list[str]:
        """Figures outside their interval, in words."""
        return [
            f"arm {arm}: {check.name} measured {check.measured:.4g}, predicted {check.low:.4g} to "
            f"{check.high:.4g}"
            for arm, checks in self.arms.items()
            for check in checks
            if check.counts and not check.inside
        ]

    @property
    def vague(self) -> list[str]:
        """Latencies whose interval is too wide to prove anything, in words."""
        return [
            f"arm {arm}: {check.name} is predicted to a factor of {check.factor:.2g}"
            for arm, checks in self.arms.items()
            for check in checks
            if check.counts and check.name.endswith("_ms") and check.factor > _FACTOR_MOST
        ]

    @property
    def times_as_long(self) -> float:
        """Factor [-] by which a run must be longer so that no interval is vague; 1: long enough.

        An interval's factor is the exponential of a width that falls with the square root of the
        length. A factor of some thousand counts as infinite: a longer run does not help."""
        widths = [
            math.log(check.factor) / math.log(_FACTOR_MOST)
            for checks in self.arms.values()
            for check in checks
            if check.counts and check.name.endswith("_ms")
        ]
        times = max([1.0, *(width**2 for width in widths)])
        return times if times < _TIMES_MOST else math.inf

    @property
    def trusted(self) -> bool:
        """True if unseen arms were predicted, precisely enough, and none was missed."""
        return bool(self.arms) and not self.missed and not self.vague

    def draw_law(self, rng: np.random.Generator) -> Law:
        """Return the law with figures drawn from their spread."""
        return _draw_law(self.law, self.spreads, rng)


def stretch(pages_s: Floats, deviation: float, time_out_s: float) -> Floats:
    """Return latencies with the simulator's own error.

    The time that a page takes beyond the median is multiplied by exp(TAIL_SPREAD * deviation).

    Parameters: pages_s of a run [s]; deviation, drawn from a standard normal law; time_out_s [s],
    which no page exceeds.
    """
    middle_s = float(np.median(pages_s))
    beyond_s = np.maximum(0.0, pages_s - middle_s)
    stretched_s = np.minimum(time_out_s, pages_s + math.expm1(TAIL_SPREAD * deviation) * beyond_s)
    return np.where(pages_s >= time_out_s, pages_s, stretched_s)


def standard_normal(rng: np.random.Generator) -> float:
    """Return a number of the standard normal law, within three standard deviations."""
    return float(np.clip(rng.standard_normal(), -3.0, 3.0))


def fidelity(run_dir: Path, fitted_arm: str, predicted_arms: Sequence[str] = ()) -> list[Fidelity]:
    """Fit one arm of a run and predict others: all of them if none are named.

    Raises: InputError for an arm that is not in the run, or a run with too little evidence.
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
    first = Arm(results, service, fitted_arm)
    predicted = predicted_arms or [name for name in results.arms if name != fitted_arm]
    law = fit_law([first])
    pairs = _pairs(first, law)
    fidelities = []
    for name in predicted:
        second = Arm(results, service, name, "--predict")
        fidelities.append(
            Fidelity(
                fitted_arm=fitted_arm,
                predicted_arm=name,
                requests=len(second.measured_s),
                tier=service.tiers[fitted_tier(service)].spec.name,
                work_s=law.work_s,
                after_s=law.after_s,
                copies_correlation=law.correlation,
                speeds={", ".join(key): law.speed(*key) for key in law.slowed},
                host_cores=law.host.get("cores"),
                busy_cores=law.host.get("busy_cores", 0.0),
                fitted=pairs,
                predicted=_pairs(second, law),
            )
        )
    return fidelities


def cross_validate(arms: Sequence[Arm], limits_ms: Sequence[float], policy: str) -> FittedLaw:
    """Return the law of a run's arms, checked by leaving out each arm in turn.

    Parameters: arms; limits_ms of latency [ms]: the share of pages beyond each is checked too;
    policy of the fleets that are to be simulated. All arms are predicted, but only arms with this
    policy count, if there are any: an arm that avoids slowed servers says little about an arm that
    does not. The law is still fitted to all arms.
    """
    law = fit_law(arms)
    if len(arms) < 2:
        return FittedLaw(law, _spreads(law, []), {})
    laws_without = [fit_law([*arms[:i], *arms[i + 1 :]]) for i in range(len(arms))]
    spreads = _spreads(law, laws_without)
    counting = {arm.name for arm in arms if arm.policies == {policy}} or {arm.name for arm in arms}
    checks = _count(limits_ms) * len(counting)
    checks_by_arm = {
        arm.name: tuple(
            replace(check, counts=check.counts and arm.name in counting)
            for check in _compare_arm(arm, other_law, spreads, limits_ms, checks)
        )
        for arm, other_law in zip(arms, laws_without, strict=True)
    }
    return FittedLaw(law, spreads, checks_by_arm)


def _spreads(law: Law, other_laws: Sequence[Law]) -> dict[str, float]:
    """Return the spread of another arm's figures around those of the law.

    It is the jackknife's standard error, sqrt((K - 1) / K sum (x_k - mean)^2), times sqrt(K + 1),
    because the law is a mean of K arms. It is at least a floor, because a few arms may agree by
    chance. Figures vary by a factor, times without a core by seconds: as the rest of a latency they
    may be near zero, where a factor says nothing."""
    spreads = {}
    for name, figure in law.figures.items():
        values = np.array(
            [other_law.figures[name] for other_law in other_laws if name in other_law.figures]
        )
        least = _SPREAD_LEAST.get(name, _SPREAD_OTHERS)
        if name.startswith(DELAY):
            least = _DELAY_LEAST * figure
        else:
            values = np.log(values)
        k = len(values)
        error = math.sqrt((k - 1) / k * float(((values - values.mean()) ** 2).sum())) if k else 0.0
        spreads[name] = max(error * math.sqrt(k + 1.0), least)
    return spreads


def _draw_law(law: Law, spreads: Mapping[str, float], rng: np.random.Generator) -> Law:
    """Draw a law within the spread of the fits.

    A kind of neighbour that only some arms have gets the least spread."""
    figures = {}
    for name, value in law.figures.items():
        deviation = spreads.get(name, _SPREAD_OTHERS) * standard_normal(rng)
        is_delay = name.startswith(DELAY)
        figures[name] = max(0.0, value + deviation) if is_delay else value * math.exp(deviation)
    return replace(law.with_figures(figures), own_jobs=float(rng.uniform(*OWN_JOBS)))


def _count(limits_ms: Sequence[float]) -> int:
    return len(PERCENTILES) + len(limits_ms)


def _compare_arm(
    arm: Arm, law: Law, spreads: Mapping[str, float], limits_ms: Sequence[float], checks: int
) -> list[ValueCheck]:
    """Return the arm's figures and their predictions.

    Each interval has the level 1 - (1 - CONFIDENCE) / checks."""
    rng = np.random.default_rng(0)
    scenarios = [arm.scenario(_draw_law(law, spreads, rng), seed + 1) for seed in range(_DRAWS)]
    simulated_s = [np.sort(arm.simulated_s(report)) for report in reports(scenarios)]
    stretched_s = [stretch(pages, standard_normal(rng), arm.time_out_s) for pages in simulated_s]
    real = np.sort(arm.measured_s)
    results = [_check_percentile(q, real, simulated_s, stretched_s, checks) for q in PERCENTILES]
    for limit_ms in limits_ms:
        shares = [float(np.mean(pages > limit_ms / 1000.0)) for pages in stretched_s]
        values = np.arcsin(np.sqrt(shares))  # of equal variance whatever the share
        least = math.asin(math.sqrt(1.0 / len(real)))  # one page more or less
        point, low, high = _interval(values, checks)
        results.append(
            ValueCheck(
                f"share beyond {limit_ms:g} ms",
                float(np.mean(real > limit_ms / 1000.0)),
                _share(point),
                _share(min(low, point - least)),
                _share(max(high, point + least)),
                counts=True,
            )
        )
    return results


def _check_percentile(
    q: float,
    real_s: Floats,
    simulated_s: Sequence[Floats],
    stretched_s: Sequence[Floats],
    checks: int,
) -> ValueCheck:
    """Return a measured percentile and its prediction.

    Parameters: real_s, measured and sorted [s]; simulated_s, sorted pages of each run; stretched_s,
    the same runs with the simulator's own error.
    """
    point, low, high = _interval(_logs(stretched_s, q), checks)
    middle, _, most = _interval(_logs(simulated_s, q), checks)
    beyond = len(real_s) * (1.0 - q / 100.0)
    return ValueCheck(
        f"p{q:g}_ms",
        1000.0 * (percentile(real_s, q / 100.0) or 0.0),
        1000.0 * math.exp(point),
        1000.0 * math.exp(min(low, point + math.log1p(-_NEAR))),
        1000.0 * math.exp(max(high, point + math.log1p(_NEAR))),
        counts=beyond >= _BEYOND_LEAST - 1e-9,
        factor=math.exp(most - middle),
    )


def _logs(runs: Sequence[Floats], q: float) -> Floats:
    """Return the logarithms of a percentile of each run."""
    return np.log([percentile(pages, q / 100.0) or 1e-6 for pages in runs])


def _share(angle: float) -> float:
    return math.sin(min(math.pi / 2.0, max(0.0, angle))) ** 2


def _interval(values: Floats, checks: int) -> tuple[float, float, float]:
    """Return the middle and ends of the prediction interval for one more value of a normal law.

    The interval is Student's; its level is the share of CONFIDENCE for each of `checks` checks."""
    from scipy.special import stdtrit

    n = len(values)
    level = 1.0 - (1.0 - CONFIDENCE) / checks / 2.0
    half = float(stdtrit(n - 1, level)) * float(values.std(ddof=1)) * math.sqrt(1.0 + 1.0 / n)
    middle = float(values.mean())
    return middle, middle - half, middle + half


def _pairs(arm: Arm, law: Law) -> dict[str, tuple[float, float]]:
    """Return the percentiles, measured and simulated, as means over several seeds of the work."""
    count = min(_SEEDS, math.ceil(_PAGES_ENOUGH / len(arm.measured_s)))
    answers = reports([arm.scenario(law, s) for s in range(1, count + 1)])
    pages = [np.sort(arm.simulated_s(report)) for report in answers]
    return {
        f"p{q:g}": (real_s, float(np.mean([percentile(p, q / 100.0) or 0.0 for p in pages])))
        for q, real_s in arm.percentiles_s.items()
    }
