r"""The least cost as a step function of one limit.

One limit, written as "at most x" (x the unavailability U = 1 - A, or a percentile in ms), all other
limits kept:

    C(x) = least cost of the fleets that reach at most x

C falls in steps as x is loosened. Solving at x gives C(x) and a fleet that reaches some y <= x, so
C is known on the whole stretch [y, x]; between two stretches of equal cost there is no step;
solving just below y (the epsilon-constraint method, Haimes 1971) gives the next dearer stretch, or
proves that there is none. "Just below" is a relative 1e-9, and 1e-11 of U: fleets closer than that
count as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from core.errors import PlannerError
from core.tolerances import CENT, LIMIT_STEP, U_FLOOR, U_STEP
from optimizer.availability.rates import availability_text
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.model import LIMIT_S, Solution, attempt, solve
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import Path, Problem, in_ms, stands, unavailability_of

UNPROVED = "at a limit where no proof was found in time"
_GRACE_S = 1.0
FAR = 256.0  # the widest step into the unknown


class SpentError(Exception):
    """A search ended at its bound; its results up to then are valid."""


class UnprovedError(SpentError):
    """One solve ended without a proof; other solves may still succeed."""


class Budget:
    """The bounds of a search: number of solves, total time, and the share of time per solve.

    Parameters: solves >= 1; seconds from now on by `clock`, and the share of them that one solve
    may take; `say` receives the progress of the search.
    """

    def __init__(
        self,
        solves: int,
        *,
        seconds: float = math.inf,
        share: float = 1.0 / 6.0,
        clock: Callable[[], float] = lambda: 0.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.solves, self._limit, self._seconds = 0, solves, seconds
        self.ended = ""  # the reason, after the end
        self._solve_s = seconds * share
        self._deadline, self.say = Deadline(seconds, clock), say

    def solve(self, problem: Problem, start: Path | None = None) -> Solution:
        """Count one solve and return its result: the optimum, or the proof that there is none.

        Raises: SpentError if there was no solve left, or no time, or too little for a proof.
        """
        self.check()
        self.solves += 1
        try:
            solution = solve(problem, start, self._deadline.within(min(LIMIT_S, self._solve_s)))
        except PlannerError as error:
            raise UnprovedError(self.end(UNPROVED)) from error
        if not solution.proved:
            raise UnprovedError(self.end(UNPROVED))
        return solution

    def left_s(self) -> float:
        """Return the time that is left. Raises: SpentError if there is none, or no solve."""
        left_s = self._deadline.left_s()
        if self.solves >= self._limit:
            raise SpentError(self.end(f"after {self._limit} solves"))
        if left_s <= 0:
            raise SpentError(self.end(f"after {self._seconds:g} s"))
        return left_s

    def check(self) -> None:
        """Raises: SpentError if there is no time left, or no solve."""
        self.left_s()

    def last(self, problem: Problem, most_s: float) -> Path | None:
        """Return the cheapest fleet of a feasible problem within the remaining time, or a little
        more.

        None if the time was too short.
        """
        left_s = max(_GRACE_S, self._deadline.left_s())
        deadline = Deadline(min(most_s, left_s), self._deadline.clock)
        return attempt(problem, None, deadline).path

    def part(self, solves: int, share: float) -> Budget:
        """Return a budget for a part of the search: this many solves, this share of the rest.

        Raises: SpentError if there is nothing left.
        """
        seconds = share * self.left_s()
        return Budget(solves, seconds=seconds, share=0.5, clock=self._deadline.clock, say=self.say)

    def end(self, why: str) -> str:
        """Remember how the search ended."""
        self.ended = why
        return why


@dataclass(frozen=True)
class Axis:
    """One limit: `availability`, a percentile as `p95_ms` or `p99_ms`, `utilisation`, `collision`.

    Internally a limit is always "at most x": x = 1 - A for availability; infinite x removes it.
    """

    key: str

    @property
    def percentile(self) -> int:
        """The percentile of a latency axis."""
        return int(self.key.removeprefix("p").removesuffix("_ms"))

    @property
    def is_availability(self) -> bool:
        return self.key == "availability"

    def limit(self, problem: Problem) -> float | None:
        """Return the limit that the problem imposes, as x; None if it imposes none."""
        if self.is_availability:
            return problem.unavailability_max
        if self.key == "utilisation":
            return None if math.isinf(problem.utilisation_max) else problem.utilisation_max
        if self.key == "collision":
            return problem.collision_max if problem.collision_max < 1 else None
        return problem.latency_ms_max.get(self.percentile)

    def impose(self, problem: Problem, x: float) -> Problem:
        """Return the problem with this limit at x."""
        if self.is_availability:
            return replace(problem, unavailability_max=x if x < 1 else None)
        if self.key == "utilisation":
            return replace(problem, utilisation_max=x)
        if self.key == "collision":
            return replace(problem, collision_max=min(x, 1.0))
        other_limits = {q: v for q, v in problem.latency_ms_max.items() if q != self.percentile}
        own_limit = {} if math.isinf(x) else {self.percentile: x}
        return replace(problem, latency_ms_max={**other_limits, **own_limit})

    def reached(self, problem: Problem, path: Path) -> float:
        """Return the x of a fleet; infinite if the latency model cannot evaluate it."""
        if self.is_availability:
            return unavailability_of(path)
        if self.key in ("utilisation", "collision"):
            return float(max(getattr(option, self.key) for option in path))
        return max(
            percentiles.get(self.percentile, math.inf) for percentiles in _conditions(problem, path)
        )

    def below(self, x: float) -> float | None:
        """Return the next tighter limit that differs from x; None if there is none."""
        if self.is_availability:
            return None if x <= U_STEP else x - max(x * LIMIT_STEP, U_STEP)
        if x <= 0:
            return None
        return math.nextafter(x, 0.0) if math.isinf(x) else x * (1.0 - LIMIT_STEP)

    def stated(self, x: float) -> float:
        """Return x in the form of users: an availability, ms, or a share.

        It is never rounded to the side that is harder to keep.
        """
        if not self.is_availability:
            return x
        return 1.0 - x if 1.0 - (1.0 - x) >= x else math.nextafter(1.0 - x, 0.0)

    def from_stated(self, value: float) -> float:
        """Return x of a limit that is in the form of users."""
        return 1.0 - value if self.is_availability else value

    def text(self, x: float) -> str:
        """Return x as text in the form of users, rounded to the side that is easier to keep."""
        if self.key in ("utilisation", "collision"):
            return f"{math.ceil(x * 1e4 - 1e-6) / 1e2:.2f} %"
        if not self.is_availability:
            return f"{math.ceil(x * 100 - 1e-6) / 100:.2f} ms"
        return availability_text(x)


def _conditions(problem: Problem, path: Path) -> list[Mapping[int, float]]:
    """Return the percentiles with limits: without faults, and degraded if requested."""
    conditions = [problem.latency(path)]
    if problem.degraded is not None and problem.latency_degraded is not None:
        conditions += [
            problem.latency_degraded(path, tier)
            for tier, option in enumerate(path)
            if stands(problem, option)
        ]
    return conditions


AVAILABILITY = Axis("availability")


def axes(problem: Problem) -> list[Axis]:
    """Return the SLOs of this problem, against which a cost can be drawn."""
    availability = [AVAILABILITY] if problem.unavailability_max is not None else []
    return availability + [Axis(f"p{q}_ms") for q in sorted(problem.latency_ms_max)]


def nines(unavailability: float) -> float:
    """Return -log10(U), at most 12: the models do not resolve more."""
    return -math.log10(max(unavailability, U_FLOOR))


@dataclass(frozen=True)
class Stretch:
    """C(x) = usd for tight <= x <= loose; `path` costs that and reaches tight."""

    tight: float
    loose: float
    usd: float
    path: Path


class Curve:
    """The known part of C(x). Each x outside of it costs one solve."""

    def __init__(self, problem: Problem, axis: Axis, budget: Budget) -> None:
        self.problem, self.axis, self.budget = problem, axis, budget
        self.known: list[Stretch] = []  # the dearest (tightest) first
        self.infeasible = 0.0  # the greatest x that no fleet reaches

    def learn(self, path: Path, x: float) -> Stretch:
        """Record that `path` is a cheapest fleet at x. Returns the whole known stretch around x."""
        tight, usd = self.axis.reached(self.problem, path), cost(path)
        new = Stretch(min(tight, x), x, usd, path)
        same = [s for s in self.known if abs(s.usd - usd) <= CENT]
        for stretch in same:  # C is monotone: nothing else in between
            tightest = min(new, stretch, key=lambda s: s.tight)
            new = replace(tightest, loose=max(new.loose, stretch.loose))
        self.known = sorted([s for s in self.known if s not in same] + [new], key=lambda s: s.tight)
        return new

    def at(self, x: float) -> Stretch | None:
        """Return the stretch around x; None if no fleet reaches x. Raises SpentError."""
        for stretch in self.known:
            if stretch.tight <= x <= stretch.loose:
                return stretch
        if x <= self.infeasible:
            return None
        tighter = [s for s in self.known if s.tight <= x]
        fleet = tighter[-1].path if tighter else None
        solution = self.budget.solve(self.axis.impose(self.problem, x), fleet)
        if solution.path is None:
            self.infeasible = max(self.infeasible, x)
            return None
        return self.learn(solution.path, x)

    def tighter(self, stretch: Stretch) -> Stretch | None:
        """Return the next more expensive stretch; None if nothing is tighter. Raises SpentError."""
        while True:
            x = self.axis.below(stretch.tight)
            after = None if x is None else self.at(x)
            if after is None or after.usd - stretch.usd > CENT:
                return after
            stretch = after

    def looser(self, stretch: Stretch) -> Stretch | None:
        """Return the next cheaper stretch; None if there is none. Raises SpentError."""
        self.at(math.inf)
        walk = True  # alternate: just below the cheaper neighbour, then half way to it
        while True:
            stretch = next(s for s in self.known if abs(s.usd - stretch.usd) <= CENT)
            after = self.known.index(stretch) + 1
            if after == len(self.known):
                return None
            neighbour = self.known[after]
            if self.is_closed(neighbour):
                return neighbour
            below = self.axis.below(neighbour.tight)
            assert below is not None  # the stretch is tighter
            self.at(below if walk else middle(stretch.loose, neighbour.tight))
            walk = not walk

    def is_closed(self, stretch: Stretch) -> bool:
        """True if C just below this stretch is known: the next stretch begins there."""
        x = self.axis.below(stretch.tight)
        index = self.known.index(stretch)
        return x is None or x <= self.infeasible or (index > 0 and self.known[index - 1].loose >= x)


def middle(low: float, high: float) -> float:
    """Return the middle on a log scale, at most a factor of 16 into the unknown."""
    near = min(high, FAR * low) if low > 0 else high
    return math.sqrt(max(low, near / FAR) * near)


def fleet_text(path: Path) -> str:
    """Return a fleet in one line: tier, active + standby machines, type, mechanism, replicas."""
    return ", ".join(
        f"{o.tier} {o.nodes}{f'+{o.standby}' if o.standby else ''} {o.instance.name}"
        + (f" r={o.replicas}" if o.replicas > 1 else "")
        for o in path
    )


def predicted(problem: Problem, path: Path) -> dict[str, float | None]:
    """Return the figures of a fleet; None if the latency model cannot evaluate it."""
    reached = AVAILABILITY.stated(unavailability_of(path))
    return {"availability": reached, **in_ms(problem.latency(path))}
