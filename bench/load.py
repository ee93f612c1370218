"""What one load worker can send, in an open loop and in time, beside closed loops on one nginx.

Ours: the highest rate of a grid (steps of 12 %) whose lag stays below 1 ms at p99, by bisection,
each rate for a few seconds of constant arrivals. Locust: one process of FastHttpUser, which sends
as fast as answers come and cannot be late. wrk, in C, shows how far nginx itself would go.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.http import SERVERS, nginx, wrk
from bench.turns import spread
from experiments.design.experiment import RATE_PER_WORKER_MAX, Load
from experiments.design.schedule import PhaseWindow
from experiments.design.workloads import Operation
from experiments.errors import MeasurementFailed
from experiments.load.generator import LoadGenerator
from experiments.load.plan import LoadPlan
from experiments.record.metrics.saturation import LAG_MS_MIN, saturation

TURNS = 3
USERS = 32
TURN_S = 3
WARM_UP_S = 1.0
LEAD_S = 0.3
RATES_PER_S = [float(round(250 * 1.12**place)) for place in range(36)]  # to 13,000 a second


def measure(work: Path) -> dict[str, Any]:
    """Requests per second of a worker, of Locust's closed loop and of wrk; ratios turn by turn."""
    folder = work / "load"
    folder.mkdir()
    with nginx(work):
        turns = [
            {"ours": _ours(folder / str(turn)), "locust": _locust(), "wrk": _wrk()}
            for turn in range(TURNS)
        ]
    found: dict[str, Any] = {"turns": TURNS, "lag_ms_p99_max": LAG_MS_MIN, "users": USERS}
    for name in ("ours", "locust", "wrk"):
        found |= spread(f"{name}_per_s", [turn[name] for turn in turns])
    for name in ("locust", "wrk"):
        found |= spread(f"ratio_{name}", [turn["ours"] / turn[name] for turn in turns])
    return found


def _ours(folder: Path) -> float:
    """The highest rate of the grid that one worker keeps; 0 if it keeps none."""
    kept, not_kept = -1, len(RATES_PER_S)
    while not_kept - kept > 1:
        middle = (kept + not_kept) // 2
        rate = RATES_PER_S[middle]
        if _keeps(folder / f"{rate:.0f}", rate):
            kept = middle
        else:
            not_kept = middle
    return RATES_PER_S[kept] if kept >= 0 else 0.0


def _keeps(folder: Path, rate_per_s: float) -> bool:
    """Whether the requests of a few seconds left in time, all of them."""
    t0_s = time.monotonic()
    handle = LoadGenerator(folder, t0_monotonic_s=t0_s).start(_plan(rate_per_s))
    try:
        handle.wait_ready()
        handle.go(time.monotonic() - t0_s + LEAD_S)
        end_s = time.monotonic() + LEAD_S + WARM_UP_S + TURN_S + 10.0
        while handle.poll().state == "running":
            if time.monotonic() > end_s:
                raise MeasurementFailed(
                    f"bench: load at {rate_per_s:g}/s",
                    expected=f"its end within {end_s - t0_s:.0f} s",
                    came="none",
                    do=f"Its log is {handle.log_path}.",
                )
            time.sleep(0.1)
    finally:
        handle.stop()
    measured = handle.records().filter(phase="measure")
    found = saturation(measured, ())
    return found.lag_ms_p99 is not None and found.lag_ms_p99 <= LAG_MS_MIN and found.ok


def _plan(rate_per_s: float) -> LoadPlan:
    """Constant arrivals; the bound on a design's rate is not what is measured here."""
    count = round((WARM_UP_S + TURN_S) * rate_per_s)
    load = Load(
        user="static-file",
        arrivals="constant",
        rate_per_s=min(rate_per_s, RATE_PER_WORKER_MAX),
        max_in_flight=1000,
    )
    return LoadPlan(
        entries={"web": (f"http://127.0.0.1:{SERVERS[0]}/",)},
        load=load,
        arm="ours",
        repeat=0,
        pair=0,
        windows=(
            PhaseWindow("warm-up", 0.0, WARM_UP_S),
            PhaseWindow("measure", WARM_UP_S, WARM_UP_S + TURN_S),
        ),
        operations=(Operation("body", "/body", "x" * 64, "web"),),
        offsets_s=tuple(place / rate_per_s for place in range(count)),
        operation_of=(0,) * count,
    )


def _locust() -> float:
    """Requests per second of one process, from its first request to its last."""
    command = [
        *(sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("closed_loop.py"))),
        *("--headless", "--only-summary", "--json", "--users", str(USERS)),
        *("--spawn-rate", str(USERS), "--run-time", f"{TURN_S}s"),
        *("--host", f"http://127.0.0.1:{SERVERS[0]}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TURN_S + 60, check=True)
    (row,) = json.loads(done.stdout)
    if row["num_failures"]:
        raise ValueError(f"locust: expected no failures, got {row['num_failures']}")
    return float(row["num_requests"] / (row["last_request_timestamp"] - row["start_time"]))


def _wrk() -> float:
    run = wrk(SERVERS[0], USERS)
    if run["errors"]:
        raise ValueError(f"wrk: expected no errors, got {run['errors']:.0f}")
    return run["rps"]
