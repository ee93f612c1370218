r"""Own servers that the tiers' machines share: the fleet and its placement, in one program.

The cheapest fleet depends on its packing, because a slice's price assumes full servers. So the
options of the tiers are chosen together with the servers that hold them.

    minimise    sum_h c_h u_h                         c_h: USD a month of a server in use
    one path of options, availabilities within their budget, latency cuts     (as in `model`)
    sum_h p_tvh = sum_(o of t, v vCPUs) m_o x_o       each machine, standbys too, has a place
    sum_v p_tvh <= u_h                                a tier's machines on different servers
    sum_tv v p_tvh <= C_h u_h                         cores
    sum_tv M_t p_tvh <= R_h u_h                       memory
    u_h >= u_(h+1)  of alike ones                     p, u, x binary

At most one machine of a tier is on a server: a dead server costs each tier one machine, and crashes
stay independent within a tier, as in the models. An option is left out if another one needs no more
room, loses no more and is no slower. Each proposed plan is evaluated, and its places are counted,
outside of the solver.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.errors import PlannerError
from core.tolerances import CENT
from optimizer.plan.solve.deadline import Check, Deadline
from optimizer.plan.solve.highs import Highs, TimeLimitError, pyomo_environ
from optimizer.plan.solve.model import add_cuts, chosen_path, fleet_model
from optimizer.plan.solve.options import Option
from optimizer.plan.solve.presolve import Pool, eligible_pools, keep_front
from optimizer.plan.solve.problem import Path, Problem, violations

LIMIT_S = 30.0
_CUTS_MAX = 200
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Server:
    """One existing server. Servers that are alike have the same `kind`."""

    kind: str
    cores: float
    memory_mb: float
    usd_per_month: float


@dataclass(frozen=True)
class Packed:
    """A fleet and its places.

    `path` is None if no fleet was found; `proved` is then True if none exists. `least` bounds the
    cost from below.
    """

    path: Path | None
    places: tuple[tuple[tuple[int, float], ...], ...] = ()  # per server: (tier, vCPUs) of each
    usd_per_month: float | None = None
    least: float = 0.0
    solves: int = 0
    proved: bool = True


def packed(
    problem: Problem, memory_mb: Sequence[float], servers: Sequence[Server], deadline: Deadline
) -> Packed:
    """Return the cheapest servers, in USD a month, for a fleet that keeps every limit.

    Parameters: memory_mb of a machine of each tier; servers, with those that are alike in sequence.
    """
    pools = [
        _keep_fitting(problem, pool, memory_mb[t], servers, deadline.check)
        for t, pool in enumerate(eligible_pools(problem))
    ]
    if not all(len(pool) for pool in pools):
        return Packed(None)
    options = [[pool.option(i) for i in range(len(pool))] for pool in pools]
    solver = Highs()
    model, least = _build(problem, pools, options, memory_mb, servers), 0.0
    for solves in range(1, _CUTS_MAX + 1):
        try:
            values = solver.optimum(model, deadline.left_s(), presolve="on")
            if values is None:  # the presolve of HiGHS calls some feasible programs infeasible
                values = solver.optimum(model, deadline.left_s(), presolve="off")
        except TimeLimitError:
            return Packed(None, least=least, solves=solves, proved=False)
        if values is None:
            return Packed(None, solves=solves)
        path, places = chosen_path(model, options, values), _read_places(model, values, servers)
        usd = math.fsum(
            server.usd_per_month
            for server, machines in zip(servers, places, strict=True)
            if machines
        )
        least = max(least, usd - CENT)
        broken = violations(problem, path)
        if not broken:
            _verify(path, places, memory_mb, servers)
            return Packed(path, places, usd, usd, solves)
        add_cuts(model, problem, pools, options, path, broken)
    return Packed(None, least=least, solves=_CUTS_MAX, proved=False)


def _keep_fitting(
    problem: Problem, pool: Pool, memory_mb: float, servers: Sequence[Server], check: Check
) -> Pool:
    """Keep the options with enough servers that can hold one of their machines.

    Of these, remove each that another one beats in room, loss and speed."""
    c = pool.columns
    machines = np.array([pool.option(i).machines for i in range(len(pool))], dtype=np.int64)
    hold = np.zeros(len(pool), dtype=np.int64)
    for server in servers:
        if server.memory_mb >= memory_mb:
            hold += c.vcpus <= server.cores + _ROUNDING
    fits = machines <= hold
    return keep_front(problem, pool.keep(fits), check, [machines[fits], c.vcpus[fits]])


def _build(
    problem: Problem,
    pools: list[Pool],
    options: list[list[Option]],
    memory_mb: Sequence[float],
    servers: Sequence[Server],
) -> Any:
    doc = "least servers that hold a fleet which keeps the limits"
    model = fleet_model(problem, pools, options, doc)
    _add_places(model, options, memory_mb, servers)
    _add_room(model, memory_mb, servers)
    model.cost = pyomo_environ().Objective(
        expr=sum(server.usd_per_month * model.used[h] for h, server in enumerate(servers)),
        doc="USD per month of the servers in use",
    )
    return model


def _add_places(
    model: Any,
    options: list[list[Option]],
    memory_mb: Sequence[float],
    servers: Sequence[Server],
) -> None:
    """Put every machine on a server, and the machines of a tier on different servers."""
    pyo = pyomo_environ()

    sizes = [(t, v) for t, tier in enumerate(options) for v in sorted({_size(o) for o in tier})]
    places = [
        (t, v, h)
        for t, v in sizes
        for h, server in enumerate(servers)
        if v <= server.cores + _ROUNDING and memory_mb[t] <= server.memory_mb
    ]
    model.places = pyo.Set(initialize=places, dimen=3, doc="(tier, vCPUs, server) that fit")
    model.place = pyo.Var(model.places, domain=pyo.Binary, doc="1: a machine of it stands there")
    model.used = pyo.Var(range(len(servers)), domain=pyo.Binary, doc="1: the server is in use")
    model.sizes = pyo.Set(initialize=sizes, dimen=2, doc="(tier, vCPUs of a machine)")

    def has_places(model: Any, t: int, v: float) -> Any:
        machines = sum(model.place[k] for k in places if k[:2] == (t, v))
        choices = [(i, o.machines) for i, o in enumerate(options[t]) if _size(o) == v]
        return machines == sum(n * model.choose[t, i] for i, n in choices)

    model.placed = pyo.Constraint(model.sizes, rule=has_places, doc="each machine has one place")
    pairs = sorted({(t, h) for t, _, h in places})
    model.apart = pyo.Constraint(
        pyo.Set(initialize=pairs, dimen=2),
        rule=lambda m, t, h: sum(m.place[k] for k in places if (k[0], k[2]) == (t, h)) <= m.used[h],
        doc="one machine of a tier on a server, and only on servers in use",
    )


def _add_room(model: Any, memory_mb: Sequence[float], servers: Sequence[Server]) -> None:
    """Limit the cores and memory of each server; of servers that are alike, use the first."""
    pyo = pyomo_environ()

    def room(have: float, takes: list[tuple[float, Any]], h: int) -> Any:
        return sum(part * model.place[k] for part, k in takes) <= have * model.used[h]

    model.room = pyo.ConstraintList(doc="cores and memory of each server")
    for h, server in enumerate(servers):
        keys = [key for key in model.places if key[2] == h]
        if keys:
            model.room.add(room(server.cores, [(key[1], key) for key in keys], h))
            model.room.add(room(server.memory_mb, [(memory_mb[key[0]], key) for key in keys], h))
        else:
            model.used[h].fix(0)
    model.in_turn = pyo.ConstraintList(doc="alike servers are used from the first on")
    for h, (server, following) in enumerate(itertools.pairwise(servers)):
        if server == following:
            model.in_turn.add(model.used[h] >= model.used[h + 1])


def _size(option: Option) -> float:
    return float(option.instance.vcpus)


def _read_places(
    model: Any, values: Any, servers: Sequence[Server]
) -> tuple[tuple[tuple[int, float], ...], ...]:
    taken = [key for key in model.places if values[model.place[key]] > 0.5]
    return tuple(
        tuple((t, v) for t, v, h in taken if h == number) for number in range(len(servers))
    )


def _verify(
    path: Path,
    places: Sequence[Sequence[tuple[int, float]]],
    memory_mb: Sequence[float],
    servers: Sequence[Server],
) -> None:
    """Raise PlannerError if the places are not those of the fleet, or do not hold it."""
    for server, machines in zip(servers, places, strict=True):
        fits = sum(v for _, v in machines) <= server.cores * (1.0 + _ROUNDING)
        fits &= sum(memory_mb[t] for t, _ in machines) <= server.memory_mb * (1.0 + _ROUNDING)
        if not fits or len({t for t, _ in machines}) < len(machines):
            raise PlannerError(
                "hosts", expected="machines that fit on their server", got=str(machines)
            )
    for t, option in enumerate(path):
        stand = sum((t, _size(option)) == machine for machines in places for machine in machines)
        if stand != option.machines:
            raise PlannerError("hosts", expected=f"{option.machines} places", got=str(stand))
