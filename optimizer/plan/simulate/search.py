"""The cheapest fleet that keeps the whole SLO, by simulation.

The law and the solver propose, the simulator decides. Fleets are taken in order of cost
(`candidates`). Each is simulated until it is known if it keeps the SLO in enough runs
(`sequential`), up to the first that does. A run keeps the SLO by the rule of a real verdict: at
most the allowed share of pages is beyond a limit or fails; failures count with their time-out, and
faults are included. If the simulator does not predict the measured run (`fidelity.cross_validate`),
nothing is claimed: the plan is the law's fleet, undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from core.errors import SparecraftError
from core.statistics.percentiles import percentile
from core.tolerances import CENT
from optimizer.fit import Results, ServiceFit
from optimizer.fit.spec import TierSettings
from optimizer.plan.explain.curve import fleet_text
from optimizer.plan.explain.report import Outlook, tier_plans
from optimizer.plan.inputs.case import Case
from optimizer.plan.simulate.bands import (
    BEST,
    HOPELESS,
    SEEN_MOST,
    SHORT_PAGES,
    SHORT_RUNS,
    STEP,
    bands_downwards,
    bands_upwards,
    sample_band,
    score,
)
from optimizer.plan.simulate.candidates import Kind, fleets_by_cost, kind_of
from optimizer.plan.simulate.redrawn import LATER_SPREAD, Redrawn, SimulatedTier
from optimizer.plan.simulate.sequential import (
    BROKEN_ERROR,
    FLEETS_MOST,
    KEPT_ERROR,
    LOOKS,
    KeepingTest,
    Verdict,
)
from optimizer.plan.solve.deadline import Clock, Deadline
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem
from optimizer.simulation.arm import Arm
from optimizer.simulation.fidelity import TAIL_SPREAD, FittedLaw, cross_validate
from optimizer.simulation.forms import Report
from optimizer.simulation.law import DELAY, fitted_tier
from optimizer.simulation.program import reports

LIMIT_S = 55.0
PAGES = 1_000  # of a simulated run: ten beyond its p99
REFUSED_S = 4.0  # for the refused fleet: with LIMIT_S less than a minute
CONFIDENCE = 0.9  # default probability that a run keeps the SLO
INTERVAL = 0.9  # of a predicted figure, for one run
_STEP = 20  # runs between two looks at the clock
_SHOWN = 80  # least number of runs behind a distribution
_PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Run:
    """A simulated run: percentiles [ms], the shares of pages beyond limits, the tiers' CPU."""

    percentile_ms: dict[int, float]
    beyond: dict[int, float]  # share of pages, by the percentile whose limit it is
    failed: float
    cpu: tuple[float, ...]


class Interval(TypedDict):
    """The median, and the ends of the interval that contains the share INTERVAL of the runs."""

    point: float
    low: float
    high: float


class Figures(TypedDict):
    """Predicted figures of one run of a fleet."""

    p50_ms: Interval
    p95_ms: Interval
    p99_ms: Interval
    share_beyond: dict[str, Interval]
    failed_share: Interval
    cpu: dict[str, Interval]


class Distribution(TypedDict):
    """Predicted figures of the planned fleet for one run, with and without faults."""

    confidence: float
    pages: int
    runs: int
    kept_share: float
    with_faults: Figures
    without_faults: Figures


@dataclass(frozen=True)
class Refused:
    """The next cheaper fleet that is shown to keep the SLO in fewer of its runs than is asked."""

    path: Path
    predicted: Distribution
    kept: int  # of the runs

    @property
    def runs(self) -> int:
        return self.predicted["runs"]


@dataclass(frozen=True)
class Decided:
    """`simulation` of plan.json, the fleet that keeps the SLO, if any, and its prediction."""

    body: Mapping[str, Any]
    path: Path | None = None
    predicted: Distribution | None = None
    refused: Refused | None = None

    @property
    def verdict(self) -> str:
        """kept, undecided or not-simulated."""
        return str(self.body["verdict"])

    def outlook(self, law: Outlook) -> Outlook:
        """Return `predicted` of plan.json: the figures of the law, and the distribution.

        If the simulator decided, its points without faults replace the law's figures, which move to
        the key `law`."""
        if self.path is None or self.predicted is None:
            return {**law, "distribution": self.predicted}
        return simulated_outlook(law, self.predicted)


