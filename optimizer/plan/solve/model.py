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
solver proposes is evaluated as a whole. If it is too slow, so is every plan with the same replicas
that has in no tier more nodes or more vCPUs. A cut removes all of them; its sizes are first raised
as far as they stay too slow. The first plan that passes is the cheapest, because cuts remove only
plans that fail. Long chains need too many cuts. If the latency has the structure of a chain, HiGHS
therefore stops at the first plan that is too slow, and `labels` finds the cheapest. Availability is
scaled by its budget, because a tolerance of 1e-6 would hide nines. Everything is checked again
outside of the solver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.errors import PlannerError
from core.tolerances import GAP_LEAST
from core.vocabulary import Mechanism
from optimizer.plan.solve.deadline import Deadline, OutOfTimeError
from optimizer.plan.solve.highs import Highs, TimeLimitError, pyomo_environ
from optimizer.plan.solve.incumbent import first_plan
from optimizer.plan.solve.labels import GivenUpError, find_cheap, find_cheapest
from optimizer.plan.solve.monotony import find_breach
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import (
    Pool,
    best_price,
    bounds,
    budget,
    cost,
    degraded_servers,
    eligible_pools,
    keep_affordable,
    keep_front,
    weights_at,
)
from optimizer.plan.solve.problem import Path, Problem, find_last, too_slow, violations

LIMIT_S = 120.0
_CUTS_MAX = 2_000


@dataclass(frozen=True)
class Solution:
    """The cheapest path, or None if there is none; how it was found.

    `gap` is 0 for a proved optimum. Otherwise the search met its bound, and no plan costs less than
    (1 - gap) times this one; None if there is no plan to compare with. `proof` names the method
    that proved it. `breach` describes where a larger fleet was slower: then nothing is proved.
    """

    path: Path | None
    cuts: int = 0
    solves: int = 0
    gap: float | None = 0.0
    proof: str = "cuts"
    breach: str | None = None

    @property
    def usd_per_month(self) -> float | None:
        return None if self.path is None else cost(self.path)

    @property
    def proved(self) -> bool:
        """True if this is the optimum, or there is none."""
        return self.gap == 0.0


NONE = Solution(None)  # there is none
NOT_FOUND = Solution(None, gap=None, proof="none")


def solve(
    problem: Problem,
    known: Path | None = None,
    deadline: Deadline | None = None,
) -> Solution:
    """Return the cheapest path that keeps every limit, proved within the options.

    Parameters: known, a path that keeps them all, if there is one already: dearer plans are not
    looked at; deadline, by default LIMIT_S from now. If the time ends, the answer is the best plan
    so far, with its gap.
    Raises: OutOfTimeError if the time ends before any plan is found, or proved not to exist.
    """
    deadline = deadline or Deadline(LIMIT_S)
    pools = keep_affordable(problem, eligible_pools(problem), math.inf)
    if not all(len(pool) for pool in pools):
        return NONE
    by_labels = problem.chain is not None and bool(problem.latency_ms_max) and len(pools) > 2
    best = known if known is not None else first_plan(problem, pools, deadline, quick=by_labels)
    if by_labels and best is not None:
        best = find_cheap(problem, keep_affordable(problem, pools, cost(best)), best, deadline)
    pools = keep_affordable(problem, pools, cost(best))
    try:
        pools = [keep_front(problem, pool, deadline.check) for pool in pools]
    except OutOfTimeError:
        return _unproved_solution(best, _least_cost(problem, pools), deadline.seconds)
    pools = keep_affordable(problem, pools, cost(best))
    if not all(len(pool) for pool in pools):
        return Solution(best)
    return _Search(problem, pools, best, deadline, by_labels).run()


def check_proof(problem: Problem, solution: Solution) -> Solution:
    """Return the solution, unproved if the latency violates the proof's condition (`monotony`)."""
    violation = find_breach(problem, solution.path) if solution.proved else None
    if violation is None:
        return solution
    if solution.usd_per_month is None:
        return replace(solution, gap=None, proof="none", breach=violation)
    gap = _gap(solution.usd_per_month, _least_cost(problem, eligible_pools(problem)))
    return replace(solution, gap=gap, proof="none", breach=violation)


