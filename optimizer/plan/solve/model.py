r"""The optimization: the cheapest way through a layered graph (Pyomo, HiGHS).

Layer t holds the amplifications a = r_1 ... r_{t-1} that tier t can see. An option of tier t at
level a with r replicas is an arc from (t, a) to (t + 1, a r); a plan is one path. So load, which
upstream replicas multiply, needs no products of variables: it is in the options of each level.

    minimise    sum_o c_o x_o                                    x_o binary
    subject to  one option in the first tier; each path that enters a level leaves it
                sum_o u_o x_o <= 1        u_o = log(1 - U_o) / log(A): availabilities multiply
                latency cuts

The limits of a single tier (utilisation, collision, degraded conditions) are kept by leaving out
the options that break them.

The tail of a sum is not a sum of tails, so latency is outside of the program. A plan that the
solver proposes is evaluated whole. If it is too slow, so is every plan with the same replicas and
in no tier more nodes or more vCPUs; the cut removes them, extended as far as it holds. The first
plan that passes is the cheapest, because cuts remove only plans that fail. Long chains need too
many cuts: if the latency has the structure of a chain, HiGHS is not asked again after the first
plan that is too slow, and `labels` finds the cheapest. Availability is scaled by its budget,
because a tolerance of 1e-6 would hide nines, and everything is checked again outside of the solver.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.errors import PlannerError
from core.tolerances import GAP_LEAST
from core.vocabulary import Mechanism
from optimizer.plan.solve.deadline import Clock, Deadline, OutOfTimeError
from optimizer.plan.solve.highs import Highs, TimeLimitError, pyomo_environ
from optimizer.plan.solve.incumbent import first_plan
from optimizer.plan.solve.labels import GivenUpError, cheap, cheapest
from optimizer.plan.solve.monotony import breach
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import (
    Pool,
    affordable,
    best_price,
    bounds,
    budget,
    cost,
    eligible,
    front,
    weights_at,
)
from optimizer.plan.solve.problem import Path, Problem, too_slow, violations

LIMIT_S = 120.0
_CUTS_MAX = 2_000


@dataclass(frozen=True)
class Solution:
    """The cheapest path, or None if there is none; how it was found.

    `gap` is 0 for a proved optimum. Otherwise the search met its bound, and no plan costs less than
    (1 - gap) times this one; None if there is no plan to compare with. `proof` says what proved it;
    `breach` where a larger fleet was seen to be slower, so that nothing is.
    """

    path: Path | None
    usd_per_month: float | None
    cuts: int
    solves: int
    gap: float | None = 0.0
    proof: str = "cuts"
    breach: str | None = None

    @property
    def proved(self) -> bool:
        """True if this is the optimum, or there is none."""
        return self.gap == 0.0


NONE = Solution(None, None, 0, 0)  # there is none
NOT_FOUND = Solution(None, None, 0, 0, gap=None, proof="none")


def solve(
    problem: Problem,
    known: Path | None = None,
    *,
    limit_s: float = LIMIT_S,
    clock: Clock = time.monotonic,
) -> Solution:
    """Return the cheapest path that keeps every limit, proved within the options.

    Parameters: known, a path that keeps them all, if there is one already: nothing dearer is looked
    at; limit_s [s] bounds the search, by `clock`. What it ended with is then the answer, with its
    gap.
    Raises: OutOfTimeError if the time ends before any plan, and before it is proved that there is
    none.
    """
    deadline = Deadline(limit_s, clock)
    pools = affordable(problem, eligible(problem), math.inf)
    if not all(len(pool) for pool in pools):
        return NONE
    by_labels = problem.chain is not None and bool(problem.latency_ms_max) and len(pools) > 2
    best = known if known is not None else first_plan(problem, pools, deadline, quick=by_labels)
    if by_labels and best is not None:
        best = cheap(problem, affordable(problem, pools, cost(best)), best, deadline)
    pools = affordable(problem, pools, cost(best))
    try:
        pools = [front(problem, pool, deadline.check) for pool in pools]
    except OutOfTimeError:
        return _unproved(best, _least(problem, pools))
    pools = affordable(problem, pools, cost(best))
    if not all(len(pool) for pool in pools):
        return Solution(best, None if best is None else cost(best), 0, 0)
    return _Search(problem, pools, best, deadline, by_labels).run()


def check_proof(problem: Problem, found: Solution) -> Solution:
    """Return the solution, unproved if the latency violates the proof's condition (`monotony`)."""
    seen = breach(problem, found.path) if found.proved else None
    if seen is None:
        return found
    if found.usd_per_month is None:
        return replace(found, gap=None, proof="none", breach=seen)
    gap = _gap(found.usd_per_month, _least(problem, eligible(problem)))
    return replace(found, gap=gap, proof="none", breach=seen)


def attempt(
    problem: Problem,
    known: Path | None = None,
    *,
    limit_s: float,
    clock: Clock = time.monotonic,
) -> Solution:
    """Solve a problem beside the plan, as `solve` does.

    A search without an answer is no error, but returns a solution without a path that is not
    `proved`.
    """
    try:
        return solve(problem, known, limit_s=limit_s, clock=clock)
    except PlannerError:
        return NOT_FOUND


