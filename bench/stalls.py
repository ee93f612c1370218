"""Reports of load generators on a server that stops: nginx, stopped for half a second in each two
and a half.

The true latencies are computed: a fifth of evenly spaced requests meets the stop, and waits for the
rest of it. A generator that waits for an answer before it asks again sends hardly any request to a
stopped server, and so hardly notices the stop (Tene's coordinated omission). Ours and wrk2 count
from the due time of a request; Locust's users ask at the same rate by its `constant_throughput`;
wrk asks as fast as possible.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.http import SERVERS, nginx
from bench.load import sent_at
from bench.process import ROOT
from core.statistics.percentiles import percentile, percentile_of

RATE_PER_S = 400.0
STOPPED_S, PERIOD_S, PERIODS = 0.5, 2.5, 8
MEASURED_S = PERIOD_S * PERIODS
QUANTILES = (0.9, 0.95, 0.99, 0.999)
WRK2 = ROOT / "build" / "peers" / "wrk2"
_WRK2_CALIBRATES_S = 10.0  # and forgets
_CONNECTIONS = 64
_USERS = 40
_UNIT_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}

Found = dict[str, float]


def measure(work: Path) -> dict[str, object]:
    """Return the quantiles [ms] of each generator and of the truth, and the largest relative
    errors.

    `wrk2` is None if `build/peers/wrk2` is missing.
    """
    folder = work / "stalls"
    folder.mkdir()
    asked: dict[str, Callable[[], Found] | None] = {
        "ours": lambda: _ours(folder),
        "wrk2": _wrk2 if os.access(WRK2, os.X_OK) else None,
        "locust": _locust,
        "wrk": _wrk,
    }
    found: dict[str, object] = {
        "rate_per_s": RATE_PER_S,
        "stopped_s": STOPPED_S,
        "every_s": PERIOD_S,
    }
    with nginx(work) as pid:
        for name, ask in asked.items():
            found[name] = _beside_the_truth(pid, ask) if ask else None
    return found


def _beside_the_truth(pid: int, ask: Callable[[], Found]) -> dict[str, object]:
    with _stopping(pid) as stops_s:
        said = ask()
    truth = _truth(stops_s)
    error = max(abs(value / truth[name] - 1) for name, value in said.items())
    return {"ms": said, "truth_ms": truth, "error_max": error}


@contextmanager
def _stopping(pid: int) -> Iterator[list[float]]:
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


def _truth(stops_s: Sequence[float]) -> Found:
    """Return quantiles of the waits [ms] of requests at even times in whole periods.

    The time that a running server needs for an answer is left out.
    """
    come_s = np.linspace(0.0, PERIOD_S, 100_000, endpoint=False)
    waits_s = np.concatenate([np.maximum(stop_s - come_s, 0.0) for stop_s in stops_s])
    return _named(percentile(np.sort(1e3 * waits_s), share) for share in QUANTILES)


def _named(values_ms: Any) -> Found:
    names = [f"p{share * 100:g}" for share in QUANTILES]
    return dict(zip(names, values_ms, strict=True))


def _ours(folder: Path) -> Found:
    records, _ = sent_at(folder, RATE_PER_S, MEASURED_S)
    latency_ms = records.filter(phase="measure")["latency_ms"]
    return _named(percentile_of(latency_ms, share) for share in QUANTILES)


def _wrk2() -> Found:
    length_s = _WRK2_CALIBRATES_S + MEASURED_S
    return _run_wrk([str(WRK2), f"-R{RATE_PER_S:g}", f"-d{length_s:g}s"])


def _wrk() -> Found:
    return _run_wrk(["wrk", f"-d{MEASURED_S:g}s"])


def _run_wrk(command: list[str]) -> Found:
    """Run wrk; it prints no quantiles between p90 and p99, and none above."""
    url = f"http://127.0.0.1:{SERVERS[0]}/body"
    command = [*command, "-t1", f"-c{_CONNECTIONS}", "--latency", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rows = re.findall(r"(?m)^ +([\d.]+)% +([\d.]+)(us|ms|s|m)$", done.stdout)
    said = {float(share): float(value) * _UNIT_MS[unit] for share, value, unit in rows}
    shares = (round(share * 100, 3) for share in QUANTILES)
    return {f"p{share:g}": said[share] for share in shares if share in said}


def _locust() -> Found:
    command = [
        *(sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("closed_loop.py"))),
        *("Paced", "--headless", "--only-summary", "--json", "--users", str(_USERS)),
        *("--spawn-rate", str(_USERS), "--run-time", f"{MEASURED_S:g}s"),
        *("--host", f"http://127.0.0.1:{SERVERS[0]}"),
    ]
    environment = os.environ | {"REQUESTS_PER_USER": str(RATE_PER_S / _USERS)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    (row,) = json.loads(done.stdout)
    pairs = sorted((float(ms), count) for ms, count in row["response_times"].items())
    latency_ms = np.repeat([ms for ms, _ in pairs], [count for _, count in pairs])
    return _named(percentile(latency_ms, share) for share in QUANTILES)
