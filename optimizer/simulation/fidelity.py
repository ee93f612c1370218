"""Accuracy of the simulator: fitted to some arms of a live run, for the others' latencies.

`fidelity` fits one arm and predicts others. `crossed` leaves out each arm in turn, fits the rest
and predicts it with an interval: figures are drawn with their variation from fit to fit, and the
work from another seed; arrivals and neighbours are the arm's own. Of the predicted arm only its
arrivals, neighbours, policy, r and tokens are used. The simulator is trusted if each measured
figure lies in its interval. The interval has the simulator's own error in it (`stretched`); while
that is no larger than stated, all of them do with the stated confidence. A plan pays for that
error: its runs are drawn with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.errors import InputError
from core.statistics.percentiles import percentile
from optimizer.fit import fit, read_results
from optimizer.simulation.arm import PERCENTILES, Arm
from optimizer.simulation.law import Law, counted_s, fitted
from optimizer.simulation.program import reports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CONFIDENCE = 0.95  # of all figures of all arms together
_SEEDS = 20  # of a prediction without an interval
_PAGES_ENOUGH = 50_000
_DRAWS = 40  # behind an interval
_BEYOND_LEAST = 10  # samples beyond a percentile that is held against its interval
_SPREAD_LEAST = {"work_s": 0.05, "delay": 0.05, "spread": 0.1}  # of a figure's logarithm
_SPREAD_OTHERS = 0.15
_FACTOR_MOST = 4.0  # of an interval that proves something
_TIMES_MOST = 1_000.0  # as long: no run
# Spread of the logarithm of p95 - p50, measured over simulated: 0.31 for twelve arms of four runs
# of the demo, 0.58 for four planned fleets, 0.39 for all. docs/results/closed-loop.md.
TAIL_SPREAD = 0.4


@dataclass(frozen=True)
class Fidelity:
    """Percentiles [s] of both arms, measured and simulated, by rank."""

    fitted_arm: str
    predicted_arm: str
    requests: int
    work_s: float  # of the web tier, before the reply
    after_s: float  # and after it
    copies_correlation: float | None  # of the work of a page's copies; None: not told
    speeds: Mapping[str, float]  # of a server, by "tier, kind of neighbour"; of what slowed it
    host_cores: float | None  # that all machines share; None where each has its own
    busy_cores: float  # of them, used by others than the tiers' servers
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
    counts: bool  # False: too few samples beyond it, or an arm of a policy that is not asked about
    factor: float = 1.0  # of a latency: that of the interval without the simulator's own error

    @property
    def inside(self) -> bool:
        """True if the measured figure lies in the interval."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class Fitted:
    """The law of all arms, the spread of its figures, and its predictions of unseen arms."""

    law: Law
    spreads: Mapping[str, float]  # standard deviation of the logarithm, for another arm
    arms: Mapping[str, tuple[ValueCheck, ...]]  # predicted from the others; none of a single arm

    @property
    def missed(self) -> list[str]:
        """Figures outside their interval, in words."""
        return [
            f"arm {arm}: {one.name} measured {one.measured:.4g}, predicted {one.low:.4g} to "
            f"{one.high:.4g}"
            for arm, held in self.arms.items()
            for one in held
            if one.counts and not one.inside
        ]

    @property
    def vague(self) -> list[str]:
        """Latencies whose interval is too wide to prove anything, in words."""
        return [
            f"arm {arm}: {one.name} is predicted to a factor of {one.factor:.2g}"
            for arm, held in self.arms.items()
            for one in held
            if one.counts and one.name.endswith("_ms") and one.factor > _FACTOR_MOST
        ]

    @property
    def times_as_long(self) -> float:
        """Factor [-] by which a run must be longer so that no interval is vague; 1: long enough.

        An interval's factor is the exponential of a width that falls with the square root of the
        length. A factor of some thousand counts as infinite: a longer run does not help."""
        widths = [
            math.log(one.factor) / math.log(_FACTOR_MOST)
            for held in self.arms.values()
            for one in held
            if one.counts and one.name.endswith("_ms")
        ]
        times = max([1.0, *(width**2 for width in widths)])
        return times if times < _TIMES_MOST else math.inf

    @property
    def trusted(self) -> bool:
        """True if unseen arms were predicted, precisely enough, and none was missed."""
        return bool(self.arms) and not self.missed and not self.vague

    def drawn(self, rng: np.random.Generator) -> Law:
        """Return the law with figures drawn from their spread."""
        return _drawn(self.law, self.spreads, rng)


