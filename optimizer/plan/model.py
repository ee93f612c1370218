r"""The optimization: the cheapest way through a layered graph (Pyomo, HiGHS).

Layer t holds the amplifications a = r_1 ... r_{t-1} that tier t can see. An option of tier t at
level a with r replicas is an arc from (t, a) to (t + 1, a r); a plan is one path. So load, which
upstream replicas multiply, needs no products of variables: it is in the options of each level.

    minimise    sum_o c_o x_o                                    x_o binary
    subject to  one option in the first tier; what enters a level leaves it
                sum_o u_o x_o <= 1        u_o = log(1 - U_o) / log(A): availabilities multiply
                per tier: utilisation_o x_o <= the limit, collision_o x_o <= the limit
                latency cuts

The tail of a sum is not a sum of tails: latency stays outside. A plan that the solver proposes is
evaluated whole; if it is too slow, so is every plan with the same replicas and in no tier more
nodes or more vCPUs, and the cut says that, pushed as far as it holds. The first plan that passes is
the cheapest: cuts remove only plans that fail. Availability is scaled by its budget, because a
tolerance of 1e-6 would swallow the nines, and everything is checked again outside the solver.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.errors import PlannerError
from optimizer.plan.options import Option
from optimizer.plan.problem import Path, Problem, loss, too_slow, violations
from optimizer.plan.screen import affordable, by_group, cost, first_plan, front, hopeful

_CUTS_MAX = 2_000


@dataclass(frozen=True)
class Solution:
    """The cheapest path, or None if there is none; how it was found."""

    path: Path | None
    usd_per_month: float | None
    cuts: int
    solves: int


def solve(problem: Problem, known: Path | None = None) -> Solution:
    """The cheapest path that keeps every limit, proved within the options; see the module.

    `known` is a path that keeps them all, if there is one already: nothing dearer is looked at.
    """
    options = _eligible(problem)
    if not all(options):
        return Solution(None, None, 0, 0)
    tiers = [by_group(tier) for tier in options]
    live = hopeful(problem, tiers)
    if not live:
        return Solution(None, None, 0, 0)
    best = known or first_plan(problem, tiers, live)
    alive = [{route[t] for route in live} for t in range(len(tiers))]
    options = [
        [o for o in tier if (o.upstream, o.replicas) in alive[t]] for t, tier in enumerate(options)
    ]
    return _cheapest(problem, affordable(options, cost(best)))


def _cheapest(problem: Problem, options: list[list[Option]]) -> Solution:
    model = _build(problem, options)
    solver = importlib.import_module("pyomo.contrib.solver.solvers.highs").Highs()
    cuts = 0
    for solves in itertools.count(1):
        chosen = _optimum(solver, model, options)
        if chosen is None:
            return Solution(None, None, cuts, solves)
        broken = violations(problem, chosen)
        if not broken:
            return Solution(chosen, cost(chosen), cuts, solves)
        # not latency alone: inside of the solver's tolerance, outside of the limit
        new = (
            _latency_cuts(problem, options, chosen)
            if broken == ["latency"]
            else [[(t, options[t].index(o)) for t, o in enumerate(chosen)]]
        )
        for cut in new:
            model.latency_cuts.add(sum(model.choose[t, i] for t, i in cut) <= len(chosen) - 1)
        cuts += len(new)
        if cuts > _CUTS_MAX:
            raise PlannerError(
                "plan",
                expected=f"an optimum within {_CUTS_MAX} cuts",
                came="none so far",
                do="Lower max_nodes or max_replicas.",
            )
    raise AssertionError("unreachable")


def _pyomo() -> Any:
    """pyomo.environ, imported late (1 s); it exports nothing that a type checker sees."""
    return importlib.import_module("pyomo.environ")


def _eligible(problem: Problem) -> list[list[Option]]:
    """Options that keep by themselves the limits which concern a single tier."""
    budget = -math.log(problem.availability_min) if problem.availability_min else math.inf

    def fits(option: Option) -> bool:
        return (
            loss(option) <= budget
            and option.utilisation <= problem.utilisation_max
            and option.collision <= problem.collision_max
        )

    return [_undominated(problem, list(filter(fits, tier))) for tier in problem.options]


def _undominated(problem: Problem, tier: list[Option]) -> list[Option]:
    """Without options that another one at the same level, with the same replicas, matches or beats.

    All that is left keeps the limits of its own tier, so only cost and what the coupled limits look
    at still tell options apart: the loss, and nodes and vCPUs, more of which are no slower.
    """
    return [kept for group in by_group(tier).values() for kept in _front(problem, group)]


def _front(problem: Problem, group: list[Option]) -> list[Option]:
    columns: list[list[float]] = [[o.usd_per_month for o in group]]
    if problem.availability_min is not None:
        columns.append([o.unavailability for o in group])
    if problem.latency_ms_max:
        columns += [[-o.needed for o in group], [-o.instance.vcpus for o in group]]
    return [group[i] for i in front(columns)]


def _build(problem: Problem, options: list[list[Option]]) -> Any:
    pyo = _pyomo()

    model = pyo.ConcreteModel(doc="cheapest fleet that keeps the limits")
    pairs = [(t, i) for t, tier in enumerate(options) for i in range(len(tier))]
    model.arcs = pyo.Set(initialize=pairs, dimen=2, doc="(tier, option): an arc of the graph")
    model.choose = pyo.Var(model.arcs, domain=pyo.Binary, doc="1: the tier is built like this")
    _path(model, options)
    _availability(model, options, problem)
    _utilisation(model, options, problem)
    _collision(model, options, problem)
    model.latency_cuts = pyo.ConstraintList(doc="plans that were found too slow, and all no better")
    model.cost = pyo.Objective(
        expr=sum(options[t][i].usd_per_month * model.choose[t, i] for t, i in pairs),
        doc="USD per month",
    )
    return model


def _path(model: Any, options: list[list[Option]]) -> None:
    """One option in the first tier, and at each level as many options as enter it."""
    pyo = _pyomo()

    model.entry = pyo.Constraint(
        expr=sum(model.choose[0, i] for i in range(len(options[0]))) == 1,
        doc="the first tier is built in exactly one way",
    )
    levels = []
    for t in range(1, len(options)):
        seen = {o.upstream * o.replicas for o in options[t - 1]} | {o.upstream for o in options[t]}
        levels += [(t, level) for level in sorted(seen)]
    model.levels = pyo.Set(initialize=levels, dimen=2, doc="(tier, amplification by upstream r)")

    def conserve(model: Any, t: int, level: int) -> Any:
        enters = [
            model.choose[t - 1, i]
            for i, o in enumerate(options[t - 1])
            if o.upstream * o.replicas == level
        ]
        leaves = [model.choose[t, i] for i, o in enumerate(options[t]) if o.upstream == level]
        return sum(enters) == sum(leaves)

    model.flow = pyo.Constraint(
        model.levels, rule=conserve, doc="a tier sees the amplification of the tiers above it"
    )


def _availability(model: Any, options: list[list[Option]], problem: Problem) -> None:
    """The tiers' losses of log availability fit in the budget, which is scaled to 1."""
    pyo = _pyomo()

    if problem.availability_min is None:
        return
    budget = -math.log(problem.availability_min)
    model.availability = pyo.Constraint(
        expr=sum(loss(options[t][i]) / budget * model.choose[t, i] for t, i in model.arcs) <= 1,
        doc="product of the tiers' availabilities; in units of the whole budget",
    )


