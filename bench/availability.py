"""Our availability solver beside a model checker and scipy's dense matrix exponential."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from bench.process import run_peer
from core.json_object import JsonObject
from optimizer.availability import (
    HORIZON_S,
    Availability,
    FailureRates,
    active_route_anywhere,
    models,
    passive_failover,
)
from optimizer.reproduce import tables

STORM_LIMIT_S = 90.0
TURNS = 5
HOUR_S = 3_600.0

_Model = tuple[int, int, float | None]  # needed, pool, repair_s
SMALL: _Model = (10, 18, None)
MIDDLE: _Model = (100, 10, HOUR_S)
LARGE: _Model = (1_000, 300, HOUR_S)
SLOW_REPAIR: _Model = (1_000, 300, 30 * 24 * HOUR_S)


def measure() -> JsonObject:
    """Return seconds per model, medians over turns with their range, with peers on the models."""
    dense = _time_call(_solve_dense)
    small = _compare_with_storm(SMALL)
    small |= {"dense_expm": dense, "ratio_dense": dense["seconds"] / small["ours"]["seconds"]}
    slow, repaired = FailureRates(), FailureRates(repair_s=24 * HOUR_S)
    results = {
        "pf 10 + 18": small,
        "pf 100 + 10, repair 1 h": _compare_with_storm(MIDDLE),
        "pf 1000 + 300, repair 1 h": _compare_with_storm(LARGE),
        "pf 1000 + 300, repair 30 d": {"ours": _time_call(lambda: _solve_pf(SLOW_REPAIR))},
        "ara on-premises 9000 + 1000": {"ours": _time_call(lambda: _solve_ara(slow))},
        "ara on-premises 9000 + 1000, repair 1 d": {
            "ours": _time_call(lambda: _solve_ara(repaired))
        },
        "Tables II and III, both readings": {"ours": _time_call(_solve_tables)},
    }
    return {"limit_of_storm_s": STORM_LIMIT_S, "turns": TURNS, "models": results}


def _compare_with_storm(model: _Model) -> JsonObject:
    ours, peer = _time_call(lambda: _solve_pf(model)), _run_storm(model)
    figures = {"ours": ours, "storm": peer}
    if peer["seconds"] is None:
        return {**figures, "ratio_at_least": STORM_LIMIT_S / ours["seconds"]}
    difference = abs(peer["unavailability"] - ours["unavailability"])
    return {**figures, "ratio": peer["seconds"] / ours["seconds"], "apart": difference}


def _solve_pf(model: _Model) -> Availability:
    needed, pool, repair_s = model
    return passive_failover(needed, pool, FailureRates(1.0, 15.0, repair_s))


def _solve_ara(rates: FailureRates) -> Availability:
    return active_route_anywhere(9_000, 1_000, rates, scheme="on-prem")


def _solve_tables() -> None:
    tables._sizing.cache_clear()
    for reading in tables.READINGS:
        list(tables.all_cells(reading))


def _time_call(call: Callable[[], Any]) -> JsonObject:
    """Time a function with empty caches."""
    seconds, value = [], None
    for _ in range(TURNS):
        for function in (
            models.passive_failover_by_pool,
            models._by_extra,
            models._pool_availability,
        ):
            function.cache_clear()
        start_s = time.perf_counter()
        value = call()
        seconds.append(time.perf_counter() - start_s)
    result: JsonObject = {
        "seconds": statistics.median(seconds),
        "range": [min(seconds), max(seconds)],
    }
    if isinstance(value, Availability):
        result |= {
            "unavailability": value.unavailability,
            "error_bound": value.error_bound,
            "states": value.states,
        }
    return result


def _run_storm(model: _Model) -> JsonObject:
    needed, pool, repair_s = model
    try:
        return run_peer("storm.py", needed, pool, repair_s or "none", limit_s=STORM_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"seconds": None, "unavailability": None}


def _solve_dense() -> float:
    """Solve PCRAFT Fig. 1(a) for SMALL: exp of the generator [per year] with an integral column."""
    needed, pool, _ = SMALL
    failover_per_year = HORIZON_S / 15.0
    index = {
        state: number
        for number, state in enumerate(np.ndindex(needed + 1, pool + 1))  # (down, in the pool)
    }
    size = len(index)
    generator = np.zeros((size + 1, size + 1))
    for (down, waiting), number in index.items():
        if down < needed:
            _add(generator, number, index[down + 1, waiting], float(needed - down))
        if down and waiting:
            _add(generator, number, index[down - 1, waiting - 1], failover_per_year)
        if down == 0:
            generator[number, size] = 1.0  # the last column integrates the time at full strength
    return float(scipy.linalg.expm(generator)[index[0, pool], size])


def _add(generator: Any, source: int, target: int, rate: float) -> None:
    generator[source, target] += rate
    generator[source, source] -= rate
