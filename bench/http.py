"""The HTTP arbiter beside HAProxy: same servers, same client, one thread each, turn by turn."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench.process import ROOT, answers, arbiter, found_in, haproxy
from bench.process import nginx as one_thread_of_nginx
from bench.turns import compared, measure_turns, medians, ratio, spread
from core.json_object import JsonObject

SERVERS = (19001, 19002)
HAPROXY, ARBITER_1, ARBITER_2, ARBITER_MANY = 19010, 19011, 19012, 19013
COMPARING = {"count": 19014, "refuse": 19015}  # r = 2, and what is done with the replies
CONNECTIONS = (1, 32, 256)
HALF_LOAD_CONNECTIONS = 32
MANY = 10_000
TURNS = 9
TURN_S = 2
TESTKIT = ROOT / "build" / "bin" / "testkit"
BODY_BYTES = 1024

_UNIT_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


def measure(work: Path) -> JsonObject:
    """Return requests per second, also per second of the proxy's CPU time, and p50 and p99 of wrk.

    There is one row per connection count. Beside them are the latency that a proxy adds at half
    load, and the memory of many connections.
    """
    with ExitStack() as stack:
        stack.enter_context(nginx(work))
        peer = haproxy(work, "mode http\n  http-reuse always", HAPROXY, SERVERS, _serves(HAPROXY))
        proxies: dict[str, tuple[int, int]] = {
            "haproxy": (HAPROXY, stack.enter_context(peer)),
            "arbiter": (ARBITER_1, stack.enter_context(_arbiter(work, ARBITER_1, 1))),
            "arbiter_r2": (ARBITER_2, stack.enter_context(_arbiter(work, ARBITER_2, 2))),
        }
        for mode, port in COMPARING.items():
            pid = stack.enter_context(_arbiter(work, port, 2, f'compare.mode = "{mode}"\n'))
            proxies[f"arbiter_r2_{mode}"] = (port, pid)
        rows: JsonObject = {str(count): _compare(proxies, count) for count in CONNECTIONS}
        capacity = rows[str(HALF_LOAD_CONNECTIONS)]["haproxy_rps"]
        return {**rows, "added_us": _added(capacity / 2), "many": _many(work)}


def _compare(targets: dict[str, tuple[int, int]], connections: int) -> JsonObject:
    turns = measure_turns(targets, TURNS, lambda port: wrk(port, connections))
    keys = ("rps", "per_cpu_s", "p50_us", "p99_us")
    found: JsonObject = {"turns": TURNS, **medians(turns, keys)}
    for name, runs in turns.items():
        found[f"{name}_errors"] = sum(run["errors"] for run in runs)
    for name, ours, key in (
        ("ratio", "arbiter", "rps"),
        ("ratio_r2", "arbiter_r2", "rps"),
        ("ratio_cpu", "arbiter", "per_cpu_s"),
        ("ratio_cpu_r2", "arbiter_r2", "per_cpu_s"),
    ):
        found |= ratio(name, turns, ours, "haproxy", key)
    return found | compared(turns, COMPARING)


def _added(rate_per_s: float) -> JsonObject:
    """Return the latency [us] that a proxy adds at a fixed rate: its p50 and p99 minus nginx's."""
    targets = {"nginx": SERVERS[0], "haproxy": HAPROXY, "arbiter": ARBITER_1}
    turns: dict[str, list[JsonObject]] = {name: [] for name in targets}
    for turn in range(TURNS):
        for name, port in targets.items():
            turns[name].append(_at_rate(port, rate_per_s, turn))
    found: JsonObject = {
        "rate_per_s": rate_per_s,
        "connections": HALF_LOAD_CONNECTIONS,
        "turns": TURNS,
        "late_us_p99": max(run["late_us_p99"] for runs in turns.values() for run in runs),
    }
    for key in ("p50", "p99"):
        found[key] = {}
        for name in ("haproxy", "arbiter"):
            pairs = zip(turns[name], turns["nginx"], strict=True)
            each = [run[f"{key}_us"] - own[f"{key}_us"] for run, own in pairs]
            found[key] |= spread(name, each)
    return found


def _at_rate(port: int, rate_per_s: float, seed: int) -> JsonObject:
    options: JsonObject = {
        "address": f"127.0.0.1:{port}",
        "path": "/body",
        "connections": HALF_LOAD_CONNECTIONS,
        "rate": rate_per_s,
        "seconds": TURN_S,
        "seed": seed,
    }
    found = _testkit("rate", options)
    if found["errors"]:
        raise ValueError(f"port {port}: expected no errors, got {found['errors']}")
    return found


def _many(work: Path) -> JsonObject:
    """Return the memory [KiB] of a new arbiter with 10,000 client connections, idle and active."""
    with _arbiter(work, ARBITER_MANY, 1) as pid:
        address = f"127.0.0.1:{ARBITER_MANY}"
        options = {"address": address, "path": "/body", "connections": MANY, "pid": pid}
        return _testkit("hold", options)


def _testkit(command: str, options: JsonObject) -> JsonObject:
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [str(TESTKIT), command, *words], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"testkit {command}: expected success, got {done.stderr.strip()}")
    found: JsonObject = json.loads(done.stdout)
    return found


def wrk(port: int, connections: int) -> dict[str, float]:
    """Run one turn of wrk with one thread: rps, p50_us, p99_us, requests and errors."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{TURN_S}s", "--latency"]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/body"],
        capture_output=True,
        text=True,
        timeout=TURN_S + 30,
        check=True,
    )
    return wrk_figures(done.stdout)


def wrk_figures(text: str) -> dict[str, float]:
    """Parse the output of wrk with --latency."""
    return {
        "rps": float(found_in("wrk", r"Requests/sec:\s+([\d.]+)", text)),
        "p50_us": _microseconds(found_in("wrk", r"(?m)^ +50%\s+(\S+)", text)),
        "p99_us": _microseconds(found_in("wrk", r"(?m)^ +99%\s+(\S+)", text)),
        "requests": float(found_in("wrk", r"(\d+) requests in", text)),
        "errors": float(_errors(text)),
    }


def _errors(text: str) -> int:
    """Count answers without success and failed sockets; wrk omits these lines if they are 0."""
    told = re.findall(r"Non-2xx or 3xx responses: (.*)|Socket errors: (.*)", text)
    return sum(int(count) for line in told for count in re.findall(r"\d+", " ".join(line)))


def _microseconds(text: str) -> float:
    value = found_in("wrk", r"^([\d.]+)", text)
    return float(value) * _UNIT_US[text.removeprefix(value)]


def _serves(port: int) -> Callable[[], bool]:
    return answers(port, "/body", BODY_BYTES)


@contextmanager
def nginx(work: Path) -> Iterator[int]:
    """Run nginx on all of `SERVERS`, with a body of `BODY_BYTES` at /body.

    Yields the id of the process that answers.
    """
    site = work / "www"
    site.mkdir(exist_ok=True)
    site.chmod(0o755)
    (site / "body").write_bytes(b"x" * BODY_BYTES)
    with one_thread_of_nginx(work, SERVERS, site, _serves(SERVERS[0])) as pid:
        yield pid


def _arbiter(work: Path, port: int, replicas: int, more: str = "") -> AbstractContextManager[int]:
    timeouts = "connect_timeout_ms = 1000\nrequest_timeout_ms = 6000\n"
    return arbiter(work, "http", port, replicas, SERVERS, _serves(port), timeouts + more)
