"""The reasons of a plan's cost, or of a missing plan, in words and as data."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from core.errors import InputError, PlannerError
from core.tolerances import CENT
from optimizer.fit import Results
from optimizer.plan.explain.curve import AVAILABILITY, Axis, Budget, Curve
from optimizer.plan.explain.marginal import marginal_prices
from optimizer.plan.explain.pareto import front
from optimizer.plan.explain.relaxation import (
    SECONDS,
    SOLVES,
    Relaxation,
    relax_together,
    relaxations,
)
from optimizer.plan.explain.sensitivity import Variants, sensitivity
from optimizer.plan.solve.deadline import Clock, Deadline
from optimizer.plan.solve.model import Solution, attempt
from optimizer.plan.solve.options import NODES_MAX, Option, usd_when_off
from optimizer.plan.solve.presolve import cost
from optimizer.plan.solve.problem import FAMILIES, Problem
from optimizer.plan.solve.table import columns

_NOTHING = "none of the SLOs: stability and the replicas' placement alone set this cost"
_BINDING_S = 5.0  # of each solve
_MARGINAL_S = 10.0  # of each limit
_FRONT_SOLVES = 90
_SENSITIVITY_SOLVES = 20


class RelaxationBody(TypedDict):
    """The relaxations that make a plan feasible.

    `alone`: limits of which each one suffices. `together`: if there are none, values of several
    limits that suffice together. `cut`: the reason if the search was cut.
    """

    alone: list[dict[str, object]]
    together: list[dict[str, object]]
    cut: str | None


@dataclass(frozen=True)
class ExplainOptions:
    """The requested explanations of a plan, their time limits, and the listener to progress.

    Binding limits and, without a feasible plan, relaxations are always included. `records` of the
    run let the simulator decide between fleets; without them the law's plan stands, for the reason
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


def explain(
    problem: Problem,
    solution: Solution,
    source: Variants,
    options: ExplainOptions,
    deadline: Deadline,
) -> dict[str, object]:
    """Return `marginal`, `pareto` and `sensitivity` for plan.json, as far as requested.

    The marginal prices, which every plan has, end at the deadline. All three need a proved optimum,
    and are absent for other plans.
    """
    assert solution.path is not None
    body: dict[str, object] = {}
    if not solution.proved:
        return body
    if options.marginal:
        body["marginal"] = marginal_prices(
            problem, solution, lambda solves: options.marginal_budget(solves, deadline)
        )
    if options.pareto:
        body["pareto"] = [
            front(Curve(problem, axis, options.budget(_FRONT_SOLVES)), solution).body(
                problem, solution.path
            )
            for axis in _front_axes(problem)
        ]
    if options.sensitivity:
        body["sensitivity"] = sensitivity(source, solution, options.budget(_SENSITIVITY_SOLVES))
    return body


def _front_axes(problem: Problem) -> list[Axis]:
    """Return availability, and the highest percentile that has a limit."""
    tail = [Axis(f"p{max(problem.latency_ms_max)}_ms")] if problem.latency_ms_max else []
    return [AVAILABILITY, *tail]


def binding_of(
    problem: Problem,
    solution: Solution,
    source: Variants,
    other_limits: Sequence[str],
    deadline: Deadline,
) -> tuple[str, ...]:
    """Return the binding limits, with `other_limits` (promises, integrity) outside this problem."""
    own_limits = find_binding(problem, solution, source, deadline)
    return (
        (*other_limits,)
        if other_limits and own_limits == [_NOTHING]
        else (*own_limits, *other_limits)
    )


def find_binding(
    problem: Problem,
    solution: Solution,
    source: Variants | None = None,
    deadline: Deadline | None = None,
) -> list[str]:
    """Return the limits without which the plan is cheaper, with the saving, largest first."""
    deadline = deadline or Deadline(math.inf)
    saved: list[tuple[float, str]] = []
    cut = []
    for family in filter(lambda f: _can_bind(problem, f), FAMILIES):
        relaxed = attempt(problem.without(family), solution.path, deadline.within(_BINDING_S))
        usd_less = cost(solution.path) - cost(relaxed.path)
        if usd_less <= CENT and not relaxed.proved:
            cut.append(family)
        if usd_less > CENT:
            least = "" if relaxed.proved else "at least "
            saved.append((usd_less, f"{family}: without it {least}{usd_less:.2f} USD a month less"))
    if source is not None:
        saved += _node_savings(problem, solution, source, deadline.within(_BINDING_S))
    if not saved and cut:
        return [f"not decided in time: what a plan costs without {' or '.join(cut)}"]
    if not saved:
        return [_NOTHING]
    return [text for _, text in sorted(saved, reverse=True)]