def simulated_outlook(law: Outlook, predicted: Distribution) -> Outlook:
    """Return `predicted` of plan.json with the simulated figures; the law's are under `law`."""
    calm = predicted["without_faults"]
    return {
        **law,
        "distribution": predicted,
        "p95_ms": calm["p95_ms"]["point"],
        "p99_ms": calm["p99_ms"]["point"],
        "evidence": "simulated",
        "law": {
            "p95_ms": law["p95_ms"],
            "p99_ms": law["p99_ms"],
            "evidence": law["evidence"],
        },
    }


@dataclass
class _Fleet:
    path: Path
    runs: list[Run] = field(default_factory=list)
    kept_runs: int = 0
    verdict: Verdict = Verdict.undecided


def idle_cores(service: ServiceFit) -> dict[str, float]:
    """Return the cores that one machine of each tier uses without requests, by the calibration.

    A run measures them, but they are no part of the work of pages. Empty without a calibration."""
    calibrated = (service.calibration or {}).get("tiers") or {}
    return {
        tier.spec.name: float(calibrated[tier.spec.name]["idle_cores"]) / tier.spec.nodes
        for tier in service.tiers
        if tier.spec.name in calibrated
    }


def not_simulated(reason: str) -> Decided:
    """Return the absence of a simulation, with its reason."""
    return Decided({"verdict": "not-simulated", "reason": reason})


def decide(
    case: Case,
    problem: Problem,
    law_path: Path,
    results: Results,
    service: ServiceFit,
    *,
    clock: Clock,
    say: Callable[[str], None] = lambda _describe: None,
) -> Decided:
    """Return the cheapest fleet that keeps the SLO, within LIMIT_S.

    Parameters: law_path, the fleet that the law proposes; results, the run behind the service; say
    is called with messages of progress.
    """
    deadline = Deadline(LIMIT_S, clock)
    try:
        return _Search(case, problem, law_path, results, service, deadline, say).decide()
    except SparecraftError as error:
        return not_simulated(str(error))


