"""The Redis and the memcached arbiter beside twemproxy: same servers, same client, one thread each.

Reads of 1 KB values, 50 connections, unpipelined and pipelined 16, turn by turn. On a machine with
few cores client and servers share them with the proxy, which limits the meaning of requests per
second; the processor time of the proxy per request is measured beside them.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from bench.process import ROOT, arbiter, connection_check, program, run_program
from bench.turns import comparison_costs, measure_turns, medians, ratio
from core.json_object import JsonObject

CONNECTIONS = 50
PIPELINES = (1, 16)
TURNS = 3
TURN_S = 3
KEYS = 1000
VALUE_BYTES = 1024
COMPARING = ("count", "refuse")  # modes of comparing the replies of r = 2
KVLOAD = ROOT / "build" / "bin" / "kvload"

_Client = Callable[[int, int], dict[str, float]]


def measure_all(work: Path) -> JsonObject:
    return {
        "redis": _measure(work, "redis", 19201, _run_redis_benchmark),
        "memcached": _measure(work, "memcached", 19211, _run_kvload),
    }


def _measure(work: Path, protocol: str, port: int, client: _Client) -> JsonObject:
    """Measure one protocol.

    The ports are two servers, twemproxy, its statistics, and arbiters at r = 1, r = 2, and r = 2
    with each way to compare replies.
    """
    servers = (port, port + 1)
    with ExitStack() as stack:
        for number, server in enumerate(servers):
            command = _server_command(work, protocol, server, None if number == 0 else servers[0])
            stack.enter_context(_run_server(command, server, work))
        nutcracker = stack.enter_context(_run_nutcracker(work, protocol, port + 2, servers))
        modes = {f"arbiter_r2_{mode}": f'compare.mode = "{mode}"\n' for mode in COMPARING}
        targets = {"twemproxy": (port + 2, nutcracker)}
        for proxy_port, (name, more) in enumerate(
            {"arbiter": "", "arbiter_r2": "", **modes}.items(), port + 4
        ):
            r = 2 if "_r2" in name else 1
            proxy = arbiter(
                work, protocol, proxy_port, r, servers, connection_check(proxy_port), more
            )
            targets[name] = (proxy_port, stack.enter_context(proxy))
        if protocol == "redis":
            _fill_redis(servers)
        rows = {str(pipeline): _compare(targets, pipeline, client) for pipeline in PIPELINES}
    return {
        **rows,
        "turns": TURNS,
        "connections": CONNECTIONS,
        "value_bytes": VALUE_BYTES,
        "ratio": {pipeline: row["ratio"] for pipeline, row in rows.items()},
    }


def _compare(targets: dict[str, tuple[int, int]], pipeline: int, client: _Client) -> JsonObject:
    turns = measure_turns(targets, TURNS, lambda port: client(port, pipeline))
    costs = comparison_costs(turns, COMPARING)
    for run in itertools.chain(*turns.values()):
        run["cpu_us"] = 1e6 / run.pop("per_cpu_s")
    result: JsonObject = medians(turns, ("rps", "p50_us", "p99_us", "cpu_us"))
    result |= ratio("ratio", turns, "arbiter", "twemproxy", "rps")
    result["ratio_r2"] = result["arbiter_r2_rps"] / result["twemproxy_rps"]
    result["ratio_cpu"] = result["twemproxy_cpu_us"] / result["arbiter_cpu_us"]
    return result | costs


def _run_redis_benchmark(port: int, pipeline: int) -> dict[str, float]:
    """Run redis-benchmark for about one turn; a short run gives the number of requests."""
    rps = _run_redis_requests(port, pipeline, 5_000 * pipeline)["rps"]
    return _run_redis_requests(port, pipeline, max(5_000, int(rps * TURN_S)))


def _run_redis_requests(port: int, pipeline: int, requests: int) -> dict[str, float]:
    command = ["redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS), "-P", str(pipeline)]
    command += ["-n", str(requests), "-r", str(KEYS), "--csv", "GET", "key:__rand_int__"]
    # "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_...","p99_...","max_..."
    line = _run(command).strip().splitlines()[-1]
    fields = [float(field) for field in re.findall(r'"([\d.]+)"', line)]
    if len(fields) < 6:
        raise ValueError(f"redis-benchmark: expected figures in CSV, got {line!r}")
    figures = {"rps": fields[0], "p50_us": fields[3] * 1e3, "p99_us": fields[5] * 1e3}
    return {**figures, "requests": requests}


def _run_kvload(port: int, pipeline: int) -> dict[str, float]:
    arguments = (f"127.0.0.1:{port}", CONNECTIONS, pipeline, TURN_S, KEYS, VALUE_BYTES)
    figures: dict[str, float] = json.loads(_run([str(KVLOAD), *map(str, arguments)]))
    return figures


def _run(command: list[str]) -> str:
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return process.stdout


def _fill_redis(servers: tuple[int, int]) -> None:
    """Set every key that redis-benchmark may draw on the primary, and wait for the replica."""
    value = b"x" * VALUE_BYTES
    commands = b"".join(b"SET key:%012d %s\r\n" % (key, value) for key in range(KEYS))
    with socket.create_connection(("127.0.0.1", servers[0]), timeout=10) as primary:
        primary.sendall(commands)
        left = len(b"+OK\r\n") * KEYS
        while left > 0:
            left -= len(primary.recv(65536))
    deadline = time.monotonic() + 20
    while _ask(servers[1], b"DBSIZE\r\n") != b":%d\r\n" % KEYS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"expected {KEYS} keys on the replica within 20 s")
        time.sleep(0.05)


def _ask(port: int, line: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(line)
        return stream.recv(65536)


def _server_command(work: Path, protocol: str, port: int, primary: int | None) -> list[str]:
    if protocol == "memcached":
        options = f"-u nobody -l 127.0.0.1 -p {port} -U 0 -m 64 -t 1 -c 1024"
        return [program("memcached"), *options.split()]
    command = [program("redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--dir", str(work), "--save", "", "--repl-diskless-sync-delay", "0"]
    return command if primary is None else [*command, "--replicaof", f"127.0.0.1 {primary}"]


def _run_server(command: list[str], port: int, work: Path) -> AbstractContextManager[int]:
    log = work / f"{Path(command[0]).name}-{port}.log"
    return run_program(command, log, connection_check(port))


def _run_nutcracker(
    work: Path, protocol: str, port: int, servers: tuple[int, int]
) -> AbstractContextManager[int]:
    config = work / f"nutcracker-{protocol}.yml"
    config.write_text(
        f"""tier:
  listen: 127.0.0.1:{port}
  hash: fnv1a_64
  distribution: ketama
  redis: {str(protocol == "redis").lower()}
  servers:
"""
        + "".join(f"   - 127.0.0.1:{server}:1\n" for server in servers)
    )
    command = [program("nutcracker"), "-c", str(config), "-s", str(port + 1)]
    return _run_server(command, port, work)