def attempt(problem: Problem, known: Path | None, deadline: Deadline) -> Solution:
    """Solve an additional problem, as `solve` does.

    A search without an answer raises no error. It returns a solution without a path that is not
    `proved`.
    """
    try:
        return solve(problem, known, deadline)
    except PlannerError:
        return NOT_FOUND


def _least_cost(problem: Problem, pools: Sequence[Pool]) -> float:
    """Return a lower bound of the cost of a plan, for any latency."""
    price = best_price(problem, pools)
    return bounds(pools, weights_at(problem, pools, price)).least - price


def _gap(usd: float, least: float) -> float:
    return max(GAP_LEAST, 1.0 - least / usd) if usd > 0 else GAP_LEAST


def _unproved_solution(
    best: Path | None, least: float, limit_s: float, cuts: int = 0, solves: int = 0
) -> Solution:
    """Return the best plan so far, unproved. Raises: OutOfTimeError if there is none."""
    if best is None:
        raise OutOfTimeError(
            "plan",
            expected=f"a plan, or a proof that none exists, within {limit_s:.3g} s and "
            f"{_CUTS_MAX:,} cuts",
            got=f"neither after {solves} solves and {cuts} cuts",
            hint="Lower max_nodes or max_replicas, or give it more time.",
        )
    return Solution(best, cuts, solves, _gap(cost(best), least), "none")


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
        self._least = _least_cost(problem, pools)
        self._cuts = self._solves = 0

    def run(self) -> Solution:
        """Search until the proposed plan passes, nothing is left, or a bound is met."""
        while not self._deadline.over() and self._cuts < _CUTS_MAX:
            try:
                self._solves += 1
                chosen = self._propose(self._deadline.left_s())
            except TimeLimitError:
                break
            if chosen is None:
                return self._end(self._best)
            self._least = max(self._least, cost(chosen))
            broken = violations(self._problem, chosen)
            if not broken:
                return self._end(chosen)
            if self._labels and set(broken) <= {"latency", "degraded"}:
                return self._search_by_labels()
            self._cuts += add_cuts(
                self._model, self._problem, self._pools, self._options, chosen, broken
            )
        return self._end_unproved()

    def _end(self, path: Path | None, proof: str = "cuts") -> Solution:
        return Solution(path, self._cuts, self._solves, 0.0, proof)

    def _end_unproved(self) -> Solution:
        limit_s = self._deadline.seconds
        return _unproved_solution(self._best, self._least, limit_s, self._cuts, self._solves)

    def _search_by_labels(self) -> Solution:
        try:
            path = find_cheapest(self._problem, self._pools, self._best, self._deadline)
        except GivenUpError as error:
            self._best, self._least = error.best, max(self._least, error.least)
            return self._end_unproved()
        return self._end(path, "labels")

    def _propose(self, left_s: float) -> Path | None:
        """Return the cheapest plan that no cut forbids."""
        # With presolve, HiGHS 1.15 calls some models infeasible that meet a row with equality, and
        # fails on some whose rows span 1e-8 to 1 (docs/results/2026-11-23-planner-labels.md).
        # Without presolve, it sometimes gives a plan that is too dear (test_bounds.py). So both are
        # tried, and the cheaper answer counts.
        answers = [self._solver.optimum(self._model, left_s, presolve="off")]
        with suppress(PlannerError):
            answers.append(self._solver.optimum(self._model, left_s, presolve="on"))
        paths = [
            chosen_path(self._model, self._options, values)
            for values in answers
            if values is not None
        ]
        return min(paths, key=cost, default=None)


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
    """Add the path: one option in the first tier, and each path that enters a level leaves it."""
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
    """Limit the sum of the tiers' losses of log availability to the budget, scaled to 1."""
    pyo = pyomo_environ()

    if problem.unavailability_max is None:
        return
    shares = [pool.columns.loss / budget(problem) for pool in pools]
    model.availability = pyo.Constraint(
        expr=sum(float(shares[t][i]) * model.choose[t, i] for t, i in model.arcs) <= 1,
        doc="product of the tiers' availabilities; in units of the whole budget",
    )


