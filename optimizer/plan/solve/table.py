"""A tier's options in columns: hundreds of thousands are made, compared and dropped as arrays.

They are made together for an amplification level and a number of replicas, per instance type and
redundancy:

    utilisation = lambda a r T / (n V (1 - f (1 - gamma))),  n the needed nodes   (sPARE Eq. 4, 4.2)
                  or that of the network card, if it is higher: lambda a r / n times a copy's time
                  for writes 1 in place of r / n: every machine executes each
    cost        = active nodes * price + standbys * price of a machine that is off
                  + disks of all + traffic between zones (r copies of a read, writes to all)

Three kinds are left out. First, options that another one with the same needed nodes and type, and
no fewer active nodes, undercuts in cost and unavailability (a pool never replaces extra active
nodes, because a degraded tier counts on these). Second, unstable options. Third, levels at which
not even max_nodes nodes keep the collision limit: no plan has them, and lifting the collision limit
does not bring them back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np

from core.arrays import Floats, Ints, Mask
from core.errors import InputError
from core.vocabulary import MECHANISMS, Mechanism
from optimizer.plan.solve.deadline import Check, unbounded
from optimizer.plan.solve.options import (
    Covers,
    Limits,
    Option,
    Redundancy,
    TierDemand,
    usd_when_off,
)
from optimizer.prices import Instance
from optimizer.replication import collision_probability

_COLUMNS = 13  # of a block
ROWS_MAX = 2_000_000  # of one tier: some 200 MB


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of equal length, with one row per option. `nodes` are the active ones."""

    usd: Floats
    unavailability: Floats
    utilisation: Floats
    collision: Floats
    vcpus: Floats
    written: Floats
    upstream: Ints
    replicas: Ints
    needed: Ints
    nodes: Ints

    @property
    def loss(self) -> Floats:
        """-log of the availability; infinite if there is none."""
        with np.errstate(divide="ignore"):
            return -np.log1p(-self.unavailability)

    def take(self, rows: Ints | Mask) -> Columns:
        return Columns(*(getattr(self, field.name)[rows] for field in fields(self)))


class OptionTable(Sequence[Option]):
    """Options of one tier; each is made from its row when it is read."""

    def __init__(
        self,
        tier: str,
        instances: Sequence[Instance],
        columns: Columns,
        instance: Ints,
        mechanism: Ints,
        extra: Ints,
    ) -> None:
        self.columns = columns
        self._tier, self._instances = tier, tuple(instances)
        self._instance, self._mechanism, self._extra = instance, mechanism, extra

    def __len__(self) -> int:
        return len(self._extra)

    @overload
    def __getitem__(self, index: int) -> Option: ...
    @overload
    def __getitem__(self, index: slice) -> list[Option]: ...
    def __getitem__(self, index: int | slice) -> Option | list[Option]:
        if isinstance(index, slice):
            return [self._option(i) for i in range(*index.indices(len(self)))]
        return self._option(range(len(self))[index])

    def __iter__(self) -> Iterator[Option]:
        return (self._option(i) for i in range(len(self)))

    def _option(self, i: int) -> Option:
        c = self.columns
        return Option(
            tier=self._tier,
            upstream=int(c.upstream[i]),
            replicas=int(c.replicas[i]),
            instance=self._instances[self._instance[i]],
            needed=int(c.needed[i]),
            mechanism=MECHANISMS[self._mechanism[i]],
            extra=int(self._extra[i]),
            usd_per_month=float(c.usd[i]),
            unavailability=float(c.unavailability[i]),
            utilisation=float(c.utilisation[i]),
            collision=float(c.collision[i]),
            written=float(c.written[i]),
        )


def columns(tier: Sequence[Option]) -> Columns:
    """Return the columns of any sequence of options."""
    if isinstance(tier, OptionTable):
        return tier.columns
    floats = [
        (o.usd_per_month, o.unavailability, o.utilisation, o.collision, o.instance.vcpus, o.written)
        for o in tier
    ]
    counts = [(o.upstream, o.replicas, o.needed, o.nodes) for o in tier]
    return Columns(
        *np.array(floats, dtype=np.float64).reshape(-1, 6).T,
        *np.array(counts, dtype=np.int64).reshape(-1, 4).T,
    )


def tier_table(
    demand: TierDemand,
    levels: Sequence[int],
    instances: Sequence[Instance],
    covers: Covers,
    limits: Limits,
    check: Check = unbounded,
) -> OptionTable:
    """Return all options of a tier at these amplification levels, r = 1..max_replicas, the tier's
    or the limits'.

    `check` is called for each type, and may end it by an exception.
    """
    tables: dict[tuple[int, float, int], _CoverRows] = {}
    blocks, rows = [], 0
    most = min(limits.max_replicas, demand.max_replicas or limits.max_replicas)
    for level, r in itertools.product(levels, range(1, most + 1)):
        if r > limits.max_nodes:
            continue
        if collision_probability(limits.max_nodes, level, r) > limits.max_collision:
            continue
        for number, machine in enumerate(instances):
            check()
            blocks.append(_make_block(demand, level, r, number, machine, tables, covers, limits))
            rows += len(blocks[-1][0])
            if rows > ROWS_MAX:
                raise _too_many_error(demand, limits)
    joined = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    if not joined:
        joined = [np.zeros(0)] * _COLUMNS
    floats, counts = joined[:6], [column.astype(np.int64) for column in joined[6:]]
    *shared, instance, mechanism, extra = counts
    return OptionTable(
        demand.name, instances, Columns(*floats, *shared), instance, mechanism, extra
    )


