"""The reasons of a plan's cost, or of a missing plan, in words and as data."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from core.errors import InputError
from core.tolerances import CENT
from optimizer.plan.explain.curve import AVAILABILITY, Axis, Budget, Curve
from optimizer.plan.explain.marginal import marginal_prices
from optimizer.plan.explain.pareto import front
from optimizer.plan.explain.relaxation import SECONDS, SOLVES, Relaxation, relaxations, together
from optimizer.plan.explain.sensitivity import Variants, sensitivity
from optimizer.plan.solve.deadline import Clock, Deadline, OutOfTimeError
from optimizer.plan.solve.model import Solution, solve
from optimizer.plan.solve.options import NODES_MAX, Option, usd_when_off
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import FAMILIES, Problem
from optimizer.plan.solve.table import columns

if TYPE_CHECKING:
    from optimizer.fit import Results

_NOTHING = "none of the SLOs: stability and the replicas' placement alone set this cost"
_BINDING_S = 5.0  # of each solve
_MARGINAL_S = 10.0  # of each limit
_FRONT_SOLVES = 90
_SENSITIVITY_SOLVES = 20


class Relaxed(TypedDict):
    """Each limit that suffices if it alone gives way or, where there is none, values of several
    that suffice together; `cut`, where the search was."""

    alone: list[dict[str, object]]
    together: list[dict[str, object]]
    cut: str | None


@dataclass(frozen=True)
class ExplainOptions:
    """Explanations that a plan should carry, their time limits, and the listener to their progress.

    What binds and, without a feasible plan, the relaxations are always there. `records` of the run
    let the simulator decide between fleets; without them the law's plan stands, for the reason
    `not_simulated`.
    """

    marginal: bool = False
    pareto: bool = False
    sensitivity: bool = False
    seconds: float = 60.0
    clock: Clock = time.monotonic
    today: datetime.date | None = None  # tells how old prices are
    say: Callable[[str], None] = lambda _text: None
    records: Results | None = None
    not_simulated: str = ""  # why there are no records

    def budget(self, solves: int, most_s: float = math.inf) -> Budget:
        """Return a budget of this many solves, with the time from now on."""
        seconds = min(self.seconds, most_s)
        return Budget(solves, seconds=seconds, clock=self.clock, say=self.say)

    def marginal_budget(self, solves: int, deadline: Deadline) -> Budget:
        """Return the budget for the prices of one limit, short enough for every plan."""
        self.say("prices of the limits")
        seconds = deadline.within(_MARGINAL_S).left_s()
        return Budget(solves, seconds=seconds, share=0.5, clock=self.clock, say=self.say)


def explained(
    problem: Problem, found: Solution, source: Variants, wanted: ExplainOptions, deadline: Deadline
) -> dict[str, object]:
    """Return the requested `marginal`, `pareto` and `sensitivity` of a feasible plan, for
    plan.json.

    The marginal prices, which every plan has, end at the deadline. All three need a proved optimum,
    and are absent for other plans.
    """
    assert found.path is not None
    body: dict[str, object] = {}
    if not found.proved:
        return body
    if wanted.marginal:
        body["marginal"] = marginal_prices(
            problem, found, lambda solves: wanted.marginal_budget(solves, deadline)
        )
    if wanted.pareto:
        body["pareto"] = [
            front(Curve(problem, axis, wanted.budget(_FRONT_SOLVES)), found).body(
                problem, found.path
            )
            for axis in _front_axes(problem)
        ]
    if wanted.sensitivity:
        body["sensitivity"] = sensitivity(source, found, wanted.budget(_SENSITIVITY_SOLVES))
    return body


def _front_axes(problem: Problem) -> list[Axis]:
    """Availability, and the highest percentile that has a limit."""
    tail = [Axis(f"p{max(problem.latency_ms_max)}_ms")] if problem.latency_ms_max else []
    return [AVAILABILITY, *tail]


def binding_of(
    problem: Problem, found: Solution, source: Variants, others: Sequence[str], deadline: Deadline
) -> tuple[str, ...]:
    """Return the binding limits, with `others` (promises, integrity) that this problem lacks."""
    own = binding(problem, found, source, deadline)
    return (*others,) if others and own == [_NOTHING] else (*own, *others)


def binding(
    problem: Problem,
    found: Solution,
    source: Variants | None = None,
    deadline: Deadline | None = None,
) -> list[str]:
    """Return the limits without which the plan is cheaper, with the saving, largest first."""
    assert found.usd_per_month is not None
    deadline = deadline or Deadline(math.inf)
    saved: list[tuple[float, str]] = []
    cut = []
    for family in filter(lambda f: _can_bind(problem, f), FAMILIES):
        other = _solved(problem.without(family), found, deadline.within(_BINDING_S))
        assert other.usd_per_month is not None  # a relaxation of a feasible problem
        less = found.usd_per_month - other.usd_per_month
        if less <= CENT and not other.proved:
            cut.append(family)
        if less > CENT:
            least = "" if other.proved else "at least "
            saved.append((less, f"{family}: without it {least}{less:.2f} USD a month less"))
    if source is not None:
        saved += _nodes_binding(problem, found, source, deadline.within(_BINDING_S))
    if not saved and cut:
        return [f"not decided in time: what a plan costs without {' or '.join(cut)}"]
    if not saved:
        return [_NOTHING]
    return [text for _, text in sorted(saved, reverse=True)]


def _solved(problem: Problem, found: Solution, deadline: Deadline) -> Solution:
    limit_s, clock = deadline.left_s(), deadline.clock
    return solve(problem, known=found.path, limit_s=limit_s, clock=clock)


def infeasible(
    problem: Problem, source: Variants | None = None, deadline: Deadline | None = None
) -> tuple[list[str], Relaxed]:
    """Why nothing is feasible, in words, and the smallest relaxations."""
    own = (deadline or Deadline(math.inf)).within(SECONDS)
    budget = Budget(SOLVES, seconds=own.left_s(), clock=own.clock)
    alone = relaxations(problem, budget, source)
    joint = [] if alone else together(problem, budget)
    body: Relaxed = {
        "alone": [one.body(problem) for one in alone],
        "together": [one.body(problem) for one in joint],
        "cut": budget.ended or None,
    }
    texts = [*_empty_tiers(problem), *_words(alone, joint, budget.ended)]
    return texts, body


def _empty_tiers(problem: Problem) -> list[str]:
    return [
        f"tier {t + 1}: no instance type and node count carries the load"
        for t, tier in enumerate(problem.options)
        if not tier
    ]


def _words(alone: list[Relaxation], joint: list[Relaxation], ended: str) -> list[str]:
    cut = [f"the search for what would help was cut {ended}: more may help"] if ended else []
    if alone:
        return [*(_text(one, "with the other limits kept") for one in alone), *cut]
    if joint:
        head = "no single limit can be blamed; loosened by one common factor, these suffice:"
        return [head, *(_text(one, "with the others of this list") for one in joint), *cut]
    if ended:
        return cut
    return ["no single limit can be blamed, and loosening all of them together does not help"]


def _text(one: Relaxation, how: str) -> str:
    """One relaxation in words; a value is rounded to the side on which it is feasible."""
    usd = f"{cost(one.path):.2f} USD a month"
    if one.value is None or one.asked is None:
        return f"{one.limit}: dropping it makes a plan feasible, for {usd}"
    if one.limit == "max_nodes":
        return f"max_nodes: {one.asked:g} allowed, {one.value:g} are enough, for {usd}"
    axis = Axis(one.limit)
    name, asked, value = one.limit.removesuffix("_ms"), one.asked, one.value
    reached = axis.text(axis.from_stated(value))
    if axis.is_availability:
        least = "the most" if one.least else "reachable"
        return f"{name}: {asked} asked, {reached} is {least} {how}, for {usd}; " + (
            f"short by {asked - value:.2g}"
        )
    least = "the least" if one.least else "reachable"
    if axis.key in ("utilisation", "collision"):
        return f"{name}: {asked:.0%} asked, {reached} is {least} {how}, for {usd}"
    short = f"short by {value - asked:.1f} ms"
    return f"{name}: {asked:g} ms asked, {reached} is {least} {how}, for {usd}; {short}"


def _can_bind(problem: Problem, family: str) -> bool:
    """True if the limit is imposed and some option could break it."""
    if family in ("utilisation", "collision"):
        limit = getattr(problem, f"{family}_max")
        return any((getattr(columns(tier), family) > limit).any() for tier in problem.options)
    return problem.without(family) != problem


def _nodes_binding(
    problem: Problem, found: Solution, source: Variants, deadline: Deadline
) -> list[tuple[float, str]]:
    """Return the saving with twice max_nodes; skipped if one machine more is too expensive."""
    assert found.usd_per_month is not None
    least = [float(columns(tier).usd.min()) for tier in problem.options]
    larger = [_more_than(tier, source.max_nodes) for tier in problem.options]
    dearer = min(sum(least) - one + more for one, more in zip(least, larger, strict=True))
    if dearer >= found.usd_per_month - CENT:
        return []
    most = min(2 * source.max_nodes, NODES_MAX)
    if most == source.max_nodes:
        return []
    try:
        larger_problem = source.problem(max_nodes=most, check=deadline.check)
    except (InputError, OutOfTimeError):  # more than is listed, or than there is time: not decided
        return []
    other = _solved(larger_problem, found, deadline)
    if other.usd_per_month is None or found.usd_per_month - other.usd_per_month <= CENT:
        return []
    saved = found.usd_per_month - other.usd_per_month
    return [(saved, f"max_nodes: with {most} allowed {saved:.2f} USD a month less")]


def _more_than(tier: Sequence[Option], machines: int) -> float:
    """Cost of one machine more than that: the cheapest type, off where it need not be on."""
    c = columns(tier)
    row = int((c.usd / c.needed).argmin())
    on = float(c.usd[row] / c.needed[row])
    active = int(c.needed.min())
    return active * on + (machines + 1 - active) * min(on, usd_when_off(tier[row].instance))