def stretched(pages_s: Floats, off: float, time_out_s: float) -> Floats:
    """Return latencies with the simulator's own error: what a page takes beyond the median is
    longer by the factor exp(TAIL_SPREAD * off).

    Parameters: pages_s of a run [s]; off, drawn from a standard normal law; time_out_s [s], which
    no page exceeds.
    """
    middle_s = float(np.median(pages_s))
    beyond_s = np.maximum(0.0, pages_s - middle_s)
    found = np.minimum(time_out_s, pages_s + math.expm1(TAIL_SPREAD * off) * beyond_s)
    return np.where(pages_s >= time_out_s, pages_s, found)


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
    others = predicted_arms or [name for name in results.arms if name != fitted_arm]
    law = fitted([first])
    pairs = _pairs(first, law)
    found = []
    for name in others:
        second = Arm(results, service, name, "--predict")
        found.append(
            Fidelity(
                fitted_arm=fitted_arm,
                predicted_arm=name,
                requests=len(second.measured_s),
                work_s=law.work_s,
                after_s=law.after_s,
                copies_correlation=law.correlation,
                speeds={", ".join(both): law.speed(*both) for both in law.slowed},
                host_cores=law.host.get("cores"),
                busy_cores=law.host.get("busy_cores", 0.0),
                fitted=pairs,
                predicted=_pairs(second, law),
            )
        )
    return found


def crossed(arms: Sequence[Arm], limits_ms: Sequence[float], policy: str) -> Fitted:
    """Return the law of a run's arms, checked by leaving out each arm in turn.

    Parameters: arms; limits_ms of latency [ms]: the share of pages beyond each is checked too;
    policy of the fleets that are to be simulated: arms with another one are predicted, but only
    these count, if there are any. An arm that avoids slowed servers says little of an arm that does
    not, if it is left out, and the law of all arms has what both say.
    """
    law = fitted(arms)
    if len(arms) < 2:
        return Fitted(law, _spreads(law, []), {})
    others = [fitted([*arms[:i], *arms[i + 1 :]]) for i in range(len(arms))]
    spreads = _spreads(law, others)
    asked = {arm.name for arm in arms if arm.policies == {policy}} or {arm.name for arm in arms}
    checks = _count(limits_ms) * len(asked)
    held = {
        arm.name: tuple(
            replace(check, counts=check.counts and arm.name in asked)
            for check in _compare_arm(arm, one, spreads, limits_ms, checks)
        )
        for arm, one in zip(arms, others, strict=True)
    }
    return Fitted(law, spreads, held)


def _spreads(law: Law, others: Sequence[Law]) -> dict[str, float]:
    """Spread of another arm's figures around the law's: the jackknife's standard error,
    sqrt((K - 1) / K sum (x_k - mean)^2), times sqrt(K + 1), because the law is a mean of K arms; at
    least a floor, because a few arms may agree by chance."""
    found = {}
    for name in law.figures:
        values = np.log([one.figures[name] for one in others if name in one.figures])
        k = len(values)
        error = math.sqrt((k - 1) / k * float(((values - values.mean()) ** 2).sum())) if k else 0.0
        found[name] = max(
            error * math.sqrt(k + 1.0), _SPREAD_LEAST.get(name.split()[0], _SPREAD_OTHERS)
        )
    return found