def chosen_path(model: Any, options: list[list[Option]], values: Mapping[Any, float]) -> Path:
    arcs = [(t, i) for t, i in model.arcs if values[model.choose[t, i]] > 0.5]
    return tuple(options[t][i] for t, i in sorted(arcs))


def add_cuts(
    model: Any,
    problem: Problem,
    pools: list[Pool],
    options: list[list[Option]],
    chosen: Path,
    broken: list[str],
) -> int:
    """Forbid `chosen` and, if it is too slow, all that are no faster. Returns: number of cuts."""
    if set(broken) <= {"latency", "degraded"}:
        cuts = _latency_cuts(problem, pools, chosen)
    else:  # within the tolerance of the solver, but not within the limit
        cuts = [[[options[t].index(o)] for t, o in enumerate(chosen)]]
    for cut in cuts:
        taken = sum(model.choose[t, i] for t, tier in enumerate(cut) for i in tier)
        model.latency_cuts.add(taken <= len(cut) - 1)
    return len(cuts)


def _latency_cuts(problem: Problem, pools: list[Pool], slow: Path) -> list[list[list[int]]]:
    """Return the cuts for a plan that is too slow: per cut and tier, a list of options.

    Not all tiers may have an option of their list. The lists hold `slow` and all that is no faster,
    after the tiers' sizes are raised one after the other, in two orders."""
    cuts = []
    tiers = range(len(slow))
    for order in {tuple(tiers), tuple(reversed(tiers))}:
        corners = _raise_tiers(problem, pools, slow, order)
        cuts.append(
            [_find_no_faster(problem, pool, o) for pool, o in zip(pools, corners, strict=True)]
        )
    return cuts


def _find_no_faster(problem: Problem, pool: Pool, corner: Option) -> list[int]:
    """Return the options of the group of `corner` with neither more nodes nor more vCPUs."""
    c = pool.columns
    below = (c.upstream == corner.upstream) & (c.replicas == corner.replicas)
    below &= (c.needed <= corner.needed) & (c.vcpus <= corner.instance.vcpus)
    if problem.degraded is not None:
        below &= degraded_servers(problem.degraded, c) <= problem.degraded.servers(corner)
    return [int(i) for i in np.flatnonzero(below)]


def _raise_tiers(problem: Problem, pools: list[Pool], slow: Path, order: Sequence[int]) -> Path:
    """Return a plan that is still too slow, with each tier enlarged as far as possible, in `order`.

    Its options need not exist: they are the corners of the part that is cut off.
    """
    path = [_make_corner(problem, option) for option in slow]
    for t in order:
        c = pools[t].columns
        in_group = (c.upstream == path[t].upstream) & (c.replicas == path[t].replicas)

        def still_slow(corner: Option, t: int = t) -> bool:
            return too_slow(problem, (*path[:t], corner, *path[t + 1 :]))

        sizes = sorted({float(v) for v in c.vcpus[in_group] if v > path[t].instance.vcpus})
        path[t] = find_last([path[t], *(_resize(path[t], vcpus=v) for v in sizes)], still_slow)
        counts = sorted({int(n) for n in c.needed[in_group] if n > path[t].needed})
        path[t] = find_last([path[t], *(_resize(path[t], needed=n) for n in counts)], still_slow)
    return tuple(path)


def _make_corner(problem: Problem, option: Option) -> Option:
    """Return a corner with as many needed servers and, if degraded, as many that are left."""
    if problem.degraded is None:
        return option
    missing = option.needed - problem.degraded.servers(option)
    return replace(option, mechanism=Mechanism.ara, extra=problem.degraded.nodes_down - missing)


def _resize(option: Option, vcpus: float | None = None, needed: int | None = None) -> Option:
    machine = option.instance if vcpus is None else replace(option.instance, vcpus=vcpus)
    return replace(option, instance=machine, needed=option.needed if needed is None else needed)
