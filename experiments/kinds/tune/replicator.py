"""Alg. 1 of sPARE with expensive and noisy measurements: from windows to a trajectory.

The search has no fleet and no clock. `run_window(r, pair)` measures r for one window and may raise
`OutOfTime`; windows with the same `pair` have the same arrivals, pages and neighbours. Results are
in `contests` and `windows` at any end of the search.
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
class Measured:
    """One window at one r: latencies, and what each tier's arbiter counted."""

    replicas: Replicas
    pair: int
    requests: int
    window: Window
    tiers: tuple[TierWindow, ...]


RunWindow = Callable[[Replicas, int], Measured]


@dataclass(frozen=True)
class Rules:
    """The end of a comparison: `pairs_max` from the budget of requests, `error` over all looks."""

    target: Target
    pairs_max: int
    stretch_s: float
    error: float = 0.05

    @functools.cached_property
    def levels(self) -> tuple[float, ...]:
        """The allowed error of each look, after each pair from the second on: one-sided, so half of
        a two-sided level of twice the error."""
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
        """True if the search moved."""
        return self.verdict == "better"


@dataclass
class Replicator:
    """The search and everything it measured."""

    rules: Rules
    run_window: RunWindow
    rng: np.random.Generator
    say: Callable[[str], None]
    windows: list[Measured] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)
    rounds: list[list[Measured]] = field(default_factory=list)
    start: Point | None = None
    stopped: str = ""
    _pairs: int = 0

    @property
    def requests(self) -> int:
        """Spent so far."""
        return sum(window.requests for window in self.windows)

    @property
    def chosen(self) -> Point | None:
        """The r that the search stands at."""
        accepted = [contest.candidate for contest in self.contests if contest.accepted]
        return accepted[-1] if accepted else self.start

    def measure(self, replicas: Replicas, windows: int = PAIRS_MIN) -> list[Measured]:
        """Windows of one r alone: of the start, and for Alg. 1's inputs."""
        return [self._window(replicas, self._next_pair()) for _ in range(windows)]

    def search(self, feasible: Sequence[Replicas], start: Replicas | None) -> Search | None:
        """Search to the end, or until time is over (then None, and `stopped` says so).

        The start's windows are taken from those that were measured, else measured now.
        """

        def begin(replicas: Replicas) -> tuple[float, tuple[float, ...]]:
            found = [w for w in self.windows if w.replicas == replicas] or self.measure(replicas)
            self.start = self.point(replicas, found)
            return self.start.value_ms, self.start.variability

        try:
            search = search_replicas(feasible, begin, start=start, judge=self._judge)
        except OutOfTime as over:
            self.stopped = str(over)
            return None
        self.stopped = search.stopped
        return search

    def exhaust(self, feasible: Sequence[Replicas], rounds: int) -> list[list[Measured]]:
        """Every feasible r in each round, interleaved: rounds x |F| windows.

        The order turns from round to round. A round that time cut short is left out. The search
        takes its pairs from them first: within a round all r meet the same arrivals.
        """
        for turn in range(rounds):
            pair = self._next_pair()
            order = list(feasible) if turn % 2 == 0 else list(reversed(feasible))
            try:
                found = [self._window(replicas, pair) for replicas in order]
            except OutOfTime as over:
                self.say(f"exhaustive search: {over}")
                break
            self.rounds.append(sorted(found, key=lambda window: window.replicas))
        return self.rounds

    def point(self, replicas: Replicas, found: Sequence[Measured]) -> Point:
        """Return the target and the variabilities of one r over its windows, in the steady
        state.
        """
        steady = _steady(found)
        kept = [one.window.after(steady.from_s) for one in found]
        rules = self.rules
        value, low, high = estimate(kept, rules.target, rules.stretch_s, self.rng)
        tiers = zip(*(one.tiers for one in found), strict=True)
        varied = tuple(total(tier).variability(rules.target) for tier in tiers)
        samples = sum(window.latency_ms.size for window in kept)
        return Point(replicas, value, low, high, samples, varied, steady)

    # one comparison

    def _judge(self, current: Replicas, candidate: Replicas) -> Judgement:
        contest = self._contest(current, candidate)
        return Judgement(
            contest.candidate.value_ms, contest.candidate.variability, contest.accepted, contest.why
        )

    def _contest(self, current: Replicas, candidate: Replicas) -> Contest:
        """Pairs of windows until a look decides or the budget is spent; what the last look said is
        the verdict, as each look is one more chance to err."""
        found = self._paired(current, candidate)
        looked = self._look(found) if len(found) >= PAIRS_MIN else None
        over: OutOfTime | None = None
        while len(found) < self.rules.pairs_max and not _is_decided(looked):
            try:
                found.append(self._pair(current, candidate, len(found) % 2 == 1))
            except OutOfTime as reason:
                over = reason
                break
            if len(found) >= PAIRS_MIN:
                looked = self._look(found)
        if looked is None:
            assert over is not None  # the budget is of PAIRS_MIN pairs at least
            raise over
        contest = self._concluded(found, *looked)
        self.contests.append(contest)
        self.say(contest.why)
        if over is not None:
            raise over
        return contest

    def _paired(self, current: Replicas, candidate: Replicas) -> list[tuple[Measured, Measured]]:
        """Their windows of the exhaustive rounds, as far as a comparison may go."""
        found = []
        for turn in self.rounds[: self.rules.pairs_max]:
            of = {window.replicas: window for window in turn}
            if current in of and candidate in of:
                found.append((of[current], of[candidate]))
        return found

    def _pair(
        self, current: Replicas, candidate: Replicas, swap: bool
    ) -> tuple[Measured, Measured]:
        """Both in turn, the order alternating, on the same arrivals."""
        pair = self._next_pair()
        order = (candidate, current) if swap else (current, candidate)
        one, other = (self._window(replicas, pair) for replicas in order)
        return (other, one) if swap else (one, other)

    def _look(self, found: Sequence[tuple[Measured, Measured]]) -> tuple[Significance, Verdict]:
        """Return the evidence of the pairs so far."""
        rules, pairs = self.rules, _steady_pairs(found)
        seen = significance(pairs, rules.target, rules.stretch_s, self.rng)
        verdict = seen.verdict(rules.levels[len(found) - PAIRS_MIN])
        if verdict != "worse" and not _steady([theirs for _, theirs in found]).reached:
            return seen, "not steady"
        return seen, verdict

    def _concluded(
        self, found: Sequence[tuple[Measured, Measured]], seen: Significance, verdict: Verdict
    ) -> Contest:
        """Return the comparison with its figures and intervals."""
        rules, pairs = self.rules, _steady_pairs(found)
        current, candidate = (
            self.point(side[0].replicas, side) for side in zip(*found, strict=True)
        )
        quotient = ratio(pairs, rules.target, rules.stretch_s, self.rng)
        requests = sum(one.requests + other.requests for one, other in found)
        contest = Contest(current, candidate, len(found), requests, seen, quotient, verdict, "")
        return replace(contest, why=_why(rules.target, contest))

    def _window(self, replicas: Replicas, pair: int) -> Measured:
        measured = self.run_window(replicas, pair)
        self.windows.append(measured)
        return measured

    def _next_pair(self) -> int:
        self._pairs += 1
        return self._pairs - 1


