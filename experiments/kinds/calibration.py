"""The rate of `[load] utilisation`, found on the fleet before the first block.

Trials search a rate near the requested share, each at most ten times the last, because a web page
takes a thousand times the CPU of a cached key. Then the fleet settles at that rate, and the CPU
time of its machines is measured in pieces, from their control groups by the node agents. The use
without load is measured last, when the start-up is over, and subtracted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl

from core.errors import MeasurementFailed
from core.json_object import JsonObject
from core.statistics.percentiles import OK
from experiments.design.experiment import Experiment, Phases
from experiments.design.feasible import feasibility_problems
from experiments.design.fleet import Fleet
from experiments.design.guard_checks import guard_problems
from experiments.design.utilisation import binding_tier, copies_of, cores_of, used
from experiments.design.workloads import reads_of
from experiments.record.metrics.bootstrap import CONFIDENCE, student_half
from experiments.record.metrics.frames import DROPPED
from experiments.record.telemetry import InfluxQuery
from experiments.run.block import SETTLING, BlockRun
from experiments.testbed.testbed import Testbed

PLACE = "load.utilisation"
FIRST_PER_S = 2.0  # any host carries it
LEAST_PER_S = 1.0  # the lowest measured rate: fewer requests tell nothing
FASTER_MOST = 10.0  # a trial's rate over the last one's
TRIALS_MAX = 4
TRIAL_S = 3.0
SETTLE_S = 5.0
PIECES = 5
PIECE_S = 4.0
IDLE_S = 4.0
TRIES_MAX = 2  # of the pieces, where they differ too much
OFF_MOST = 0.3  # half the interval of the work, over the work
SAMPLES_WAIT_S = 15.0
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Piece:
    """A stretch of the run [s since its start], and the requests that began in it."""

    start_s: float
    end_s: float
    requests: int = 0


@dataclass(frozen=True)
class Work:
    """CPU seconds of a tier per request of a user under the first arm, with the interval over
    pieces, and the cores that it uses without load."""

    cpu_s: float
    ci_low: float
    ci_high: float
    idle_cores: float


def cores_in(hosts: pl.DataFrame, machines: Sequence[str], piece: Piece) -> float:
    """Return the cores that machines use together in a stretch; a sample describes the second
    before it.

    Raises: MeasurementFailed if a machine has no sample in it.
    """
    rows = hosts.filter(
        pl.col("time_s").is_between(piece.start_s + 0.5, piece.end_s + 0.5)
        & pl.col("cpu_cores").is_not_null()
    )
    means = dict(rows.group_by("machine").agg(pl.col("cpu_cores").mean()).iter_rows())
    if missing := [name for name in machines if name not in means]:
        raise MeasurementFailed(
            PLACE,
            expected="samples of every machine's CPU",
            got=f"none of {', '.join(missing)} from {piece.start_s:.0f} to {piece.end_s:.0f} s",
            hint="See whether influxdb-1 is up and agents reach it, or state rate_per_s.",
        )
    return float(sum(means[name] for name in machines))


def work_of(
    hosts: pl.DataFrame, pieces: Sequence[Piece], idle: Piece | None, fleet: Fleet
) -> dict[str, Work]:
    """Return the work by tier, s = sum_k (cores_k - idle) T_k / sum_k n_k over pieces k of T_k
    seconds and n_k requests; its interval is Student's over the work of single pieces.

    Parameters: hosts as in hosts.parquet; idle None: nothing is subtracted.
    Raises: MeasurementFailed if a sample is missing, or a piece has no request.
    """
    if not pieces or min(piece.requests for piece in pieces) == 0:
        raise MeasurementFailed(
            PLACE,
            expected="requests in each piece of the calibration",
            got=", ".join(str(piece.requests) for piece in pieces) or "no piece",
            hint="Ask for a higher utilisation, or state rate_per_s.",
        )
    return {tier: _work(hosts, pieces, idle, fleet.nodes_of(tier)) for tier in fleet.tier_order}


def _work(
    hosts: pl.DataFrame, pieces: Sequence[Piece], idle: Piece | None, machines: Sequence[str]
) -> Work:
    idle_cores = cores_in(hosts, machines, idle) if idle else 0.0
    requests = np.array([float(piece.requests) for piece in pieces])
    lengths_s = np.array([piece.end_s - piece.start_s for piece in pieces])
    cores = np.array([cores_in(hosts, machines, piece) for piece in pieces])
    cpu_s = np.maximum(0.0, (cores - idle_cores) * lengths_s)
    mean_s = float(cpu_s.sum() / requests.sum())
    if len(pieces) == 1:
        return Work(mean_s, 0.0, math.inf, idle_cores)
    half_width_s = student_half(cpu_s / requests)
    return Work(mean_s, max(0.0, mean_s - half_width_s), mean_s + half_width_s, idle_cores)


@dataclass(frozen=True)
class Rate:
    """The rate at which the binding tier has the requested utilisation, with its interval."""

    tier: str
    per_s: float
    ci_low: float
    ci_high: float

    @property
    def uncertainty(self) -> float:
        """Half the interval of the tier's work, over the work."""
        return (self.per_s / self.ci_low - 1.0) if self.ci_low > 0.0 else math.inf