def _least(problem: Problem, pools: Sequence[Pool]) -> float:
    """Return a lower bound of the cost of a plan, for any latency."""
    price = best_price(problem, pools)
    return bounds(pools, weights_at(problem, pools, price)).least - price


def _gap(usd: float, least: float) -> float:
    return max(GAP_LEAST, 1.0 - least / usd) if usd > 0 else GAP_LEAST


def _unproved(best: Path | None, least: float, cuts: int = 0, solves: int = 0) -> Solution:
    """Return the best plan up to now. Raises: OutOfTimeError if there is none."""
    if best is None:
        raise OutOfTimeError(
            "plan",
            expected="a plan, or a proof that none exists, within the search's bounds",
            got=f"neither after {solves} solves and {cuts} cuts",
            hint="Lower max_nodes or max_replicas, or give it more time.",
        )
    usd = cost(best)
    return Solution(best, usd, cuts, solves, _gap(usd, least), "none")


class _Search:
    """The loop of one solve: propose, evaluate, cut."""

    def __init__(
        self,
        problem: Problem,
        pools: list[Pool],
        best: Path | None,
        deadline: Deadline,
        by_labels: bool,
    ) -> None:
        self._labels = by_labels
        self._problem, self._pools, self._best, self._deadline = problem, pools, best, deadline
        self._options = [[pool.option(i) for i in range(len(pool))] for pool in pools]
        self._solver = Highs()
        self._model = _build(problem, pools, self._options)
        self._least = _least(problem, pools)
        self._cuts = self._solves = 0

    def run(self) -> Solution:
        """Search until the proposed plan passes, nothing is left, or a bound is met."""
        while not self._deadline.over() and self._cuts < _CUTS_MAX:
            try:
                chosen = self._proposed()
            except TimeLimitError:
                break
            if chosen is None:
                return self._end(self._best)
            self._least = max(self._least, cost(chosen))
            broken = violations(self._problem, chosen)
            if not broken:
                return self._end(chosen)
            if self._labels and set(broken) <= {"latency", "degraded"}:
                return self._by_labels()
            self._cuts += add_cuts(
                self._model, self._problem, self._pools, self._options, chosen, broken
            )
        return self._unproved()

    def _end(self, path: Path | None, proof: str = "cuts") -> Solution:
        usd = None if path is None else cost(path)
        return Solution(path, usd, self._cuts, self._solves, 0.0, proof)

    def _unproved(self) -> Solution:
        return _unproved(self._best, self._least, self._cuts, self._solves)

    def _by_labels(self) -> Solution:
        try:
            found = cheapest(self._problem, self._pools, self._best, self._deadline)
        except GivenUpError as ended:
            self._best, self._least = ended.best, max(self._least, ended.least)
            return self._unproved()
        return self._end(found, "labels")

    def _proposed(self) -> Path | None:
        """Return the cheapest plan that no cut forbids."""
        self._solves += 1
        return _optimum(self._solver, self._model, self._options, self._deadline.left_s())


def _build(problem: Problem, pools: list[Pool], options: list[list[Option]]) -> Any:
    model = fleet_model(problem, pools, options, "cheapest fleet that keeps the limits")
    model.cost = pyomo_environ().Objective(
        expr=sum(options[t][i].usd_per_month * model.choose[t, i] for t, i in model.arcs),
        doc="USD per month",
    )
    return model


def fleet_model(problem: Problem, pools: list[Pool], options: list[list[Option]], doc: str) -> Any:
    """Return a program that chooses a fleet which keeps the limits, without an objective."""
    pyo = pyomo_environ()

    model = pyo.ConcreteModel(doc=doc)
    arcs = [(t, i) for t, tier in enumerate(options) for i in range(len(tier))]
    model.arcs = pyo.Set(initialize=arcs, dimen=2, doc="(tier, option): an arc of the graph")
    model.choose = pyo.Var(model.arcs, domain=pyo.Binary, doc="1: the tier is built like this")
    _add_path(model, options)
    _add_availability(model, pools, problem)
    model.latency_cuts = pyo.ConstraintList(doc="plans that were found too slow, and all no better")
    return model


def _add_path(model: Any, options: list[list[Option]]) -> None:
    """One option in the first tier, and at each level as many options as enter it."""
    pyo = pyomo_environ()

    model.entry = pyo.Constraint(
        expr=sum(model.choose[0, i] for i in range(len(options[0]))) == 1,
        doc="the first tier is built in exactly one way",
    )
    levels = [
        (t, level)
        for t in range(1, len(options))
        for level in sorted({o.upstream for o in options[t]})
    ]
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


def _add_availability(model: Any, pools: list[Pool], problem: Problem) -> None:
    """The tiers' losses of log availability fit in the budget, which is scaled to 1."""
    pyo = pyomo_environ()

    if problem.unavailability_max is None:
        return
    shares = [pool.columns.loss / budget(problem) for pool in pools]
    model.availability = pyo.Constraint(
        expr=sum(float(shares[t][i]) * model.choose[t, i] for t, i in model.arcs) <= 1,
        doc="product of the tiers' availabilities; in units of the whole budget",
    )


