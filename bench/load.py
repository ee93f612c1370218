"""Rate of the native load worker in an open loop, on time, beside closed loops on one nginx.

Ours: the highest rate of a grid (steps of 12 %) with a lag below 1 ms at p99, by bisection. Each
rate lasts a few seconds, with constant arrivals and one sending thread. Then half of that rate, for
its lag, and a far too high rate, for the answers per second of its CPU. Locust: one process of
FastHttpUser, which sends as fast as answers arrive and cannot be late; it uses one core. wrk, in C,
shows the limit of nginx itself.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bench.http import SERVERS, nginx, wrk
from bench.process import cpu_s
from bench.turns import spread
from core.json_object import JsonObject
from core.statistics.percentiles import percentile_of
from experiments.design.experiment import RATE_PER_NATIVE_MAX, SentLoad
from experiments.design.schedule import PhaseWindow
from experiments.design.workers import DEFAULT, worker_command
from experiments.design.workloads import Operation
from experiments.load.plan import LoadPlan, write_plan
from experiments.record.metrics.saturation import LAG_MS_MIN, saturation

TURNS = 3
USERS = 32
TURN_S = 3
WARM_UP_S = 1.0
LEAD_S = 0.3
RATES_PER_S = [float(round(1000 * 1.12**index)) for index in range(44)]  # to 130,000 a second


@dataclass(frozen=True)
class RateResult:
    """Result of one rate: `on_time` if the worker kept the rate, its lag, and answers per second
    of its CPU time.
    """

    on_time: bool
    lag_ms_p50: float
    lag_ms_p99: float
    per_cpu_s: float


def measure(work: Path) -> dict[str, object]:
    """Return requests per second of a worker, of Locust's closed loop and of wrk, with ratios by
    turn.
    """
    folder = work / "load"
    folder.mkdir()
    with nginx(work):
        turns = [
            {**_measure_ours(folder), "locust": _measure_locust(), "wrk": _measure_wrk()}
            for _ in range(TURNS)
        ]
    result: dict[str, object] = {"turns": TURNS, "lag_ms_p99_max": LAG_MS_MIN, "users": USERS}
    for name in ("ours", "locust", "wrk"):
        result |= spread(f"{name}_per_s", [turn[name] for turn in turns])
    for name in ("ours_per_cpu_s", "half_lag_ms_p50", "half_lag_ms_p99"):
        result |= spread(name, [turn[name] for turn in turns])
    for name in ("locust", "wrk"):
        result |= spread(f"ratio_{name}", [turn["ours"] / turn[name] for turn in turns])
    ratios = [turn["ours_per_cpu_s"] / turn["locust"] for turn in turns]
    return result | spread("ratio_locust_cpu", ratios)


def _measure_ours(folder: Path) -> dict[str, float]:
    """Measure the highest rate of the grid that one worker keeps (0 if none), and half of it."""
    highest_kept, lowest_missed = -1, len(RATES_PER_S)
    while lowest_missed - highest_kept > 1:
        middle = (highest_kept + lowest_missed) // 2
        if _measure_rate(folder, RATES_PER_S[middle]).on_time:
            highest_kept = middle
        else:
            lowest_missed = middle
    rate_per_s = RATES_PER_S[highest_kept] if highest_kept >= 0 else 0.0
    half = _measure_rate(folder, max(rate_per_s / 2, 1.0))
    return {
        "ours": rate_per_s,
        "ours_per_cpu_s": _measure_rate(folder, RATES_PER_S[-1]).per_cpu_s,
        "half_lag_ms_p50": half.lag_ms_p50,
        "half_lag_ms_p99": half.lag_ms_p99,
    }


def _measure_rate(folder: Path, rate_per_s: float) -> RateResult:
    """Measure `TURN_S` seconds at a rate."""
    everything, took_s = send_at(folder, rate_per_s, TURN_S)
    measured = everything.filter(phase="measure")
    check = saturation(measured, ())
    failed = measured.filter(pl.col("outcome") != "ok").height
    lag_ms = measured["lag_ms"]
    return RateResult(
        on_time=check.ok and failed == 0 and (check.lag_ms_p99 or 0.0) <= LAG_MS_MIN,
        lag_ms_p50=percentile_of(lag_ms, 0.5) or 0.0,
        lag_ms_p99=percentile_of(lag_ms, 0.99) or 0.0,
        per_cpu_s=everything.filter(outcome="ok").height / took_s,
    )


def send_at(folder: Path, rate_per_s: float, measured_s: float) -> tuple[pl.DataFrame, float]:
    """Return the records of one worker at a rate, and its CPU time [s].

    The worker runs as under the runner, but its records are read after it ends, because checking
    each one during the run would take the other core.
    """
    plan, records = folder / "plan.json", folder / "records.jsonl"
    write_plan(plan, _plan(rate_per_s, measured_s))
    records.unlink(missing_ok=True)
    control, worker_end = socket.socketpair()
    (program,) = worker_command(DEFAULT, folder)
    with control, worker_end:
        number = worker_end.fileno()
        files = ("--plan", str(plan), "--records", str(records))
        command = [program, *files, "--control-fd", str(number)]
        with subprocess.Popen(command, pass_fds=(number,)) as process:
            worker_end.close()
            lines = control.makefile("r")
            lines.readline()
            before_s, t0_s = cpu_s(process.pid), time.monotonic()
            go = json.dumps({"t0_s": t0_s, "start_s": LEAD_S})
            control.sendall(go.encode() + b"\n")
            time.sleep(LEAD_S + WARM_UP_S + measured_s)
            lines.readline()  # the message that the worker is done
            took_s = cpu_s(process.pid) - before_s
    return pl.read_ndjson(records), took_s


def _plan(rate_per_s: float, measured_s: float) -> LoadPlan:
    """Return a plan of constant arrivals; the rate may exceed the bound of a design."""
    count = round((WARM_UP_S + measured_s) * rate_per_s)
    load = SentLoad(
        user="static-file",
        arrivals="constant",
        rate_per_s=min(rate_per_s, RATE_PER_NATIVE_MAX),
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
            PhaseWindow("measure", WARM_UP_S, WARM_UP_S + measured_s),
        ),
        operations=(Operation("body", "/body", "x" * 64, "web"),),
        offsets_s=tuple(index / rate_per_s for index in range(count)),
        operation_of=(0,) * count,
    )


def closed_loop(user: str, users: int, seconds: float, rate_of_user: float = 1.0) -> JsonObject:
    """Run Locust in one process with users of closed_loop.py; return its row of figures."""
    command = [
        *(sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("closed_loop.py"))),
        *(user, "--headless", "--only-summary", "--json", "--users", str(users)),
        *("--spawn-rate", str(users), "--run-time", f"{seconds:g}s"),
        *("--host", f"http://127.0.0.1:{SERVERS[0]}"),
    ]
    process = subprocess.run(
        command,
        capture_output=True, text=True, timeout=seconds + 100, check=True,
        env=os.environ | {"REQUESTS_PER_USER": str(rate_of_user)},
    )  # fmt: skip
    rows: list[JsonObject] = json.loads(process.stdout)
    return rows[0]


def _measure_locust() -> float:
    """Return requests per second of one process, from its first request to its last."""
    row = closed_loop("Reader", USERS, TURN_S)
    if row["num_failures"]:
        raise ValueError(f"locust: expected no failures, got {row['num_failures']}")
    return float(row["num_requests"] / (row["last_request_timestamp"] - row["start_time"]))


def _measure_wrk() -> float:
    run = wrk(SERVERS[0], USERS)
    if run["errors"]:
        raise ValueError(f"wrk: expected no errors, got {run['errors']:.0f}")
    return run["rps"]