def rate_for(
    utilisation: float, work: Mapping[str, Work], copies: Mapping[str, float], fleet: Fleet
) -> Rate:
    """Return lambda = u n c / s of the binding tier, with three digits.

    Parameters: work under the first arm, whose copies these are.
    Raises: MeasurementFailed if no tier does any work.
    """
    per_copy = {tier: tier_work.cpu_s / copies[tier] for tier, tier_work in work.items()}
    tier = binding_tier(per_copy, copies, fleet)
    if tier is None:
        raise MeasurementFailed(
            PLACE,
            expected="a tier whose CPU use rises with the load",
            got="none",
            hint="State rate_per_s: the bottleneck of this service is not CPU.",
        )
    cores, binding_work = utilisation * cores_of(fleet, tier), work[tier]
    high = cores / binding_work.ci_low if binding_work.ci_low > 0.0 else math.inf
    return Rate(
        tier, float(f"{cores / binding_work.cpu_s:.3g}"), cores / binding_work.ci_high, high
    )


def experiment_at(experiment: Experiment, fleet: Fleet, rate: Rate) -> Experiment:
    """Return the experiment at that rate.

    Raises: MeasurementFailed if the rate is too uncertain, above the limit of the load workers, or
    so low that the design's guard would never look.
    """
    load = experiment.load
    refusal: tuple[str, str, str] | None = None
    if rate.uncertainty > OFF_MOST:
        refusal = (
            f"CPU per request within {OFF_MOST:.0%}",
            f"{rate.per_s:g}/s ({rate.ci_low:.3g} to {rate.ci_high:.3g}) in {PIECES} pieces",
            "Run it on a quieter host (--quiet-wait 60), let it settle longer, or state "
            "rate_per_s.",
        )
    elif rate.per_s > load.rate_per_s_max:
        refusal = (
            f"at most {load.rate_per_s_max:g} requests/s of {load.workers} worker(s)",
            f"{rate.per_s:g}/s",
            "Ask for a lower utilisation, more workers, or smaller machines.",
        )
    phases = experiment.phases.at(rate.per_s)
    at_rate = experiment.model_copy(update={"load": load.at(rate.per_s), "phases": phases})
    for problem in guard_problems(at_rate, fleet):
        key = ".".join(map(str, problem.key))
        refusal = refusal or (f"{key} of {problem.expected}", problem.got, problem.hint)
    if refusal:
        raise MeasurementFailed(PLACE, expected=refusal[0], got=refusal[1], hint=refusal[2])
    return at_rate