class _Search:
    def __init__(
        self,
        case: Case,
        problem: Problem,
        law_path: Path,
        results: Results,
        service: ServiceFit,
        deadline: Deadline,
        say: Callable[[str], None],
    ) -> None:
        self._case, self._problem, self._law_path = case, problem, law_path
        self._deadline, self._say = deadline, say
        self._limits_ms = dict(case.slo.latency_ms)
        stated = (results.manifest.get("spec") or {}).get("slo") or {}
        self._failed_most = stated.get("max_error_share")
        say("simulation: fitting the run's arms")
        self._arms = [Arm(results, service, name) for name in results.arms]
        self._fitted = cross_validate(self._arms, list(self._limits_ms.values()), case.policy)
        self._world = Redrawn(self._arms, self._fitted, case.tiers[0].request_per_s, PAGES)
        self._short = Redrawn(self._arms, self._fitted, case.tiers[0].request_per_s, SHORT_PAGES)
        self._test = KeepingTest(case.slo.confidence or CONFIDENCE)
        self._idle_cores = idle_cores(service)
        self._fleets: list[_Fleet] = []
        self._ended, self._left_open = "", 0
        self._screened: dict[Kind, tuple[Path, float]] = {}  # fleets that had short runs, scores

    def decide(self) -> Decided:
        """Return the decision, or the reason why there is none."""
        if self._world.unknown:
            return not_simulated(f"no simulation of {', '.join(self._world.unknown)}")
        reason = self._find_distrust()
        if reason:
            return self._predict_undecided(reason)
        chosen = self._find_cheapest()
        if chosen is None:
            return self._predict_undecided(self._ended)
        body = self._body(Verdict.kept, None, chosen)
        return Decided(body, chosen.path, self._distribution(chosen), self._next_cheaper(chosen))

    def _next_cheaper(self, chosen: _Fleet) -> Refused | None:
        """Return the dearest fleet below the plan that keeps the SLO too seldom, or None.

        It is one that was tested, or whose short runs were hopeless, and that is shown to keep the
        SLO less often than asked. Runs are completed after the search, within REFUSED_S."""
        self._deadline = Deadline(REFUSED_S, self._deadline.clock)
        hopeless = [_Fleet(path) for path, points in self._screened.values() if points > HOPELESS]
        fleets = [*self._fleets, *hopeless]
        below = [fleet for fleet in fleets if cost(fleet.path) < cost(chosen.path) - CENT]
        for fleet in sorted(below, key=lambda fleet: -cost(fleet.path)):
            is_complete = len(fleet.runs) >= _SHOWN or self._run_until(fleet, _SHOWN)
            if is_complete and self._test.seldom(fleet.kept_runs, len(fleet.runs)):
                return Refused(fleet.path, self._distribution(fleet), fleet.kept_runs)
        return None

    def _find_distrust(self) -> str:
        """Return the reason not to trust the simulator; empty if there is none."""
        if not self._fitted.arms:
            return "the run has one arm, so the simulator was checked on no other"
        if missed := self._fitted.missed:
            return (
                f"the simulator misses the measured run: {'; '.join(missed)}; a longer run alone "
                "does not mend that"
            )
        if vague := self._fitted.vague:
            reason = f"the run says too little to check the simulator: {'; '.join(vague)}"
            if addition := self._blocks_missing():
                reason += (
                    f"; measure {addition['blocks_of_each_arm']} more blocks of each arm, about "
                    f"{addition['minutes']} minutes"
                )
            return reason
        return ""

    def _blocks_missing(self) -> dict[str, int] | None:
        """Return the additional blocks to measure so that no interval is vague.

        None if there are none, or if no run would be long enough.
        """
        times = self._fitted.times_as_long
        if times <= 1.0 or not math.isfinite(times):
            return None
        spans = [span for arm in self._arms for span in arm.spans]
        blocks = math.ceil((times - 1.0) * len(spans) / len(self._arms))
        block_s = float(np.mean([b - a for a, b in spans]))
        minutes = math.ceil(blocks * len(self._arms) * block_s / 60.0)
        return {"blocks_of_each_arm": blocks, "minutes": minutes}

    def _predict_undecided(self, reason: str) -> Decided:
        """Return a prediction for the law's fleet, without a claim."""
        equal_fleets = [f for f in self._fleets if kind_of(f.path) == kind_of(self._law_path)]
        fleet = equal_fleets[0] if equal_fleets else _Fleet(self._law_path)
        self._run_until(fleet, _SHOWN)
        distribution = self._distribution(fleet) if fleet.runs else None
        return Decided(self._body(Verdict.undecided, reason), None, distribution)

    def _find_cheapest(self) -> _Fleet | None:
        """Return the cheapest fleet that is shown to keep the SLO.

        The search goes upwards from the law's cost, band by band, until it has one. Then it tries
        the cheaper fleets, the dearest first.
        """
        below: list[Path] = []
        chosen = None
        paths = fleets_by_cost(self._problem, self._deadline)
        for band in bands_upwards(paths, cost(self._law_path), below):
            chosen = next(self._find_keeping(self._screen(band)), None)
            below += band
            if chosen is not None or self._is_over:
                break
        if chosen is None:
            is_late = self._deadline.left_s() <= 0.0
            self._ended = (
                f"of {len(self._screened)} fleets the best {len(self._fleets)} were tested, and "
                f"none was shown to keep the SLO{f' in {LIMIT_S:g} s' if is_late else ''}"
            )
            return None
        for apart in (STEP, 1.0):  # in steps first, then the fleets between them
            for band in bands_downwards(self._untested(below, cost(chosen.path) / apart)):
                best = self._screen(band)
                if self._is_over:
                    break
                if (cheaper_fleet := next(self._find_keeping(best), None)) is not None:
                    chosen = min(chosen, cheaper_fleet, key=lambda fleet: cost(fleet.path))
        cheaper = self._untested(below, cost(chosen.path))
        self._left_open = sum(kind_of(path) not in self._screened for path in cheaper)
        return chosen

    def _untested(self, paths: Sequence[Path], usd: float) -> list[Path]:
        """Return the fleets below a cost that were not tested."""
        tested = {kind_of(fleet.path) for fleet in self._fleets if len(fleet.runs) > LOOKS[0]}
        return [p for p in paths if cost(p) < usd - CENT and kind_of(p) not in tested]

    @property
    def _is_over(self) -> bool:
        """True if no time is left, or if the most fleets were looked at."""
        full = len(self._fleets) >= FLEETS_MOST or len(self._screened) >= SEEN_MOST
        return full or self._deadline.left_s() <= 0.0

    def _screen(self, band: Sequence[Path]) -> list[Path]:
        """Return the fleets of a band that are worth a test, by a short simulation of each.

        None without time."""
        paths = sample_band(band)
        if self._is_over:
            return []
        self._say(f"simulation: {len(paths)} fleets from {cost(paths[0]):.2f} USD, short runs")
        scenarios = [
            self._short.scenario(self._tiers(path), number)
            for path in paths
            for number in range(1, SHORT_RUNS + 1)
        ]
        answers = iter(reports(scenarios))
        scores = []
        for _ in paths:
            pages_s = [self._short.pages_s(next(answers), n + 1) for n in range(SHORT_RUNS)]
            scores.append(score(1000.0 * np.concatenate(pages_s), self._limits_ms))
        self._screened |= {
            kind_of(path): (path, points) for path, points in zip(paths, scores, strict=True)
        }
        order = sorted(range(len(paths)), key=lambda i: (scores[i], cost(paths[i])))
        return [paths[i] for i in order[:BEST] if scores[i] <= HOPELESS]

    def _find_keeping(self, paths: Sequence[Path]) -> Iterator[_Fleet]:
        """Yield the fleets that are shown to keep the SLO, tested one by one."""
        known = {kind_of(fleet.path): fleet for fleet in self._fleets}
        group = [known.get(kind_of(path)) or _Fleet(path) for path in paths]
        group = group[: max(0, FLEETS_MOST - len(self._fleets))]
        if group and self._take_first_look(group):
            yield from (fleet for fleet in group if self._test_fleet(fleet) is Verdict.kept)

    def _take_first_look(self, group: Sequence[_Fleet]) -> bool:
        """Simulate the first runs of these fleets; False if there is no time for them."""
        new_fleets = [fleet for fleet in group if not fleet.runs]
        if new_fleets and not self._simulate(new_fleets, LOOKS[0]):
            return False
        self._fleets += new_fleets
        self._say(f"simulation: {len(self._fleets)} fleets, {_describe(group[-1])}")
        return True

    def _test_fleet(self, fleet: _Fleet) -> Verdict:
        """Return the fleet's verdict, after more looks where it needs them."""
        for look in LOOKS:
            if look > len(fleet.runs) and not self._run_until(fleet, look):
                break
            fleet.verdict = self._test.verdict(fleet.kept_runs, len(fleet.runs))
            if fleet.verdict is not Verdict.undecided:
                break
            if self._test.futile(fleet.kept_runs, len(fleet.runs)):
                break
        return fleet.verdict

    def _run_until(self, fleet: _Fleet, look: int) -> bool:
        """Simulate more runs of the fleet, up to a look; False if there is no time for them."""
        self._say(f"simulation: {look} runs of {_describe(fleet)}")
        while (left := look - len(fleet.runs)) > 0:
            if not self._simulate([fleet], min(left, _STEP)):
                return False
        return True

    def _simulate(self, fleets: Sequence[_Fleet], runs: int, *, faults: bool = True) -> bool:
        """Simulate the next `runs` of each fleet; False if there is no time for them."""
        if self._deadline.left_s() <= 0.0:
            return False
        scenarios = [
            self._world.scenario(self._tiers(fleet.path), number, faults=faults)
            for fleet in fleets
            for number in range(len(fleet.runs) + 1, len(fleet.runs) + runs + 1)
        ]
        answers = iter(reports(scenarios))
        for fleet in fleets:
            first = len(fleet.runs) + 1
            new_runs = [self._run(next(answers), fleet.path, first + n) for n in range(runs)]
            fleet.runs += new_runs
            fleet.kept_runs += sum(self._keeps_slo(run) for run in new_runs)
        return True

    def _tiers(self, path: Path) -> list[SimulatedTier]:
        plans = tier_plans(self._case, path)
        return [
            SimulatedTier(
                option.nodes,
                float(option.instance.vcpus),
                TierSettings(self._case.policy, option.replicas, plans[option.tier].tokens),
            )
            for option in path
        ]

    def _run(self, report: Report, path: Path, number: int) -> Run:
        caps = [(option.tier, float(option.instance.vcpus)) for option in path]
        idle_shares = [self._idle_cores.get(tier, 0.0) / cores for tier, cores in caps]
        pages = np.sort(self._world.pages_s(report, number)) * 1000.0
        return Run(
            {q: percentile(pages, q / 100.0) or 0.0 for q in _PERCENTILES},
            {q: float(np.mean(pages > limit)) for q, limit in self._limits_ms.items()},
            float(np.mean(pages >= 1000.0 * self._world.time_out_s)),
            tuple(
                min(1.0, tier["utilisation"] + idle_share)
                for tier, idle_share in zip(report["tiers"], idle_shares, strict=True)
            ),
        )

    def _keeps_slo(self, run: Run) -> bool:
        if self._failed_most is not None and run.failed > self._failed_most:
            return False
        return all(share <= 1.0 - q / 100.0 + 1e-9 for q, share in run.beyond.items())

    def _distribution(self, fleet: _Fleet) -> Distribution:
        with_faults = self._figures(fleet.runs)
        without = with_faults
        if self._world.has_faults:
            calm = _Fleet(fleet.path)
            while len(calm.runs) < _SHOWN and self._simulate([calm], _STEP, faults=False):
                pass
            without = self._figures(calm.runs or fleet.runs)
        return {
            "confidence": INTERVAL,
            "pages": PAGES,
            "runs": len(fleet.runs),
            "kept_share": round(fleet.kept_runs / len(fleet.runs), 4),
            "with_faults": with_faults,
            "without_faults": without,
        }

    def _figures(self, runs: Sequence[Run]) -> Figures:
        names = [tier.name for tier in self._case.tiers]
        intervals = {q: _interval_of([r.percentile_ms[q] for r in runs], 2) for q in _PERCENTILES}
        return {
            "p50_ms": intervals[50],
            "p95_ms": intervals[95],
            "p99_ms": intervals[99],
            "share_beyond": {
                f"{limit:g}": _interval_of([r.beyond[q] for r in runs], 5)
                for q, limit in self._limits_ms.items()
            },
            "failed_share": _interval_of([r.failed for r in runs], 5),
            "cpu": {n: _interval_of([r.cpu[i] for r in runs], 4) for i, n in enumerate(names)},
        }

    def _body(
        self, verdict: Verdict, reason: str | None, chosen: _Fleet | None = None
    ) -> dict[str, object]:
        """Return `simulation` of plan.json."""
        law, test, service = self._fitted.law, self._test, self._arms[0].service
        return {
            "verdict": str(verdict),
            "reason": reason,
            "more": self._blocks_missing(),
            "confidence": test.confidence,
            "errors": {"kept": KEPT_ERROR, "broken": BROKEN_ERROR},
            "pages": PAGES,
            "screened": len(self._screened),
            "not_looked_at": self._left_open,
            "fleets": [self._fleet_body(fleet) for fleet in self._fleets],
            "moved": chosen is not None and kind_of(chosen.path) != kind_of(self._law_path),
            "law": {
                "fleet": fleet_text(self._law_path),
                "usd_per_month": round(cost(self._law_path), 2),
            },
            "fit": {
                "tier": service.tiers[fitted_tier(service)].spec.name,
                "work_ms": round(1000.0 * law.work_s, 3),
                "after_ms": round(1000.0 * law.after_s, 3),
                "work_log_spread": round(law.spread, 4),
                "copies_correlation": law.correlation,
                "speeds": {", ".join(k): round(law.speed(*k), 4) for k in law.slowed},
                "log_spreads": {
                    name: round(spread, 4)
                    for name, spread in self._fitted.spreads.items()
                    if not name.startswith(DELAY)
                },
                "delays_ms": {k: round(1000.0 * v, 4) for k, v in law.delay_s.items()},
                "delay_spreads_ms": {
                    name.removeprefix(DELAY): round(1000.0 * spread_s, 4)
                    for name, spread_s in self._fitted.spreads.items()
                    if name.startswith(DELAY)
                },
                "later_run_log_spread": LATER_SPREAD,
                "tail_log_spread": TAIL_SPREAD,
            },
            "fidelity": _fidelity_body(self._fitted),
            "seconds": round(LIMIT_S - self._deadline.left_s(), 1),
        }

    def _fleet_body(self, fleet: _Fleet) -> dict[str, object]:
        return {
            "fleet": fleet_text(fleet.path),
            "usd_per_month": round(cost(fleet.path), 2),
            "verdict": str(fleet.verdict),
            "kept": fleet.kept_runs,
            "runs": len(fleet.runs),
            **{
                f"p{q}_ms": round(float(np.median([r.percentile_ms[q] for r in fleet.runs])), 2)
                for q in self._limits_ms
                if fleet.runs
            },
        }


def _fidelity_body(fitted: FittedLaw) -> dict[str, object]:
    return {
        "trusted": fitted.trusted,
        "missed": fitted.missed,
        "vague": fitted.vague,
        "arms": {
            arm: {
                check.name: {
                    "measured": round(check.measured, 5),
                    "point": round(check.point, 5),
                    "low": round(check.low, 5),
                    "high": round(check.high, 5),
                    "inside": check.inside,
                    "counts": check.counts,
                }
                for check in checks
            }
            for arm, checks in fitted.arms.items()
        },
    }


def _interval_of(values: Sequence[float], digits: int) -> Interval:
    tail = (1.0 - INTERVAL) / 2.0
    low, point, high = np.quantile(values, [tail, 0.5, 1.0 - tail])
    return {
        "point": round(float(point), digits),
        "low": round(float(low), digits),
        "high": round(float(high), digits),
    }


def _describe(fleet: _Fleet) -> str:
    return f"{fleet_text(fleet.path)}, {cost(fleet.path):.2f} USD"
