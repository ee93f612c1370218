"""Reports of load generators on a server that stops: nginx, stopped for half a second of every two
and a half.

The true latencies are computed: a fifth of evenly spaced requests meets the stop, and waits for the
rest of it. A generator that waits for an answer before its next request sends hardly any request to
a stopped server, and so hardly notices the stop (Tene's coordinated omission). Ours and wrk2 count
from the due time of a request; Locust's users send at the same rate by its `constant_throughput`;
wrk sends as fast as possible.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.http import SERVERS, nginx
from bench.load import closed_loop, send_at
from bench.process import PEERS
from core.statistics.percentiles import percentile, percentile_of

RATE_PER_S = 400.0
STOPPED_S, PERIOD_S, PERIODS = 0.5, 2.5, 8
MEASURED_S = PERIOD_S * PERIODS
QUANTILES = (0.9, 0.95, 0.99, 0.999)
WRK2 = PEERS / "wrk2"
_WRK2_CALIBRATES_S = 10.0  # wrk2 discards this time
_CONNECTIONS = 64
_USERS = 40
_UNIT_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}

Quantiles = dict[str, float]


def measure(work: Path) -> dict[str, object]:
    """Return the quantiles [ms] of each generator and of the truth, and the largest relative
    errors.

    `wrk2` is None if `build/peers/wrk2` is missing.
    """
    folder = work / "stalls"
    folder.mkdir()
    generators: dict[str, Callable[[], Quantiles] | None] = {
        "ours": lambda: _measure_ours(folder),
        "wrk2": _measure_wrk2 if os.access(WRK2, os.X_OK) else None,
        "locust": _measure_locust,
        "wrk": _measure_wrk,
    }
    result: dict[str, object] = {
        "rate_per_s": RATE_PER_S,
        "stopped_s": STOPPED_S,
        "every_s": PERIOD_S,
    }
    with nginx(work) as pid:
        for name, generate in generators.items():
            result[name] = _compare_with_truth(pid, generate) if generate else None
    return result


def _compare_with_truth(pid: int, generate: Callable[[], Quantiles]) -> dict[str, object]:
    with _stop_periodically(pid) as stops_s:
        reported = generate()
    truth = _true_quantiles(stops_s)
    error = max(abs(value / truth[name] - 1) for name, value in reported.items())
    return {"ms": reported, "truth_ms": truth, "error_max": error}


@contextmanager
def _stop_periodically(pid: int) -> Iterator[list[float]]:
    """Stop a process periodically until the block ends; yields the measured durations [s]."""
    stops_s: list[float] = []
    over = threading.Event()

    def stop_and_go() -> None:
        due_s = time.monotonic()
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            stopped_s = time.monotonic()
            time.sleep(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
            stops_s.append(time.monotonic() - stopped_s)
            due_s += PERIOD_S
            over.wait(due_s - time.monotonic())

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield stops_s
    finally:
        over.set()
        thread.join()


def _true_quantiles(stops_s: Sequence[float]) -> Quantiles:
    """Return quantiles of the waits [ms] of requests at even times in whole periods.

    The time that a running server needs for an answer is left out.
    """
    arrival_s = np.linspace(0.0, PERIOD_S, 100_000, endpoint=False)
    waits_s = np.concatenate([np.maximum(stop_s - arrival_s, 0.0) for stop_s in stops_s])
    return _by_name(percentile(np.sort(1e3 * waits_s), share) for share in QUANTILES)


def _by_name(values_ms: Any) -> Quantiles:
    names = [f"p{share * 100:g}" for share in QUANTILES]
    return dict(zip(names, values_ms, strict=True))


def _measure_ours(folder: Path) -> Quantiles:
    records, _ = send_at(folder, RATE_PER_S, MEASURED_S)
    latency_ms = records.filter(phase="measure")["latency_ms"]
    return _by_name(percentile_of(latency_ms, share) for share in QUANTILES)


def _measure_wrk2() -> Quantiles:
    length_s = _WRK2_CALIBRATES_S + MEASURED_S
    return _run_wrk([str(WRK2), f"-R{RATE_PER_S:g}", f"-d{length_s:g}s"])


def _measure_wrk() -> Quantiles:
    return _run_wrk(["wrk", f"-d{MEASURED_S:g}s"])


def _run_wrk(command: list[str]) -> Quantiles:
    """Run wrk; it prints no quantiles between p90 and p99, and none above."""
    url = f"http://127.0.0.1:{SERVERS[0]}/body"
    command = [*command, "-t1", f"-c{_CONNECTIONS}", "--latency", url]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rows = re.findall(r"(?m)^ +([\d.]+)% +([\d.]+)(us|ms|s|m)$", process.stdout)
    quantiles = {float(share): float(value) * _UNIT_MS[unit] for share, value, unit in rows}
    shares = (round(share * 100, 3) for share in QUANTILES)
    return {f"p{share:g}": quantiles[share] for share in shares if share in quantiles}


def _measure_locust() -> Quantiles:
    row = closed_loop("Paced", _USERS, MEASURED_S, RATE_PER_S / _USERS)
    pairs = sorted((float(ms), count) for ms, count in row["response_times"].items())
    latency_ms = np.repeat([ms for ms, _ in pairs], [count for _, count in pairs])
    return _by_name(percentile(latency_ms, share) for share in QUANTILES)