def calibrate(testbed: Testbed, runner: BlockRun) -> None:
    """Give the runner's design the rate; afterwards the fleet is settled, too.

    Raises: MeasurementFailed with a hint.
    """
    began = time.monotonic()
    calibration = _Calibration(testbed, runner)
    rate, work = calibration.search()
    testbed.setup_s["calibration"] = round(time.monotonic() - began, 2)
    work_text = ", ".join(
        f"{tier} {1e3 * tier_work.cpu_s:.3g} ms" for tier, tier_work in work.items()
    )
    testbed.narrator.detail(f"CPU of a request: {work_text}; {rate.tier} binds: {rate.per_s:g}/s")
    experiment = experiment_at(testbed.design.experiment, testbed.design.fleet, rate)
    body = calibration_json(
        testbed.design.experiment, testbed.design.fleet, (rate, work), calibration.pieces,
        reads_of(testbed.design.workloads, experiment.load.user),
    )  # fmt: skip
    for problem in feasibility_problems(experiment, testbed.design.fleet, body["arms"]):
        place = ".".join(map(str, problem.key))
        raise MeasurementFailed(
            place, expected=problem.expected, got=problem.got, hint=problem.hint
        )

    def result_part(_: Path) -> dict[str, object] | None:
        return {"calibration": body} if runner.handles else None

    testbed.keep(result_part)
    runner.design = replace(runner.design, experiment=experiment)


def calibration_json(
    experiment: Experiment,
    fleet: Fleet,
    rate_and_work: tuple[Rate, Mapping[str, Work]],
    pieces: Sequence[Piece],
    reads: float,
) -> JsonObject:
    """Return `calibration` of the manifest: the requested utilisation, the calibrated rate and
    work, and the use expected of each arm.
    """
    rate, work = rate_and_work
    copies = copies_of(next(iter(experiment.arms.values())).replicas, fleet, reads)
    per_copy = {tier: tier_work.cpu_s / copies[tier] for tier, tier_work in work.items()}
    return {
        "utilisation": experiment.load.utilisation,
        "tier": rate.tier,
        "rate_per_s": rate.per_s,
        "ci_low": rate.ci_low,
        "ci_high": rate.ci_high,
        "confidence": CONFIDENCE,
        "pieces": len(pieces),
        "requests": sum(piece.requests for piece in pieces),
        "tiers": {
            tier: {
                "cores": cores_of(fleet, tier),
                "cpu_s_per_copy": per_copy[tier],
                **asdict(tier_work),
            }
            for tier, tier_work in work.items()
        },
        "arms": {
            name: used(per_copy, rate.per_s, copies_of(arm.replicas, fleet, reads), fleet)
            for name, arm in experiment.arms.items()
        },
    }