def _too_many_error(demand: TierDemand, limits: Limits) -> InputError:
    return InputError(
        f"tier {demand.name}",
        expected=f"at most {ROWS_MAX:,} ways to build it",
        got=f"more, with limits.max_nodes = {limits.max_nodes}",
        hint="Lower max_nodes or max_replicas, or name the tier's instance_types.",
    )


@dataclass(frozen=True, eq=False)
class _CoverRows:
    """Redundancies of one number of needed nodes, in columns."""

    extra: Ints
    mechanism: Ints
    unavailability: Floats


def _cover_rows(redundancies: Sequence[Redundancy]) -> _CoverRows:
    return _CoverRows(
        np.array([c.extra for c in redundancies], dtype=np.int64),
        np.array([MECHANISMS.index(Mechanism(c.mechanism)) for c in redundancies], dtype=np.int64),
        np.array([c.unavailability for c in redundancies], dtype=np.float64),
    )


def _make_block(
    demand: TierDemand,
    level: int,
    replicas: int,
    number: int,
    instance: Instance,
    tables: dict[tuple[int, float, int], _CoverRows],
    covers: Covers,
    limits: Limits,
) -> tuple[Any, ...]:
    """Return the columns of one instance type at one level with one number of replicas."""
    per_node, written = demand.load(instance, level, replicas), demand.written(instance, level)
    if written >= 1.0:  # no number of machines carries it
        return tuple(np.zeros(0) for _ in range(_COLUMNS))
    first = max(replicas, math.floor(per_node / (1.0 - written)) + 1)
    parts = []
    for needed in range(first, limits.max_nodes + 1):
        key = (needed, instance.interruptions_per_year, covers.replica_key(replicas))
        if key not in tables:
            tables[key] = _cover_rows(covers.of(needed, demand.mechanisms, instance, replicas))
        parts.append(
            _make_rows(instance, needed, tables[key], demand, demand.usd_traffic(level, replicas))
        )
    if not parts:
        return tuple(np.zeros(0) for _ in range(_COLUMNS))
    usd, unavailability, needs, nodes, mechanism, extra = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    collision = np.array(
        [0.0] * first
        + [collision_probability(n, level, replicas) for n in range(first, limits.max_nodes + 1)]
    )
    ones = np.ones(len(usd), dtype=np.int64)
    return (
        usd,
        unavailability,
        per_node / needs + written,
        collision[needs],
        ones * float(instance.vcpus),
        ones * written,
        ones * level,
        ones * replicas,
        needs,
        nodes,
        ones * number,
        mechanism,
        extra,
    )


def _make_rows(
    instance: Instance,
    needed: int,
    cover: _CoverRows,
    demand: TierDemand,
    traffic_usd: tuple[float, float],
) -> tuple[Any, ...]:
    """Return the rows of one type and number of needed nodes, with at least `min_nodes` active.

    Rows that one with as many active nodes undercuts are left out.

    Parameters: traffic_usd a month: fixed, and per active machine.
    """
    pool, fixed, per_node = cover.mechanism == MECHANISMS.index(Mechanism.pf), *traffic_usd
    each = np.where(pool, usd_when_off(instance), instance.usd_per_month + per_node)
    usd = needed * (instance.usd_per_month + per_node) + cover.extra * each + fixed
    usd = usd + (needed + cover.extra) * demand.disk_usd
    order = np.lexsort((cover.mechanism, cover.unavailability, usd))
    best = np.minimum.accumulate(cover.unavailability[order])
    better = np.concatenate(([True], cover.unavailability[order][1:] < best[:-1]))
    rows = order[better | ~pool[order]]
    rows = rows[needed + np.where(pool[rows], 0, cover.extra[rows]) >= demand.min_nodes]
    extra, mechanism = cover.extra[rows], cover.mechanism[rows]
    return (
        usd[rows],
        cover.unavailability[rows],
        np.full(len(rows), needed),
        needed + np.where(pool[rows], 0, extra),
        mechanism,
        extra,
    )


def find_undominated(table: Floats, check: Check = unbounded) -> Ints:
    """Return the rows that no other row matches or undercuts in every column, in ascending order.

    `check` is called at each step, and may end the search by an exception.

    No remaining row undercuts the row with the least sum of ranks: that row is kept, and all rows
    that it undercuts are removed. Of equal rows the first is kept.
    """
    ranks = np.stack([np.unique(c, return_inverse=True)[1].reshape(-1) for c in table.T], axis=1)
    order = np.argsort(ranks.sum(axis=1), kind="stable")
    left, rows, undominated_rows = ranks[order], order, []
    while len(rows):
        check()
        undominated_rows.append(int(rows[0]))
        beaten = np.all(left[0] <= left, axis=1)
        left, rows = left[~beaten], rows[~beaten]
    return np.sort(np.array(undominated_rows, dtype=np.int64))