def _utilisation(model: Any, options: list[list[Option]], problem: Problem) -> None:
    """No tier above the utilisation limit."""
    pyo = _pyomo()

    if math.isinf(problem.utilisation_max):
        return
    model.utilisation = pyo.Constraint(
        range(len(options)),
        rule=lambda model, t: (
            sum(o.utilisation * model.choose[t, i] for i, o in enumerate(options[t]))
            <= problem.utilisation_max
        ),
        doc="sustained load over sustained capacity of the needed nodes (sPARE Eq. 4)",
    )


def _collision(model: Any, options: list[list[Option]], problem: Problem) -> None:
    """No tier above the collision limit."""
    pyo = _pyomo()

    if len(options) < 2 or problem.collision_max >= 1:
        return
    model.collision = pyo.Constraint(
        range(1, len(options)),
        rule=lambda model, t: (
            sum(o.collision * model.choose[t, i] for i, o in enumerate(options[t]))
            <= problem.collision_max
        ),
        doc="probability that copies of one page meet on a server (sPARE Eq. 2)",
    )


def _optimum(solver: Any, model: Any, options: list[list[Option]]) -> Path | None:
    from pyomo.contrib.solver.common.results import TerminationCondition

    result = solver.solve(
        model,
        load_solutions=False,
        raise_exception_on_nonoptimal_result=False,
        rel_gap=0.0,
        abs_gap=0.0,
        threads=1,
    )
    ended = result.termination_condition
    infeasible = (
        TerminationCondition.provenInfeasible,
        TerminationCondition.infeasibleOrUnbounded,
    )
    if ended in infeasible:
        return None
    if ended != TerminationCondition.convergenceCriteriaSatisfied:
        raise PlannerError("plan", expected="an optimum from HiGHS", came=str(ended))
    values = result.solution_loader.get_vars()
    on = [(t, i) for t, i in model.arcs if values[model.choose[t, i]] > 0.5]
    return tuple(options[t][i] for t, i in sorted(on))


def _no_faster(a: Option, b: Option) -> bool:
    """a has in this place neither more nodes nor more vCPUs than b."""
    return (
        (a.upstream, a.replicas) == (b.upstream, b.replicas)
        and a.needed <= b.needed
        and a.instance.vcpus <= b.instance.vcpus
    )


def _latency_cuts(
    problem: Problem, options: list[list[Option]], slow: Path
) -> list[list[tuple[int, int]]]:
    """Cuts that remove `slow` and whatever is no faster: each tier is raised in turn, in two
    orders."""
    cuts = []
    tiers = range(len(slow))
    for order in {tuple(tiers), tuple(reversed(tiers))}:
        raised = _raised(problem, options, slow, order)
        cut = [(t, i) for t in tiers for i, o in enumerate(options[t]) if _no_faster(o, raised[t])]
        cuts.append(cut)
    return cuts


def _raised(
    problem: Problem, options: list[list[Option]], slow: Path, order: Sequence[int]
) -> Path:
    """A plan that is still too slow, with each tier as large as that allows, in `order`."""
    path = list(slow)
    for t in order:
        larger = sorted(
            {
                (o.needed, o.instance.vcpus): o for o in options[t] if _no_faster(path[t], o)
            }.values(),
            key=lambda o: (o.needed * o.instance.vcpus, o.needed),
        )
        for candidate in _descending(larger):
            trial = (*path[:t], candidate, *path[t + 1 :])
            if too_slow(problem, trial):
                path[t] = candidate
                break
    return tuple(path)


def _descending(larger: list[Option], tries: int = 12) -> list[Option]:
    """At most `tries` of the candidates, the largest first, evenly spread."""
    if len(larger) <= tries:
        return larger[::-1]
    step = (len(larger) - 1) / (tries - 1)
    return [larger[round(k * step)] for k in range(tries - 1, -1, -1)]