def _optimum(solver: Highs, model: Any, options: list[list[Option]], left_s: float) -> Path | None:
    # HiGHS 1.15 with presolve calls some models infeasible whose row is met with equality, and ends
    # some whose rows span 1e-8 to 1 in an error (docs/results/2026-11-23-planner-labels.md);
    # without it it takes some plan for the optimum that is too dear (test_bounds.py). So it is
    # asked both ways, and the cheaper answer counts.
    values = solver.optimum(model, left_s, presolve="off")
    found = [] if values is None else [chosen_path(model, options, values)]
    try:
        again = solver.optimum(model, left_s, presolve="on")
    except PlannerError:
        again = None
    found += [] if again is None else [chosen_path(model, options, again)]
    return min(found, key=cost, default=None)


def chosen_path(model: Any, options: list[list[Option]], values: Mapping[Any, float]) -> Path:
    """Return the options that the model chooses."""
    on = [(t, i) for t, i in model.arcs if values[model.choose[t, i]] > 0.5]
    return tuple(options[t][i] for t, i in sorted(on))


def add_cuts(
    model: Any,
    problem: Problem,
    pools: list[Pool],
    options: list[list[Option]],
    chosen: Path,
    broken: list[str],
) -> int:
    """Forbid `chosen`, and if it is too slow whatever is no faster. Returns: how many cuts."""
    if set(broken) <= {"latency", "degraded"}:
        new = _latency_cuts(problem, pools, chosen)
    else:  # inside of the solver's tolerance, outside of the limit
        new = [[[options[t].index(o)] for t, o in enumerate(chosen)]]
    for cut in new:
        ones = sum(model.choose[t, i] for t, tier in enumerate(cut) for i in tier)
        model.latency_cuts.add(ones <= len(cut) - 1)
    return len(new)


def _latency_cuts(problem: Problem, pools: list[Pool], slow: Path) -> list[list[list[int]]]:
    """Per cut and tier the options of which not all tiers may have one: `slow` and whatever is no
    faster, with each tier raised in turn, in two orders."""
    cuts = []
    tiers = range(len(slow))
    for order in {tuple(tiers), tuple(reversed(tiers))}:
        raised = _raised(problem, pools, slow, order)
        cuts.append([_no_faster(problem, pool, o) for pool, o in zip(pools, raised, strict=True)])
    return cuts


def _no_faster(problem: Problem, pool: Pool, corner: Option) -> list[int]:
    """Options that have, in the place of `corner`, neither more nodes nor more vCPUs."""
    c = pool.columns
    below = (c.upstream == corner.upstream) & (c.replicas == corner.replicas)
    below &= (c.needed <= corner.needed) & (c.vcpus <= corner.instance.vcpus)
    if problem.degraded is not None:
        left = np.minimum(c.needed, c.nodes - problem.degraded.nodes_down)
        below &= left <= problem.degraded.servers(corner)
    return [int(i) for i in np.flatnonzero(below)]


def _raised(problem: Problem, pools: list[Pool], slow: Path, order: Sequence[int]) -> Path:
    """Return a plan that is still too slow, with each tier enlarged as far as possible, in `order`.

    Its tiers need not exist: they are corners of what is cut off.
    """
    path = [_corner(problem, option) for option in slow]
    for t in order:
        c = pools[t].columns
        same = (c.upstream == path[t].upstream) & (c.replicas == path[t].replicas)

        def still_slow(corner: Option, t: int = t) -> bool:
            return too_slow(problem, (*path[:t], corner, *path[t + 1 :]))

        sizes = sorted({float(v) for v in c.vcpus[same] if v > path[t].instance.vcpus})
        path[t] = _last([path[t], *(_sized(path[t], vcpus=v) for v in sizes)], still_slow)
        counts = sorted({int(n) for n in c.needed[same] if n > path[t].needed})
        path[t] = _last([path[t], *(_sized(path[t], needed=n) for n in counts)], still_slow)
    return tuple(path)


def _corner(problem: Problem, option: Option) -> Option:
    """Return a corner with as many needed and, if degraded, remaining servers; any mechanism."""
    if problem.degraded is None:
        return option
    missing = option.needed - problem.degraded.servers(option)
    return replace(option, mechanism=Mechanism.ara, extra=problem.degraded.nodes_down - missing)


def _sized(option: Option, vcpus: float | None = None, needed: int | None = None) -> Option:
    machine = option.instance if vcpus is None else replace(option.instance, vcpus=vcpus)
    return replace(option, instance=machine, needed=option.needed if needed is None else needed)


def _last(corners: list[Option], holds: Callable[[Option], bool]) -> Option:
    """Return the last corner for which it holds, by bisection; it holds for the first."""
    low, high = 0, len(corners)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(corners[middle]) else (low, middle)
    return corners[low]
