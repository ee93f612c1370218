"""Alg. 1 of sPARE with expensive and noisy measurements: from windows to a trajectory.

The search has no fleet and no clock. `run_window(r, pair)` measures r for one window and may raise
`OutOfTime`; windows with the same `pair` have the same arrivals, pages and neighbours. However the
search ends, its results are in `contests` and `windows`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from core.statistics.sequential import look_levels
from experiments.kinds.tune.evidence import (
    Pair,
    Ratio,
    Significance,
    Verdict,
    Window,
    estimate,
    ratio,
    significance,
)
from experiments.kinds.tune.loads import TierWindow, total
from experiments.kinds.tune.section import Target
from experiments.kinds.tune.steady import Steady, steady_state
from optimizer.replication import Judgement, Replicas, Search, search_replicas

PAIRS_MIN = 2  # before the first look


class OutOfTime(Exception):
    """The time is over, and no further window may begin."""


@dataclass(frozen=True)
class MeasuredWindow:
    """One window at one r: latencies, and the counters of each tier's arbiter."""

    replicas: Replicas
    pair: int
    requests: int
    window: Window
    tiers: tuple[TierWindow, ...]


RunWindow = Callable[[Replicas, int], MeasuredWindow]


@dataclass(frozen=True)
class Rules:
    """The end of a comparison: `pairs_max` from the budget of requests, `error` over all looks."""

    target: Target
    pairs_max: int
    stretch_s: float
    error: float = 0.05

    @functools.cached_property
    def levels(self) -> tuple[float, ...]:
        """The allowed error of each look; there is a look after each pair from the second on. It is
        one-sided, so half of a two-sided level of twice the error."""
        pairs = range(PAIRS_MIN, self.pairs_max + 1)
        shares = [count / self.pairs_max for count in pairs]
        return tuple(level / 2.0 for level in look_levels(shares, 2.0 * self.error))


@dataclass(frozen=True)
class Point:
    """The target at one r with its 95 % interval [ms], and the variability w of each tier."""

    replicas: Replicas
    value_ms: float
    low_ms: float
    high_ms: float
    samples: int
    variability: tuple[float, ...]
    steady: Steady


@dataclass(frozen=True)
class Contest:
    """One comparison: a step of the trajectory."""

    current: Point
    candidate: Point
    pairs: int
    requests: int
    significance: Significance
    ratio: Ratio
    verdict: Verdict
    why: str

    @property
    def accepted(self) -> bool:
        return self.verdict == "better"


