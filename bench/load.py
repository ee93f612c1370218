"""Rate of the native load worker in an open loop, on time, beside closed loops on one nginx.

Ours: the highest rate of a grid (steps of 12 %) whose lag stays below 1 ms at p99, by bisection,
each rate for a few seconds of constant arrivals, with one sending thread; then half of that rate,
for its lag; then a far too high rate, for the answers per second of its CPU. Locust: one process of
FastHttpUser, which sends as fast as answers arrive and cannot be late; it uses one core. wrk, in C,
shows the limit of nginx itself.
"""

from __future__ import annotations

import json
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
class Sent:
    """One rate: whether the worker kept it, quantiles of its lag, and answers per second of CPU
    time.
    """

    kept: bool
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
        turns = [{**_ours(folder), "locust": _locust(), "wrk": _wrk()} for _ in range(TURNS)]
    found: dict[str, object] = {"turns": TURNS, "lag_ms_p99_max": LAG_MS_MIN, "users": USERS}
    for name in ("ours", "locust", "wrk"):
        found |= spread(f"{name}_per_s", [turn[name] for turn in turns])
    for name in ("ours_per_cpu_s", "half_lag_ms_p50", "half_lag_ms_p99"):
        found |= spread(name, [turn[name] for turn in turns])
    for name in ("locust", "wrk"):
        found |= spread(f"ratio_{name}", [turn["ours"] / turn[name] for turn in turns])
    ratios = [turn["ours_per_cpu_s"] / turn["locust"] for turn in turns]
    return found | spread("ratio_locust_cpu", ratios)


def _ours(folder: Path) -> dict[str, float]:
    """Measure the highest rate of the grid that one worker keeps (0 if none), and half of it."""
    kept, not_kept = -1, len(RATES_PER_S)
    while not_kept - kept > 1:
        middle = (kept + not_kept) // 2
        if _sent(folder, RATES_PER_S[middle]).kept:
            kept = middle
        else:
            not_kept = middle
    rate_per_s = RATES_PER_S[kept] if kept >= 0 else 0.0
    half = _sent(folder, max(rate_per_s / 2, 1.0))
    return {
        "ours": rate_per_s,
        "ours_per_cpu_s": _sent(folder, RATES_PER_S[-1]).per_cpu_s,
        "half_lag_ms_p50": half.lag_ms_p50,
        "half_lag_ms_p99": half.lag_ms_p99,
    }


def _sent(folder: Path, rate_per_s: float) -> Sent:
    """Measure `TURN_S` seconds at a rate."""
    everything, took_s = sent_at(folder, rate_per_s, TURN_S)
    measured = everything.filter(phase="measure")
    found = saturation(measured, ())
    failed = measured.filter(pl.col("outcome") != "ok").height
    lag_ms = measured["lag_ms"]
    return Sent(
        kept=found.ok and failed == 0 and (found.lag_ms_p99 or 0.0) <= LAG_MS_MIN,
        lag_ms_p50=percentile_of(lag_ms, 0.5) or 0.0,
        lag_ms_p99=percentile_of(lag_ms, 0.99) or 0.0,
        per_cpu_s=everything.filter(outcome="ok").height / took_s,
    )


def sent_at(folder: Path, rate_per_s: float, measured_s: float) -> tuple[pl.DataFrame, float]:
    """Return the records of one worker at a rate, and its CPU time [s].

    The worker runs as under the runner, but its records are read after it ends, because checking
    each one during the run would take the other core.
    """
    plan, records = folder / "plan.json", folder / "records.jsonl"
    write_plan(plan, _plan(rate_per_s, measured_s))
    records.unlink(missing_ok=True)
    control, theirs = socket.socketpair()
    (program,) = worker_command(DEFAULT, folder)
    with control, theirs:
        number = theirs.fileno()
        files = ("--plan", str(plan), "--records", str(records))
        command = [program, *files, "--control-fd", str(number)]
        with subprocess.Popen(command, pass_fds=(number,)) as process:
            theirs.close()
            lines = control.makefile("r")
            lines.readline()
            before_s, t0_s = cpu_s(process.pid), time.monotonic()
            go = json.dumps({"t0_s": t0_s, "start_s": LEAD_S})
            control.sendall(go.encode() + b"\n")
            time.sleep(LEAD_S + WARM_UP_S + measured_s)
            lines.readline()  # that it is done
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


def _locust() -> float:
    """Return requests per second of one process, from its first request to its last."""
    command = [
        *(sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("closed_loop.py"))),
        *("Reader", "--headless", "--only-summary", "--json", "--users", str(USERS)),
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
