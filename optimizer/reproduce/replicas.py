"""sPARE's Eq. 1, 2 and 3 and the capacities of section 4.2: tables, and claims of its text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from core.json_object import JsonObject
from optimizer.replication import collision_probability as _pair
from optimizer.replication import (
    lookup_probability,
    round_robin_capacity_per_s,
    tad_capacity_per_s,
)
from optimizer.reproduce.published import Claim, published

SERVERS = (8, 12, 36, 100)
"""Servers of tier 2: of Solr on EC2, of MediaWiki, as many as its web servers, and a large tier."""
REPLICAS = range(1, 7)
THREE_TIERS = ((1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3))
FAST = (1, 3, 6, 9)
LOOKUPS = (1, 2, 3, 4, 6, 8, 10, 12)
GAMMAS = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Grid:
    """A table of one formula: its rows and columns are the arguments."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]


def interference_share() -> float:
    """Return the share of time that a server is disturbed, 1 - exp(-run / gap).

    Starts are Poisson, and runs may overlap.  Source: sPARE section 6.1."""
    neighbours = published("spare")["interference"]
    return 1.0 - math.exp(-neighbours["mean_run_s"] / neighbours["mean_gap_s"])


def grids() -> dict[str, Grid]:
    """Return the tables by name."""
    mediawiki = published("spare")["mediawiki"]
    db = mediawiki["db"]
    return {
        "equation_1": Grid(
            f"Eq. 1: P(collision) on {db} servers of tier 2 (MediaWiki)",
            "r1 \\ r2",
            tuple(str(r2) for r2 in REPLICAS),
            {str(r1): tuple(_pair(db, r1, r2) for r2 in REPLICAS) for r1 in REPLICAS},
        ),
        "equation_1_feasible": Grid(
            f"Eq. 1: the largest r2 with P(collision) <= {mediawiki['collision_max']:g}; 0: none",
            "r1 \\ servers",
            tuple(str(servers) for servers in SERVERS),
            {
                str(r1): tuple(
                    _largest_replicas(s, r1, mediawiki["collision_max"]) for s in SERVERS
                )
                for r1 in REPLICAS
            },
        ),
        "equation_2": Grid(
            f"Eq. 2: P(collision) on {db} servers of tier 3, for r1, r2 above",
            "r1, r2 \\ r3",
            tuple(str(r3) for r3 in REPLICAS),
            {f"{a}, {b}": tuple(_pair(db, a * b, c) for c in REPLICAS) for a, b in THREE_TIERS},
        ),
        "equation_3": Grid(
            f"Eq. 3: P(a fast server among m look-ups) of {db} servers",
            "fast \\ m",
            tuple(str(m) for m in LOOKUPS),
            {
                str(fast): tuple(lookup_probability(fast, db - fast, m) for m in LOOKUPS)
                for fast in FAST
            },
        ),
        "section_4_2": _capacity_grid(),
    }


def claims() -> list[Claim]:
    """Compare the claims of the text with the formulas."""
    paper = published("spare")
    return [
        *_shape_claims(paper["mediawiki"]["db"]),
        *_limit_claims(paper["mediawiki"]),
        *_lookup_claims(paper["mediawiki"]),
        _two_server_claim(),
    ]


def _largest_replicas(servers: int, upstream: int, limit: float) -> int:
    within = (r for r in range(1, servers + 1) if _pair(servers, upstream, r) <= limit)
    return max(within, default=0)


def _capacity_grid() -> Grid:
    share = interference_share()
    tad = tuple(tad_capacity_per_s(1, 1.0, share, gamma) for gamma in GAMMAS)
    robin = tuple(round_robin_capacity_per_s(1, 1.0, share, gamma) for gamma in GAMMAS)
    return Grid(
        f"Section 4.2: capacity in M s, servers disturbed {100 * share:.0f} % of the time",
        "policy \\ gamma",
        tuple(f"{gamma:g}" for gamma in GAMMAS),
        {
            "TAD": tad,
            "round-robin": robin,
            "ratio": tuple(a / b for a, b in zip(tad, robin, strict=True)),
        },
    )


def _shape_claims(servers: int) -> Iterator[Claim]:
    place = "Eq. 1"
    alone = max(_pair(servers, 1, r2) for r2 in range(1, servers + 1))
    yield Claim(place, "r1 = 1", "0 for every r2", f"at most {alone:g}", alone == 0)
    pairs = [(a, b) for a, b in product(range(1, servers), repeat=2)]
    rises = all(
        _pair(servers, a, b) <= min(_pair(servers, a + 1, b), _pair(servers, a, b + 1))
        for a, b in pairs
    )
    ours = f"{'never falls' if rises else 'falls somewhere'} in {len(pairs)} pairs"
    yield Claim(place, f"{servers} servers", "rises with r1 and r2", ours, rises)
    full = [(a, servers // a) for a in range(2, servers + 1) if servers % a == 0]
    least = min(_pair(servers, a, b) for a, b in full)
    beyond = min(
        _pair(servers, a, b) for a in range(2, 13) for b in range(1, servers + 1) if a * b > servers
    )
    yield Claim(
        place,
        f"r1 r2 = {servers} servers",
        "1",
        f"from {least:.5f} on, by the pair; {beyond:g} where r1 r2 is larger",
        least == 1.0,
        f"The text says certain from r1 r2 = M2 on. At equality Eq. 1 leaves a chance: {servers} "
        "connections can be placed apart on as many servers. The equation is used.",
    )


def _limit_claims(mediawiki: JsonObject) -> Iterator[Claim]:
    limit, servers = mediawiki["collision_max"], mediawiki["db"]
    for r1, r2 in mediawiki["found"]:
        collision = _pair(servers, r1, r2)
        explanation = ""
        if collision > limit:
            enough = next(m for m in range(servers, 10_000) if _pair(m, r1, r2) <= limit)
            tried = ", and section 5.2.1 tries it" if [r1, r2] in mediawiki["tried"] else ""
            explanation = (
                f"Table 4 reports this pair under the stated limit of {limit:g}{tried}; by Eq. 1 "
                f"it needs {enough} servers in tier 2, not {servers}."
            )
        yield Claim(
            "Table 4",
            f"({r1}, {r2}) on {mediawiki['web']}, {servers}",
            f"P(collision) <= {limit:g}",
            f"{collision:.3f}",
            collision <= limit,
            explanation,
        )


def _lookup_claims(mediawiki: JsonObject) -> Iterator[Claim]:
    servers = mediawiki["db"]
    rows = [
        [lookup_probability(fast, servers - fast, m) for m in range(1, servers + 1)]
        for fast in range(1, servers + 1)
    ]
    rises = all(a <= b for row in rows for a, b in pairwise(row))
    yield Claim(
        "Eq. 3",
        f"{servers} servers, any number fast",
        "never falls with m",
        "never falls" if rises else "falls somewhere",
        rises,
    )


def _two_server_claim() -> Claim:
    difference = max(
        max(
            abs(tad_capacity_per_s(2, 1.0, 0.5, gamma) - (1.0 + gamma)),
            abs(round_robin_capacity_per_s(2, 1.0, 0.5, gamma) - 2.0 * gamma),
        )
        for gamma in GAMMAS
    )
    return Claim(
        "4.2",
        "two servers, one of them slow",
        "TAD s (1 + gamma), round-robin 2 gamma s",
        f"the same within {difference:.0e} s" if difference else "the same",
        difference < 1e-12,
    )