@dataclass
class Replicator:
    """The search and everything it measured."""

    rules: Rules
    run_window: RunWindow
    rng: np.random.Generator
    say: Callable[[str], None]
    windows: list[MeasuredWindow] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)
    rounds: list[list[MeasuredWindow]] = field(default_factory=list)
    start: Point | None = None
    stopped: str = ""
    _pairs: int = 0

    @property
    def requests(self) -> int:
        return sum(window.requests for window in self.windows)

    @property
    def chosen(self) -> Point | None:
        """The current r of the search."""
        accepted = [contest.candidate for contest in self.contests if contest.accepted]
        return accepted[-1] if accepted else self.start

    def measure(self, replicas: Replicas, windows: int = PAIRS_MIN) -> list[MeasuredWindow]:
        """Measure windows of one r alone, for the start and for Alg. 1's inputs."""
        return [self._window(replicas, self._next_pair()) for _ in range(windows)]

    def search(self, feasible: Sequence[Replicas], start: Replicas | None) -> Search | None:
        """Search to the end; return None if the time is over first, and `stopped` says so.

        Earlier windows of the start are used; without them, the start is measured now.
        """

        def begin(replicas: Replicas) -> tuple[float, tuple[float, ...]]:
            windows = [w for w in self.windows if w.replicas == replicas] or self.measure(replicas)
            self.start = self.point(replicas, windows)
            return self.start.value_ms, self.start.variability

        try:
            search = search_replicas(feasible, begin, start=start, judge=self._judge)
        except OutOfTime as over:
            self.stopped = str(over)
            return None
        self.stopped = search.stopped
        return search

    def exhaust(self, feasible: Sequence[Replicas], rounds: int) -> list[list[MeasuredWindow]]:
        """Measure every feasible r in each round, interleaved: rounds x |F| windows.

        The order is reversed from round to round. A round that time cut short is left out. The
        search uses pairs of these windows first: within a round all r meet the same arrivals.
        """
        for turn in range(rounds):
            pair = self._next_pair()
            order = list(feasible) if turn % 2 == 0 else list(reversed(feasible))
            try:
                windows = [self._window(replicas, pair) for replicas in order]
            except OutOfTime as over:
                self.say(f"exhaustive search: {over}")
                break
            self.rounds.append(sorted(windows, key=lambda window: window.replicas))
        return self.rounds

    def point(self, replicas: Replicas, windows: Sequence[MeasuredWindow]) -> Point:
        """Return the target and the variabilities of one r over its windows, in the steady
        state.
        """
        steady = _steady(windows)
        steady_windows = [window.window.after(steady.from_s) for window in windows]
        rules = self.rules
        value, low, high = estimate(steady_windows, rules.target, rules.stretch_s, self.rng)
        tiers = zip(*(window.tiers for window in windows), strict=True)
        variability = tuple(total(tier).variability(rules.target) for tier in tiers)
        samples = sum(window.latency_ms.size for window in steady_windows)
        return Point(replicas, value, low, high, samples, variability, steady)

    # one comparison

    def _judge(self, current: Replicas, candidate: Replicas) -> Judgement:
        contest = self._contest(current, candidate)
        return Judgement(
            contest.candidate.value_ms, contest.candidate.variability, contest.accepted, contest.why
        )

    def _contest(self, current: Replicas, candidate: Replicas) -> Contest:
        """Measure pairs of windows until a look decides or the budget is spent.

        The last look is the verdict: looking again would be one more chance to err.
        """
        pairs = self._round_pairs(current, candidate)
        look = self._look(pairs) if len(pairs) >= PAIRS_MIN else None
        out_of_time: OutOfTime | None = None
        while len(pairs) < self.rules.pairs_max and not _is_decided(look):
            try:
                pairs.append(self._measure_pair(current, candidate, len(pairs) % 2 == 1))
            except OutOfTime as reason:
                out_of_time = reason
                break
            if len(pairs) >= PAIRS_MIN:
                look = self._look(pairs)
        if look is None:
            assert out_of_time is not None  # the budget is of PAIRS_MIN pairs at least
            raise out_of_time
        contest = self._conclude(pairs, *look)
        self.contests.append(contest)
        self.say(contest.why)
        if out_of_time is not None:
            raise out_of_time
        return contest

    def _round_pairs(
        self, current: Replicas, candidate: Replicas
    ) -> list[tuple[MeasuredWindow, MeasuredWindow]]:
        """Return the pairs of both r in the exhaustive rounds, at most `pairs_max`."""
        pairs = []
        for turn in self.rounds[: self.rules.pairs_max]:
            by_replicas = {window.replicas: window for window in turn}
            if current in by_replicas and candidate in by_replicas:
                pairs.append((by_replicas[current], by_replicas[candidate]))
        return pairs

    def _measure_pair(
        self, current: Replicas, candidate: Replicas, swap: bool
    ) -> tuple[MeasuredWindow, MeasuredWindow]:
        """Measure both in turn on the same arrivals; `swap` has the candidate first."""
        pair = self._next_pair()
        order = (candidate, current) if swap else (current, candidate)
        first, second = (self._window(replicas, pair) for replicas in order)
        return (second, first) if swap else (first, second)

    def _look(
        self, measured_pairs: Sequence[tuple[MeasuredWindow, MeasuredWindow]]
    ) -> tuple[Significance, Verdict]:
        rules, pairs = self.rules, _steady_pairs(measured_pairs)
        evidence = significance(pairs, rules.target, rules.stretch_s, self.rng)
        verdict = evidence.verdict(rules.levels[len(measured_pairs) - PAIRS_MIN])
        if verdict != "worse" and not _steady([window for _, window in measured_pairs]).reached:
            return evidence, "not steady"
        return evidence, verdict

    def _conclude(
        self,
        measured_pairs: Sequence[tuple[MeasuredWindow, MeasuredWindow]],
        evidence: Significance,
        verdict: Verdict,
    ) -> Contest:
        rules, pairs = self.rules, _steady_pairs(measured_pairs)
        current, candidate = (
            self.point(side[0].replicas, side) for side in zip(*measured_pairs, strict=True)
        )
        quotient = ratio(pairs, rules.target, rules.stretch_s, self.rng)
        requests = sum(first.requests + second.requests for first, second in measured_pairs)
        contest = Contest(
            current, candidate, len(measured_pairs), requests, evidence, quotient, verdict, ""
        )
        return replace(contest, why=_explain(rules.target, contest))

    def _window(self, replicas: Replicas, pair: int) -> MeasuredWindow:
        measured = self.run_window(replicas, pair)
        self.windows.append(measured)
        return measured

    def _next_pair(self) -> int:
        self._pairs += 1
        return self._pairs - 1


def _is_decided(look: tuple[Significance, Verdict] | None) -> bool:
    return look is not None and look[1] in ("better", "worse")


def _steady(measured: Sequence[MeasuredWindow]) -> Steady:
    windows = [window.window for window in measured]
    return steady_state([w.at_s for w in windows], [w.latency_ms for w in windows])


def _steady_pairs(measured_pairs: Sequence[tuple[MeasuredWindow, MeasuredWindow]]) -> list[Pair]:
    """Return the windows of both sides from the time when both are steady."""
    from_s = max(_steady(side).from_s for side in zip(*measured_pairs, strict=True))
    return [
        (first.window.after(from_s), second.window.after(from_s))
        for first, second in measured_pairs
    ]


def _explain(target: Target, contest: Contest) -> str:
    verdict_text = {
        "better": "lower",
        "worse": "higher",
        "insufficient": "not shown to be lower",
        "not steady": "no steady state was reached",
    }[contest.verdict]
    current, candidate, quotient = contest.current, contest.candidate, contest.ratio
    p = min(contest.significance.p_better, contest.significance.p_worse)
    return (
        f"{target} of {candidate.replicas} {candidate.value_ms:.0f} ms, of {current.replicas} "
        f"{current.value_ms:.0f} ms: {verdict_text} (ratio {quotient.ratio:.2f}, "
        f"{quotient.ratio_low:.2f} to {quotient.ratio_high:.2f}, p {p:.3g}, "
        f"{contest.pairs} pairs)"
    )