def _drawn(law: Law, spreads: Mapping[str, float], rng: np.random.Generator) -> Law:
    figures = {
        name: value * math.exp(_spread_of(name, spreads) * standard_normal(rng))
        for name, value in law.figures.items()
    }
    return law.having(figures)


def _spread_of(name: str, spreads: Mapping[str, float]) -> float:
    """Return the spread of a figure; the minimum for a kind of neighbour of some fits only."""
    return spreads.get(name, _SPREAD_OTHERS)


def _count(limits_ms: Sequence[float]) -> int:
    return len(PERCENTILES) + len(limits_ms)


def _compare_arm(
    arm: Arm, law: Law, spreads: Mapping[str, float], limits_ms: Sequence[float], checks: int
) -> list[ValueCheck]:
    """Return the arm's figures and their predictions, each interval at 1 - (1 - CONFIDENCE) /
    checks.
    """
    rng = np.random.default_rng(0)
    asked = [arm.scenario(_drawn(law, spreads, rng), seed + 1) for seed in range(_DRAWS)]
    own = [np.sort(counted_s(report, arm.time_out_s)) for report in reports(asked)]
    drawn = [stretched(pages, standard_normal(rng), arm.time_out_s) for pages in own]
    real = np.sort(arm.measured_s)
    found = []
    for q in PERCENTILES:
        point, low, high = _interval(_logs(drawn, q), checks)
        middle, _, most = _interval(_logs(own, q), checks)
        beyond = len(real) * (1.0 - q / 100.0)
        found.append(
            ValueCheck(
                f"p{q:g}_ms",
                1000.0 * (percentile(real, q / 100.0) or 0.0),
                1000.0 * math.exp(point),
                1000.0 * math.exp(low),
                1000.0 * math.exp(high),
                counts=beyond >= _BEYOND_LEAST - 1e-9,
                factor=math.exp(most - middle),
            )
        )
    for limit_ms in limits_ms:
        shares = [float(np.mean(pages > limit_ms / 1000.0)) for pages in drawn]
        values = np.arcsin(np.sqrt(shares))  # of equal variance whatever the share
        least = math.asin(math.sqrt(1.0 / len(real)))  # one page more or less
        point, low, high = _interval(values, checks)
        found.append(
            ValueCheck(
                f"share beyond {limit_ms:g} ms",
                float(np.mean(real > limit_ms / 1000.0)),
                _share(point),
                _share(min(low, point - least)),
                _share(max(high, point + least)),
                counts=True,
            )
        )
    return found


def _logs(runs: Sequence[Floats], q: float) -> Floats:
    """Return the logarithms of a percentile of each run."""
    return np.log([percentile(pages, q / 100.0) or 1e-6 for pages in runs])


def _share(angle: float) -> float:
    return math.sin(min(math.pi / 2.0, max(0.0, angle))) ** 2


def _interval(values: Floats, checks: int) -> tuple[float, float, float]:
    """Middle and ends of the prediction interval (Student's) for one more value of a normal law, at
    the level that each of so many checks has of CONFIDENCE."""
    from scipy.special import stdtrit

    n = len(values)
    level = 1.0 - (1.0 - CONFIDENCE) / checks / 2.0
    half = float(stdtrit(n - 1, level)) * float(values.std(ddof=1)) * math.sqrt(1.0 + 1.0 / n)
    middle = float(values.mean())
    return middle, middle - half, middle + half


def _pairs(arm: Arm, law: Law) -> dict[str, tuple[float, float]]:
    """Percentiles, measured and simulated, means over several seeds of the work."""
    count = min(_SEEDS, math.ceil(_PAGES_ENOUGH / len(arm.measured_s)))
    found = reports([arm.scenario(law, s) for s in range(1, count + 1)])
    pages = [np.sort(counted_s(report, arm.time_out_s)) for report in found]
    return {
        f"p{q:g}": (real_s, float(np.mean([percentile(p, q / 100.0) or 0.0 for p in pages])))
        for q, real_s in arm.percentiles_s.items()
    }