def _is_decided(looked: tuple[Significance, Verdict] | None) -> bool:
    return looked is not None and looked[1] in ("better", "worse")


def _steady(found: Sequence[Measured]) -> Steady:
    windows = [one.window for one in found]
    return steady_state([w.at_s for w in windows], [w.latency_ms for w in windows])


def _steady_pairs(found: Sequence[tuple[Measured, Measured]]) -> list[Pair]:
    """Return the windows of both sides from where both are steady."""
    from_s = max(_steady(side).from_s for side in zip(*found, strict=True))
    return [(one.window.after(from_s), other.window.after(from_s)) for one, other in found]


def _why(target: Target, contest: Contest) -> str:
    words = {
        "better": "lower",
        "worse": "higher",
        "insufficient": "not shown to be lower",
        "not steady": "no steady state was reached",
    }[contest.verdict]
    current, candidate, quotient = contest.current, contest.candidate, contest.ratio
    p = min(contest.significance.p_better, contest.significance.p_worse)
    return (
        f"{target} of {candidate.replicas} {candidate.value_ms:.0f} ms, of {current.replicas} "
        f"{current.value_ms:.0f} ms: {words} (ratio {quotient.ratio:.2f}, "
        f"{quotient.ratio_low:.2f} to {quotient.ratio_high:.2f}, p {p:.3g}, "
        f"{contest.pairs} pairs)"
    )
