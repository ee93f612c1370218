r"""The mixed integer program of a schedule (Pyomo, HiGHS). All sums are over the remaining items.

    y_td      1: tier t follows design d                                             binary
    x_tgjp    machines j of group g that run in period p                             integer
    s_tgjp    machines j of group g that start before period p                       >= 0
    R_tj      machines j of tier t that are paid in all hours                        integer

    minimise    sum standing_j R_tj + sum running_j (h_p / H x_tgjp + L / H s_tgjp)

    subject to  sum_d y_td = 1                                       a tier follows one design
                sum_j u_gj x_tgjp >= sum_(d in g) q_dp y_td          its machines carry its load
                sum_j x_tgjp >= sum_(d in g) max(n_t + e_d, m_t) y_td   no fewer than allowed
                sum_g x_tgjp <= R_tj                                 committed ones are bought
                s_tgjp >= x_tgjp - x_tgj(p-1)                        starts; the day is a ring
                x_tgjp >= sum_(k < K) s_tgj(p-k)                     each start runs K periods
                sum w_qj x_tgjp + w_qj s_tgj(p+1) [L > 0] <= Q_q     quotas, in each period
                sum U_td y_td <= 1 - A                               tiers: a union bound
                sum_t sum_(d in B_t) y_td <= T - 1                   latency cuts
                measure <= cap                                       points of a front

A group has the designs of one tier that use the same machines. So no condition with a large
constant is needed: the machines of a design are zero as soon as its y is zero. If the cost of each
design alone is exact (`schedule.is_exact`), only y is left, and c_d y_td is the objective.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.tolerances import CENT
from optimizer.plan.solve.deadline import Deadline
from optimizer.plan.solve.highs import Highs, pyomo_environ
from optimizer.plan.solve.schedule import (
    USD,
    Bought,
    Design,
    HourlyProblem,
    Measure,
    Schedule,
    cheapest_machines,
    committed,
    is_exact,
    least_cost,
)

Caps = Mapping[Measure, float]  # at most so much of it
Cut = tuple[tuple[int, ...], ...]  # designs per tier: not all tiers may follow one of theirs


@dataclass(frozen=True)
class Proposal:
    """An answer of HiGHS: None where there is none (yet); nothing costs less than `bound`."""

    schedule: Schedule | None
    bound: float
    proved: bool


class ScheduleModel:
    """The program of some designs per tier."""

    def __init__(
        self,
        problem: HourlyProblem,
        pools: Sequence[Sequence[Design]],
        measure: Measure = USD,
        caps: Caps | None = None,
    ) -> None:
        self._problem, self._pools, self._measure = problem, pools, measure
        self._caps = dict(caps or {})
        self._separable = _is_separable(problem, pools, self._caps)
        self._solver = Highs()
        self.model = self._build()

    def hand_over(self) -> None:
        """Give the program to HiGHS; `solve` does so by itself."""
        self._solver.hand_over(self.model)

    def cut(self, cut: Cut) -> None:
        """Forbid that all tiers follow one of these designs."""
        taken = sum(self.model.follow[t, d] for t, tier in enumerate(cut) for d in tier)
        self.model.latency_cuts.add(taken <= len(cut) - 1)

    def solve(self, limit_s: float) -> Proposal:
        """Return the best schedule within the time, and the proved bound.

        The presolve of HiGHS calls some programs infeasible that meet a row with equality. So a
        program that it finds infeasible is solved again without presolve.
        """
        deadline = Deadline(limit_s)
        if not self._separable:
            proposed = self._solve_with(deadline.left_s(), "on")
            if proposed.schedule is not None or not proposed.proved:
                return proposed
        return self._solve_with(deadline.left_s(), "off")

    def _solve_with(self, limit_s: float, presolve: str) -> Proposal:
        gap = CENT if self._measure == USD else 0.0
        answer = self._solver.answer(self.model, limit_s, presolve=presolve, abs_gap=gap)
        schedule = None if answer.values is None else self._read(answer.values)
        return Proposal(schedule, answer.bound, answer.proved)

    def _build(self) -> Any:
        pyo = pyomo_environ()
        model = pyo.ConcreteModel(doc="the cheapest schedule that keeps the limits")
        pairs = [(t, d) for t, pool in enumerate(self._pools) for d in range(len(pool))]
        model.tiers = pyo.Set(initialize=range(len(self._pools)), doc="t, front first")
        model.designs = pyo.Set(initialize=pairs, dimen=2, doc="(t, d)")
        model.follow = pyo.Var(model.designs, domain=pyo.Binary, doc="y: the tier follows it")
        model.latency_cuts = pyo.ConstraintList(doc="designs that are too slow together")
        _add_one_design(pyo, model, self._pools)
        _add_availability(pyo, model, self._pools, self._problem)
        if self._separable:
            costs = {
                (t, d): least_cost(self._problem, self._pools[t][d], self._measure)
                for t, d in pairs
            }
            model.cost = pyo.Objective(
                expr=sum(costs[pair] * model.follow[pair] for pair in pairs),
                doc="each design at its own exact cost",
            )
            return model
        self._groups = _group_designs(self._pools)
        _add_machines(pyo, model, self._problem, self._groups)
        _add_loads(pyo, model, self._problem, self._pools, self._groups)
        _add_commitments(pyo, model)
        if self._problem.starting_h > 0 or self._problem.run_h_min > 1:
            _add_starts(pyo, model, self._problem)
        _add_quotas(pyo, model, self._problem)
        model.caps = pyo.ConstraintList(doc="points of a front")
        for measure, most in self._caps.items():
            model.caps.add(_build_total(model, self._problem, measure) <= most)
        model.cost = pyo.Objective(
            expr=_build_total(model, self._problem, self._measure), doc="what is least"
        )
        return model

    def _read(self, values: Mapping[Any, float]) -> Schedule:
        model, problem = self.model, self._problem
        chosen = []
        for t, pool in enumerate(self._pools):
            on = [d for d in range(len(pool)) if values[model.follow[t, d]] > 0.5]
            chosen.append(pool[on[0]])
        if self._separable:
            return Schedule(
                tuple(chosen),
                tuple(cheapest_machines(problem, design, self._measure) for design in chosen),
            )
        bought = []
        for t, tier in enumerate(problem.tiers):
            machines = []
            for j in sorted(
                {j for (owner, _), g in self._groups.items() if owner == t for j in g[0]}
            ):
                running = tuple(
                    sum(
                        round(values[model.run[t, g, j, p]])
                        for (owner, g), (rows, _) in self._groups.items()
                        if owner == t and j in rows
                    )
                    for p in range(len(problem.periods))
                )
                if any(running):
                    machine = tier.machines[j]
                    machines.append(
                        Bought(machine, max(running) if committed(machine) else 0, running)
                    )
            bought.append(tuple(machines))
        return Schedule(tuple(chosen), tuple(bought))


def _is_separable(problem: HourlyProblem, pools: Sequence[Sequence[Design]], caps: Caps) -> bool:
    """True if the cost of a schedule is the sum of what each design costs by itself."""
    return not caps and all(is_exact(problem, design) for pool in pools for design in pool)


def counts_of(problem: HourlyProblem, pools: Sequence[Sequence[Design]], caps: Caps) -> int:
    """Return the number of integer variables in the program of these designs."""
    if _is_separable(problem, pools, caps):
        return 0
    groups = _group_designs(pools)
    return sum(len(machines) for machines, _ in groups.values()) * len(problem.periods)


Groups = Mapping[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]]  # machines, designs


def _group_designs(pools: Sequence[Sequence[Design]]) -> Groups:
    """Return the machines and the designs of each group, by (tier, number of the group)."""
    groups: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for t, pool in enumerate(pools):
        keys = list(dict.fromkeys(design.key for design in pool))
        for g, key in enumerate(keys):
            groups[t, g] = (key[0], tuple(d for d, design in enumerate(pool) if design.key == key))
    return groups


def _add_one_design(pyo: Any, model: Any, pools: Sequence[Sequence[Design]]) -> None:
    def follows_one(model: Any, t: int) -> Any:
        return sum(model.follow[t, d] for d in range(len(pools[t]))) == 1

    model.one_design = pyo.Constraint(
        model.tiers, rule=follows_one, doc="a tier follows one design"
    )


def _add_availability(
    pyo: Any, model: Any, pools: Sequence[Sequence[Design]], problem: HourlyProblem
) -> None:
    most = problem.unavailability_max
    if most is None:
        return
    model.availability = pyo.Constraint(
        expr=sum(pools[t][d].unavailability / most * model.follow[t, d] for t, d in model.designs)
        <= 1,
        doc="mean over the periods of the tiers' sum; in units of the whole budget",
    )


def _add_machines(pyo: Any, model: Any, problem: HourlyProblem, groups: Groups) -> None:
    model.periods = pyo.Set(initialize=range(len(problem.periods)), doc="p, in their order")
    kinds = [(t, g, j) for (t, g), (rows, _) in groups.items() for j in rows]
    model.kinds = pyo.Set(initialize=kinds, dimen=3, doc="(t, g, j): a machine of a group")
    bought = sorted({(t, j) for t, _, j in kinds if committed(problem.tiers[t].machines[j])})
    model.bought = pyo.Set(initialize=bought, dimen=2, doc="(t, j): a committed machine")
    model.run = pyo.Var(
        model.kinds, model.periods, domain=pyo.NonNegativeIntegers, doc="x: machines that run"
    )
    model.standing = pyo.Var(
        model.bought, domain=pyo.NonNegativeIntegers, doc="R: machines paid in all hours"
    )


def _add_loads(
    pyo: Any, model: Any, problem: HourlyProblem, pools: Sequence[Sequence[Design]], groups: Groups
) -> None:
    model.groups = pyo.Set(initialize=list(groups), dimen=2, doc="(t, g)")

    def carries(model: Any, t: int, g: int, p: int) -> Any:
        rows, members = groups[t, g]
        units = pools[t][members[0]].units
        runs = sum(u * model.run[t, g, j, p] for j, u in zip(rows, units, strict=True))
        return runs >= sum(pools[t][d].demand[p] * model.follow[t, d] for d in members)

    def enough(model: Any, t: int, g: int, p: int) -> Any:
        rows, members = groups[t, g]
        if pools[t][members[0]].counted:
            return pyo.Constraint.Skip
        tier, machines = problem.tiers[t], sum(model.run[t, g, j, p] for j in rows)
        return machines >= sum(
            tier.at_least(pools[t][d].extra) * model.follow[t, d] for d in members
        )

    model.carried = pyo.Constraint(
        model.groups, model.periods, rule=carries, doc="in capacities of the smallest machine"
    )
    model.enough = pyo.Constraint(
        model.groups, model.periods, rule=enough, doc="replicas and min_nodes, and extra machines"
    )


def _add_commitments(pyo: Any, model: Any) -> None:
    def within(model: Any, t: int, j: int, p: int) -> Any:
        runs = sum(model.run[kind, p] for kind in model.kinds if (kind[0], kind[2]) == (t, j))
        return runs <= model.standing[t, j]

    model.within = pyo.Constraint(
        model.bought, model.periods, rule=within, doc="what runs has been bought"
    )


def _add_starts(pyo: Any, model: Any, problem: HourlyProblem) -> None:
    """Add the starts and least run times of machines that are paid by the hour."""
    count = len(problem.periods)
    kinds = [(t, g, j) for t, g, j in model.kinds if not committed(problem.tiers[t].machines[j])]
    model.hourly = pyo.Set(initialize=kinds, dimen=3, doc="(t, g, j): paid by the hour")
    model.start = pyo.Var(
        model.hourly, model.periods, domain=pyo.NonNegativeReals, doc="s: machines that start"
    )

    def starting(model: Any, t: int, g: int, j: int, p: int) -> Any:
        before = model.run[t, g, j, (p - 1) % count]
        return model.start[t, g, j, p] >= model.run[t, g, j, p] - before

    def running_on(model: Any, t: int, g: int, j: int, p: int) -> Any:
        lately = range(min(problem.run_h_min, count))
        started = sum(model.start[t, g, j, (p - k) % count] for k in lately)
        return model.run[t, g, j, p] >= started

    model.starting = pyo.Constraint(
        model.hourly, model.periods, rule=starting, doc="the last period comes before the first"
    )
    model.running_on = pyo.Constraint(
        model.hourly, model.periods, rule=running_on, doc="a machine runs for its least time"
    )


def _add_quotas(pyo: Any, model: Any, problem: HourlyProblem) -> None:
    count = len(problem.periods)
    model.quotas = pyo.Set(initialize=range(len(problem.quotas)), doc="q")

    def within(model: Any, q: int, p: int) -> Any:
        quota, terms = problem.quotas[q], []
        for t, g, j in model.kinds:
            machine = problem.tiers[t].machines[j]
            if weight := quota.of(machine):
                terms.append(weight * model.run[t, g, j, p])
                if problem.starting_h > 0 and not committed(machine):
                    terms.append(weight * model.start[t, g, j, (p + 1) % count])
        return sum(terms) <= quota.most if terms else pyo.Constraint.Skip

    model.quota = pyo.Constraint(
        model.quotas, model.periods, rule=within, doc="machines that run, or are starting"
    )


def _build_total(model: Any, problem: HourlyProblem, measure: Measure) -> Any:
    """Return the measure of the whole schedule as an expression."""
    terms = []
    costs = {
        (t, j): measure.cost_of(problem.tiers[t].machines[j], problem.watts_per_vcpu)
        for t, _, j in model.kinds
    }
    for t, j in model.bought:
        terms.append(costs[t, j].standing * model.standing[t, j])
    for t, g, j in model.kinds:
        running = costs[t, j].running
        if not running:
            continue
        for p in model.periods:
            terms.append(running * problem.share(p) * model.run[t, g, j, p])
            if problem.starting_h > 0 and not committed(problem.tiers[t].machines[j]):
                waits = problem.starting_h / problem.hours
                terms.append(running * waits * model.start[t, g, j, p])
    return sum(terms)