class _Calibration:
    """Trials, settling, pieces, and the fleet without load; `pieces` are those that count."""

    def __init__(self, testbed: Testbed, runner: BlockRun) -> None:
        self._testbed, self._runner = testbed, runner
        self._experiment, self._fleet = testbed.design.experiment, testbed.design.fleet
        first = next(iter(self._experiment.arms.values()))
        reads = reads_of(testbed.design.workloads, self._experiment.load.user)
        self._copies = copies_of(first.replicas, self._fleet, reads)
        self._utilisation = float(self._experiment.load.utilisation or 0.0)
        self._numbers = count(SETTLING - 1, -1)
        self.pieces: list[Piece] = []

    def search(self) -> tuple[Rate, dict[str, Work]]:
        near_per_s = self._near_per_s()
        settle_s = max(SETTLE_S, self._experiment.phases.settle)
        for attempt in range(1, TRIES_MAX + 1):
            self.pieces += self._measure_load(near_per_s, settle_s if attempt == 1 else 1.0)
            idle = self._measure_idle()
            work = work_of(self._read_hosts(idle.end_s), self.pieces, idle, self._fleet)
            rate = rate_for(self._utilisation, work, self._copies, self._fleet)
            if rate.uncertainty <= OFF_MOST:
                break
            near_per_s = self._next_rate(rate.per_s, near_per_s)
        return rate, work

    def _next_rate(self, target_per_s: float, last_per_s: float) -> float:
        most_per_s = min(FASTER_MOST * last_per_s, self._experiment.load.rate_per_s_max)
        return max(LEAST_PER_S, min(target_per_s, most_per_s))

    def _near_per_s(self) -> float:
        """Return a rate near the requested one, from below, because nothing is subtracted yet. The
        first trial decides nothing because its caches are cold.
        """
        rate_per_s = FIRST_PER_S
        for number in range(TRIALS_MAX):
            trial = pieces_of(self._run(rate_per_s, 0.0, TRIAL_S), 0.0, TRIAL_S, 1)
            work = work_of(self._read_hosts(trial[-1].end_s), trial, None, self._fleet)
            target_per_s = rate_for(self._utilisation, work, self._copies, self._fleet).per_s
            if number > 0 and target_per_s <= 2.0 * rate_per_s:
                return self._next_rate(target_per_s, rate_per_s)
            rate_per_s = max(FIRST_PER_S, self._next_rate(target_per_s, rate_per_s))
        return rate_per_s

    def _measure_load(self, rate_per_s: float, settle_s: float) -> list[Piece]:
        records = self._run(rate_per_s, settle_s, PIECES * PIECE_S)
        return pieces_of(records, settle_s, PIECE_S, PIECES)

    def _run(self, rate_per_s: float, warm_up_s: float, measure_s: float) -> pl.DataFrame:
        rate_per_s = float(f"{rate_per_s:.3g}")
        load = self._experiment.load.at(rate_per_s).model_copy(update={"arrivals": "constant"})
        phases = Phases(warm_up=warm_up_s, measure=measure_s)
        handle = self._runner.calm(next(self._numbers), self._testbed.narrator, load, phases)
        records = handle.records()
        good = records.filter(outcome=OK).height
        failed = 1.0 - good / records.height if records.height else 1.0
        if failed > self._experiment.slo.max_error_share:
            raise MeasurementFailed(
                PLACE,
                expected=f"answers to the calibration's requests, at {rate_per_s:g}/s",
                got=f"{failed:.1%} of {records.height:,} failed",
                hint="Look whether the service works: `sparecraft run` with a low rate_per_s.",
            )
        return records

    def _measure_idle(self) -> Piece:
        time.sleep(1.0)  # the last requests leave some work behind
        start_s = self._testbed.clock.since_s(time.monotonic())
        time.sleep(IDLE_S)
        return Piece(start_s, start_s + IDLE_S)

    def _read_hosts(self, until_s: float) -> pl.DataFrame:
        """Wait until every machine has a sample of that time; after SAMPLES_WAIT_S, return the
        samples that have arrived.
        """
        testbed, limit = self._testbed, time.monotonic() + SAMPLES_WAIT_S
        machines = {name for tier in self._fleet.tiers for name in self._fleet.nodes_of(tier)}
        query = InfluxQuery(testbed.fleet.influxdb)
        try:
            while True:
                clock = testbed.clock
                hosts = query.hosts(
                    self._fleet.experiment,
                    t0_ns=clock.ns_at(0.0),
                    end_ns=clock.ns_at(clock.since_s(time.monotonic())),
                )
                reporting = hosts.filter(pl.col("time_s") >= until_s - 0.5)["machine"]
                if machines <= set(reporting) or time.monotonic() > limit:
                    return hosts
                time.sleep(_LOOK_EVERY_S)
        finally:
            query.close()


def pieces_of(records: pl.DataFrame, after_s: float, length_s: float, number: int) -> list[Piece]:
    """Return consecutive stretches of a block; the first begins `after_s` after its arrivals do."""
    if not records.height:
        return []
    at_s = records.filter(pl.col("outcome") != DROPPED)["intended_s"].to_numpy()
    edges_s = records["intended_s"].to_numpy().min() + after_s + length_s * np.arange(number + 1)
    counts, _ = np.histogram(at_s, edges_s)
    return [
        Piece(float(low), float(high), int(requests))
        for low, high, requests in zip(edges_s[:-1], edges_s[1:], counts, strict=True)
    ]
