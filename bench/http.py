"""The HTTP arbiter beside HAProxy: same servers, same client, one thread each, turn by turn."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.process import ROOT, answer_check, arbiter, extract, haproxy
from bench.process import nginx as one_thread_of_nginx
from bench.turns import Turns, compare, comparison_costs, measure_turns, spread
from core.json_object import JsonObject

WRK_KEYS = ("rps", "per_cpu_s", "p50_us", "p99_us")
SERVERS = (19001, 19002)
HAPROXY, ARBITER_1, ARBITER_2, ARBITER_MANY = 19010, 19011, 19012, 19013
COMPARING = {"count": 19014, "refuse": 19015}  # r = 2; ports by the mode of comparing replies
HAPROXY_SAFE = 19016  # `http-reuse safe`, which reuses connections for POST as the arbiter does
CONNECTIONS = (1, 32, 256)
HALF_LOAD_CONNECTIONS = 32
MANY = 10_000
TURNS = 9
TURN_S = 2
TESTKIT = ROOT / "build" / "bin" / "testkit"
BODY_BYTES = 1024
POST_SCRIPT = f"""wrk.method = "POST"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = string.rep("x", {BODY_BYTES})
"""

_UNIT_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


def measure(work: Path) -> JsonObject:
    """Return requests per second, also per second of the proxy's CPU time, and p50 and p99 of wrk.

    There is one row per connection count, and one of POST. In addition, there are the latency that
    a proxy adds at half load, and the memory of many connections.
    """
    with ExitStack() as stack:
        stack.enter_context(nginx(work))
        peer = haproxy(
            work, "mode http\n  http-reuse always", HAPROXY, SERVERS, _answer_check(HAPROXY)
        )
        proxies: dict[str, tuple[int, int]] = {
            "haproxy": (HAPROXY, stack.enter_context(peer)),
            "arbiter": (ARBITER_1, stack.enter_context(_run_arbiter(work, ARBITER_1, 1))),
            "arbiter_r2": (ARBITER_2, stack.enter_context(_run_arbiter(work, ARBITER_2, 2))),
        }
        for mode, port in COMPARING.items():
            pid = stack.enter_context(_run_arbiter(work, port, 2, f'compare.mode = "{mode}"\n'))
            proxies[f"arbiter_r2_{mode}"] = (port, pid)
        rows: JsonObject = {str(count): _compare(proxies, count) for count in CONNECTIONS}
        capacity = rows[str(HALF_LOAD_CONNECTIONS)]["haproxy_rps"]
        return {
            **rows,
            "post": _compare_posts(work, proxies["arbiter"]),
            "added_us": _added_latency(capacity / 2),
            "many": _measure_many(work),
        }


def _compare(targets: dict[str, tuple[int, int]], connections: int) -> JsonObject:
    turns = measure_turns(targets, TURNS, lambda port: wrk(port, connections))
    figures = compare(
        *(turns, WRK_KEYS, "haproxy"),
        ratio=("arbiter", "rps"),
        ratio_r2=("arbiter_r2", "rps"),
        ratio_cpu=("arbiter", "per_cpu_s"),
        ratio_cpu_r2=("arbiter_r2", "per_cpu_s"),
    )
    return figures | _error_counts(turns) | comparison_costs(turns, COMPARING)


def _error_counts(turns: Turns) -> JsonObject:
    return {f"{name}_errors": sum(run["errors"] for run in runs) for name, runs in turns.items()}


def _compare_posts(work: Path, ours: tuple[int, int]) -> JsonObject:
    """Return, per connection count, the rates of POST with a body of `BODY_BYTES` both ways."""
    script = work / "post.lua"
    script.write_text(POST_SCRIPT)
    settings = "mode http\n  http-reuse safe"
    rows: JsonObject = {}
    with haproxy(work, settings, HAPROXY_SAFE, SERVERS, _answer_check(HAPROXY_SAFE)) as peer:
        proxies = {"haproxy": (HAPROXY_SAFE, peer), "arbiter": ours}
        for count in CONNECTIONS:
            turns = measure_turns(proxies, TURNS, partial(wrk, connections=count, script=script))
            ratios = {"ratio": ("arbiter", "rps"), "ratio_cpu": ("arbiter", "per_cpu_s")}
            figures = compare(turns, WRK_KEYS, "haproxy", **ratios)
            rows[str(count)] = figures | _error_counts(turns)
    return rows


def _added_latency(rate_per_s: float) -> JsonObject:
    """Return the latency [us] that a proxy adds at a fixed rate: its p50 and p99 minus nginx's."""
    targets = {"nginx": SERVERS[0], "haproxy": HAPROXY, "arbiter": ARBITER_1}
    turns: dict[str, list[JsonObject]] = {name: [] for name in targets}
    for turn in range(TURNS):
        for name, port in targets.items():
            turns[name].append(_measure_at_rate(port, rate_per_s, turn))
    result: JsonObject = {
        "rate_per_s": rate_per_s,
        "connections": HALF_LOAD_CONNECTIONS,
        "turns": TURNS,
        "late_us_p99": max(run["late_us_p99"] for runs in turns.values() for run in runs),
    }
    for key in ("p50", "p99"):
        result[key] = {}
        for name in ("haproxy", "arbiter"):
            pairs = zip(turns[name], turns["nginx"], strict=True)
            differences = [run[f"{key}_us"] - direct[f"{key}_us"] for run, direct in pairs]
            result[key] |= spread(name, differences)
    return result