def explain_infeasible(
    problem: Problem, source: Variants | None = None, deadline: Deadline | None = None
) -> tuple[list[str], RelaxationBody]:
    """Return the reasons why nothing is feasible, as texts, and the smallest relaxations."""
    search_deadline = (deadline or Deadline(math.inf)).within(SECONDS)
    budget = Budget(SOLVES, seconds=search_deadline.left_s(), clock=search_deadline.clock)
    alone = relaxations(problem, budget, source)
    joint = [] if alone else relax_together(problem, budget)
    body: RelaxationBody = {
        "alone": [relaxation.body(problem) for relaxation in alone],
        "together": [relaxation.body(problem) for relaxation in joint],
        "cut": budget.ended or None,
    }
    texts = [*_empty_tiers(problem), *_relaxation_texts(alone, joint, budget.ended)]
    return texts, body


def _empty_tiers(problem: Problem) -> list[str]:
    return [
        f"tier {t + 1}: no instance type and node count carries the load"
        for t, tier in enumerate(problem.options)
        if not tier
    ]


def _relaxation_texts(alone: list[Relaxation], joint: list[Relaxation], ended: str) -> list[str]:
    cut = [f"the search for what would help was cut {ended}: more may help"] if ended else []
    if alone:
        return [
            *(_relaxation_text(relaxation, "with the other limits kept") for relaxation in alone),
            *cut,
        ]
    if joint:
        head = "no single limit can be blamed; loosened by one common factor, these suffice:"
        return [
            head,
            *(_relaxation_text(relaxation, "with the others of this list") for relaxation in joint),
            *cut,
        ]
    if ended:
        return cut
    return ["no single limit can be blamed, and loosening all of them together does not help"]


def _relaxation_text(relaxation: Relaxation, condition: str) -> str:
    """Return one relaxation as text; its value is rounded to the feasible side."""
    usd = f"{cost(relaxation.path):.2f} USD a month"
    if relaxation.value is None or relaxation.asked is None:
        return f"{relaxation.limit}: dropping it makes a plan feasible, for {usd}"
    if relaxation.limit == "max_nodes":
        return (
            f"max_nodes: {relaxation.asked:g} allowed, {relaxation.value:g} are enough, for {usd}"
        )
    axis = Axis(relaxation.limit)
    name = relaxation.limit.removesuffix("_ms")
    limit, value = relaxation.asked, relaxation.value
    reached = axis.text(axis.from_stated(value))
    if axis.is_availability:
        least = "the most" if relaxation.least else "reachable"
        return f"{name}: {limit} asked, {reached} is {least} {condition}, for {usd}; " + (
            f"short by {limit - value:.2g}"
        )
    least = "the least" if relaxation.least else "reachable"
    if axis.key in ("utilisation", "collision"):
        return f"{name}: {limit:.0%} asked, {reached} is {least} {condition}, for {usd}"
    short = f"short by {value - limit:.1f} ms"
    return f"{name}: {limit:g} ms asked, {reached} is {least} {condition}, for {usd}; {short}"


def _can_bind(problem: Problem, family: str) -> bool:
    """True if the limit is imposed and some option could break it."""
    if family in ("utilisation", "collision"):
        limit = getattr(problem, f"{family}_max")
        return any((getattr(columns(tier), family) > limit).any() for tier in problem.options)
    return problem.without(family) != problem


def _node_savings(
    problem: Problem, solution: Solution, source: Variants, deadline: Deadline
) -> list[tuple[float, str]]:
    """Return the saving with twice max_nodes; empty if one more machine is too expensive."""
    usd_least = [float(columns(tier).usd.min()) for tier in problem.options]
    usd_larger = [_usd_of_more(tier, source.max_nodes) for tier in problem.options]
    dearer = min(
        sum(usd_least) - least + larger for least, larger in zip(usd_least, usd_larger, strict=True)
    )
    if dearer >= cost(solution.path) - CENT:
        return []
    most = min(2 * source.max_nodes, NODES_MAX)
    if most == source.max_nodes:
        return []
    try:
        larger_problem = source.problem(max_nodes=most, check=deadline.check)
    except (InputError, PlannerError):  # too many options, or no time: not decided
        return []
    saved = cost(solution.path) - cost(attempt(larger_problem, solution.path, deadline).path)
    if saved <= CENT:
        return []
    return [(saved, f"max_nodes: with {most} allowed {saved:.2f} USD a month less")]


def _usd_of_more(tier: Sequence[Option], machines: int) -> float:
    """Return the least cost of a tier with one machine more than `machines`.

    The machines are of the cheapest type, and off if they need not be on.
    """
    c = columns(tier)
    row = int((c.usd / c.needed).argmin())
    on = float(c.usd[row] / c.needed[row])
    active = int(c.needed.min())
    return active * on + (machines + 1 - active) * min(on, usd_when_off(tier[row].instance))
