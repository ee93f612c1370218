"""An optimum that HiGHS misses without its presolve, found by a random test of the front."""

from __future__ import annotations

import math

import pytest

from optimizer.plan.solve.model import solve
from optimizer.plan.solve.problem import Problem
from optimizer.tests.small_problems import all_plans, latency, option

_TIERS = (  # upstream, replicas, vcpus, needed, extra, USD, unavailability, utilisation, met
    (
        (1, 1, 2, 2, 2, 26.0, 5e-7, 0.8, 0.0),
        (1, 1, 4, 5, 2, 1.0, 1e-4, 0.6, 0.0),
        (1, 1, 2, 3, 0, 13.0, 3e-7, 0.3, 0.0),
        (1, 1, 2, 2, 2, 40.0, 1e-3, 0.6, 0.0),
    ),
    (
        (1, 1, 1, 5, 1, 25.0, 1e-6, 0.6, 0.0),
        (1, 1, 4, 1, 1, 9.0, 1e-6, 0.3, 0.0),
        (1, 2, 1, 4, 2, 7.0, 1e-6, 0.6, 0.0),
        (1, 2, 2, 4, 2, 40.0, 3e-7, 0.3, 0.0),
        (1, 2, 2, 2, 1, 24.0, 1e-4, 0.8, 0.0),
        (1, 2, 1, 2, 0, 7.0, 1e-4, 0.3, 0.0),
    ),
    (
        (1, 1, 4, 2, 1, 28.0, 5e-7, 0.8, 0.0),
        (1, 1, 4, 5, 1, 23.0, 1e-3, 0.3, 0.0),
        (1, 1, 2, 5, 2, 26.0, 3e-7, 0.6, 0.0),
        (2, 1, 4, 1, 1, 10.0, 1e-7, 0.3, 0.6),
        (2, 1, 2, 5, 2, 26.0, 1e-3, 0.6, 0.6),
    ),
)


@pytest.mark.parametrize("unavailability_max", [0.00010129985970003, 1e-5, 2e-6])
def test_the_cheapest_fleet_is_found_where_one_way_to_ask_the_solver_misses_it(
    unavailability_max: float,
) -> None:
    tiers = [
        tuple(
            option(
                tier,
                upstream,
                replicas,
                needed=needed,
                vcpus=vcpus,
                usd=usd,
                extra=extra,
                u=u,
                used=used,
                met=met,
            )
            for upstream, replicas, vcpus, needed, extra, usd, u, used, met in rows
        )
        for tier, rows in enumerate(_TIERS)
    ]
    problem = Problem(
        options=tuple(tiers),
        latency=latency,
        unavailability_max=unavailability_max,
        latency_ms_max={95: 459.0139203839187, 99: 599.6778436786628},
        utilisation_max=math.inf,
        collision_max=0.5,
    )
    least, path = all_plans(problem)[0]
    found = solve(problem)
    assert (found.usd_per_month, found.path) == (least, path)
    assert found.proved
