r"""Machines over domains that fail as a whole: zones, racks, hosts, one inside the other.

A domain is up for 1 / f on average, then dark for R, independent of its machines: at a random time
it is dark with probability q = f R / (1 + f R) (an alternating renewal process; only the means
matter). The domains of a level are equal and independent, so a placement is given by the numbers of
machines that share a domain: 3 and 2 over two zones is (3, 2), on hosts inside ((1, 1, 1), (1, 1)).

    lit machines:  1 - q: the sum over the domains inside, or all of the last level;  q: none

The law of the sum is a convolution of the domains' laws: no pattern of dark domains is listed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.arrays import Floats
from core.errors import InputError, require_count, require_positive
from core.units import YEAR_S

PLACEMENTS_MAX = 20_000  # of one number of machines

Placement = tuple[Any, ...]  # per domain that is used: a number, or the placement inside it


class TooManyPlacementsError(InputError):
    """Too many placements to list. `level`: the index of the level that makes them so many."""

    def __init__(self, level: Level, index: int, machines: int) -> None:
        super().__init__(
            f"domains.{index}",
            expected=f"at most {PLACEMENTS_MAX:,} ways to place {machines} machines",
            got=f"more, with count = {level.count} of {level.name}",
            hint=f"Lower [limits] max_nodes to less than {machines}, set a low max_per_domain of "
            f"{level.name} (1 on hosts), or leave {level.name} out.",
        )
        self.level = index


@dataclass(frozen=True)
class Level:
    """One kind of domain: `count` of them in each domain of the level above (of the first: in all).

    failures_per_year  of one domain, while it is up [1/year of 365 d] > 0
    repair_s           mean time that it is dark [s] > 0
    """

    name: str
    count: int
    failures_per_year: float
    repair_s: float

    def __post_init__(self) -> None:
        require_count(f"{self.name}: count", self.count, least=1)
        require_positive(f"{self.name}: failures_per_year", self.failures_per_year)
        require_positive(f"{self.name}: repair_s", self.repair_s)

    @property
    def dark(self) -> float:
        """Probability [-] that a domain is dark at a random time."""
        load = self.failures_per_year * self.repair_s / YEAR_S
        return load / (1.0 + load)


def placements(
    levels: Sequence[Level], machines: int, most: Sequence[int] | None = None
) -> tuple[Placement, ...]:
    """Return every way to spread `machines` over the domains, regardless of the domains' names.

    Parameters: levels from the widest to the narrowest; machines >= 1; most per level the most
    machines of one domain (default: any number).
    Raises: TooManyPlacementsError if there are more than PLACEMENTS_MAX ways.
    """
    caps = tuple(most) if most is not None else (machines,) * len(levels)
    listed = _first_placements(levels, caps, machines)
    if len(listed) <= PLACEMENTS_MAX:
        return listed
    wider = range(1, len(levels))
    many = next((n for n in wider if _exceeds_max(levels[:n], caps, machines)), len(levels)) - 1
    raise TooManyPlacementsError(levels[many], many, machines)


def _exceeds_max(levels: Sequence[Level], caps: Sequence[int], machines: int) -> bool:
    return len(_first_placements(levels, caps, machines)) > PLACEMENTS_MAX


def _first_placements(
    levels: Sequence[Level], caps: Sequence[int], machines: int
) -> tuple[Placement, ...]:
    """Return the first placements, at most PLACEMENTS_MAX + 1."""
    return tuple(itertools.islice(_spread(levels, caps, machines), PLACEMENTS_MAX + 1))


def _spread(levels: Sequence[Level], caps: Sequence[int], machines: int) -> Iterator[Placement]:
    """Yield multisets of domains of the first level that hold `machines` together."""
    for sizes in _partitions(machines, levels[0].count, min(caps[0], machines)):
        if len(levels) == 1:
            yield sizes
            continue
        runs = [(size, len(tuple(run))) for size, run in itertools.groupby(sizes)]
        inside = [
            itertools.combinations_with_replacement(
                _first_placements(levels[1:], caps[1:], size), times
            )
            for size, times in runs
        ]
        for chosen in itertools.product(*inside):
            yield tuple(itertools.chain.from_iterable(chosen))


def _partitions(total: int, parts: int, part_max: int) -> Iterator[tuple[int, ...]]:
    """Yield sums of at most `parts` numbers of at most `part_max`, the largest number first."""
    if total == 0:
        yield ()
        return
    if parts == 0:
        return
    least = -(-total // parts)
    for first in range(least, min(part_max, total) + 1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)


def sizes_at(placement: Placement, level: int) -> list[int]:
    """Return the numbers of machines of the non-empty domains of a level, in descending order."""
    domains = [placement]
    for _ in range(level):
        domains = [inner for domain in domains for inner in domain]
    return sorted((_size(part) for domain in domains for part in domain), reverse=True)


def _size(domain: Any) -> int:
    return domain if isinstance(domain, int) else sum(_size(inner) for inner in domain)


def lit_law(levels: Sequence[Level], placement: Placement) -> Floats:
    """Return the law of the number of machines in domains that are up: (machines + 1,), from 0."""
    law = np.ones(1)
    for domain in placement:
        law = np.convolve(law, _domain_law(levels, domain))
    return law


def _domain_law(levels: Sequence[Level], domain: Any) -> Floats:
    if isinstance(domain, int):
        up = np.zeros(domain + 1)
        up[domain] = 1.0
    else:
        up = lit_law(levels[1:], domain)
    law: Floats = (1.0 - levels[0].dark) * up
    law[0] += levels[0].dark
    return law
