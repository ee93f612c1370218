"""Our availability solver beside a model checker and scipy's dense matrix exponential."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

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

ROOT = Path(__file__).parents[1]
STORM = ROOT / "build" / "peers" / "bin" / "python"
STORM_LIMIT_S = 90.0
TURNS = 5
HOUR_S = 3_600.0

_Model = tuple[int, int, float | None]  # needed, pool, repair_s
SMALL: _Model = (10, 18, None)
MIDDLE: _Model = (100, 10, HOUR_S)
LARGE: _Model = (1_000, 300, HOUR_S)
SLOW_REPAIR: _Model = (1_000, 300, 30 * 24 * HOUR_S)


def measure() -> JsonObject:
    """Seconds per model, medians over turns with their range; each peer on the same model."""
    dense = _timed(_dense)
    small = _beside_storm(SMALL)
    small |= {"dense_expm": dense, "ratio_dense": dense["seconds"] / small["ours"]["seconds"]}
    slow, repaired = FailureRates(), FailureRates(repair_s=24 * HOUR_S)
    found = {
        "pf 10 + 18": small,
        "pf 100 + 10, repair 1 h": _beside_storm(MIDDLE),
        "pf 1000 + 300, repair 1 h": _beside_storm(LARGE),
        "pf 1000 + 300, repair 30 d": {"ours": _timed(lambda: _pf(SLOW_REPAIR))},
        "ara on-premises 9000 + 1000": {"ours": _timed(lambda: _ara(slow))},
        "ara on-premises 9000 + 1000, repair 1 d": {"ours": _timed(lambda: _ara(repaired))},
        "Tables II and III, both readings": {"ours": _timed(_tables)},
    }
    return {"limit_of_storm_s": STORM_LIMIT_S, "turns": TURNS, "models": found}


def _beside_storm(model: _Model) -> JsonObject:
    ours, peer = _timed(lambda: _pf(model)), _storm(model)
    found = {"ours": ours, "storm": peer}
    if peer["seconds"] is None:
        return {**found, "ratio_at_least": STORM_LIMIT_S / ours["seconds"]}
    apart = abs(peer["unavailability"] - ours["unavailability"])
    return {**found, "ratio": peer["seconds"] / ours["seconds"], "apart": apart}


def _pf(model: _Model) -> Availability:
    needed, pool, repair_s = model
    return passive_failover(needed, pool, FailureRates(1.0, 15.0, repair_s))


def _ara(rates: FailureRates) -> Availability:
    return active_route_anywhere(9_000, 1_000, rates, scheme="on-prem")


def _tables() -> None:
    tables._sizing.cache_clear()
    for reading in tables.READINGS:
        list(tables.all_cells(reading))


def _timed(call: Callable[[], Any]) -> JsonObject:
    """Time a function with empty caches."""
    seconds, found = [], None
    for _ in range(TURNS):
        for cached in (models.passive_failover_by_pool, models._by_extra, models._pool):
            cached.cache_clear()
        began = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - began)
    result: JsonObject = {"seconds": statistics.median(seconds), "range": _range(seconds)}
    if isinstance(found, Availability):
        result |= {
            "unavailability": found.unavailability,
            "error_bound": found.error_bound,
            "states": found.states,
        }
    return result


def _range(seconds: list[float]) -> list[float]:
    return [min(seconds), max(seconds)]


def _storm(model: _Model) -> JsonObject:
    needed, pool, repair_s = model
    command = [str(STORM), "bench/storm.py", str(needed), str(pool), str(repair_s or "none")]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=STORM_LIMIT_S, check=True
        )
    except subprocess.TimeoutExpired:
        return {"seconds": None, "unavailability": None}
    found: JsonObject = json.loads(done.stdout.splitlines()[-1])
    return found


def _dense() -> float:
    """PCRAFT Fig. 1(a) for SMALL: exp of the generator [per year] with an integral column."""
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