def _measure_at_rate(port: int, rate_per_s: float, seed: int) -> JsonObject:
    options: JsonObject = {
        "address": f"127.0.0.1:{port}",
        "path": "/body",
        "connections": HALF_LOAD_CONNECTIONS,
        "rate": rate_per_s,
        "seconds": TURN_S,
        "seed": seed,
    }
    figures = _run_testkit("rate", options)
    if figures["errors"]:
        raise ValueError(f"port {port}: expected no errors, got {figures['errors']}")
    return figures


def _measure_many(work: Path) -> JsonObject:
    """Return the memory [KiB] of a new arbiter with 10,000 client connections, idle and active."""
    with _run_arbiter(work, ARBITER_MANY, 1) as pid:
        address = f"127.0.0.1:{ARBITER_MANY}"
        options = {"address": address, "path": "/body", "connections": MANY, "pid": pid}
        return _run_testkit("hold", options)


def _run_testkit(command: str, options: JsonObject) -> JsonObject:
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.run(
        [str(TESTKIT), command, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if process.returncode != 0:
        raise RuntimeError(f"testkit {command}: expected success, got {process.stderr.strip()}")
    figures: JsonObject = json.loads(process.stdout)
    return figures


def wrk(port: int, connections: int, script: Path | None = None) -> dict[str, float]:
    """Run one turn of wrk with one thread: rps, p50_us, p99_us, requests and errors.

    Its requests are GET, unless a script in Lua makes them.
    """
    command = ["wrk", "-t1", f"-c{connections}", f"-d{TURN_S}s", "--latency"]
    if script is not None:
        command += ["-s", str(script)]
    process = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/body"],
        capture_output=True,
        text=True,
        timeout=TURN_S + 30,
        check=True,
    )
    return wrk_figures(process.stdout)


def wrk_figures(text: str) -> dict[str, float]:
    """Parse the output of wrk with --latency."""
    return {
        "rps": float(extract("wrk", r"Requests/sec:\s+([\d.]+)", text)),
        "p50_us": _microseconds(extract("wrk", r"(?m)^ +50%\s+(\S+)", text)),
        "p99_us": _microseconds(extract("wrk", r"(?m)^ +99%\s+(\S+)", text)),
        "requests": float(extract("wrk", r"(\d+) requests in", text)),
        "errors": float(_count_errors(text)),
    }


def _count_errors(text: str) -> int:
    """Count answers without success and failed sockets; wrk omits these lines if they are 0."""
    lines = re.findall(r"Non-2xx or 3xx responses: (.*)|Socket errors: (.*)", text)
    return sum(int(count) for line in lines for count in re.findall(r"\d+", " ".join(line)))


def _microseconds(text: str) -> float:
    value = extract("wrk", r"^([\d.]+)", text)
    return float(value) * _UNIT_US[text.removeprefix(value)]


def _answer_check(port: int) -> Callable[[], bool]:
    return answer_check(port, "/body", BODY_BYTES)


@contextmanager
def nginx(work: Path) -> Iterator[int]:
    """Run nginx on all of `SERVERS`, with a body of `BODY_BYTES` at /body.

    Yields the id of the process that answers.
    """
    site = work / "www"
    site.mkdir(exist_ok=True)
    site.chmod(0o755)
    (site / "body").write_bytes(b"x" * BODY_BYTES)
    with one_thread_of_nginx(work, SERVERS, site, _answer_check(SERVERS[0])) as pid:
        yield pid


def _run_arbiter(
    work: Path, port: int, replicas: int, more: str = ""
) -> AbstractContextManager[int]:
    timeouts = "connect_timeout_ms = 1000\nrequest_timeout_ms = 6000\n"
    return arbiter(work, "http", port, replicas, SERVERS, _answer_check(port), timeouts + more)
