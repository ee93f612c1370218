"""The HTTP arbiter beside HAProxy: same servers, same client, one thread each, turn by turn."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
SERVERS = (19001, 19002)
HAPROXY, ARBITER_1, ARBITER_2 = 19010, 19011, 19012
CONNECTIONS = (1, 32, 256)
TURNS = 3
TURN_S = 3
BODY_BYTES = 1024

_UNIT_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


def measure(work: Path) -> dict[str, Any]:
    """Requests per second and wrk's p50 and p99, medians over turns, per connection count."""
    with ExitStack() as stack:
        stack.enter_context(_nginx(work))
        stack.enter_context(_haproxy(work))
        for port, replicas in ((ARBITER_1, 1), (ARBITER_2, 2)):
            stack.enter_context(_arbiter(work, port, replicas))
        targets = {"haproxy": HAPROXY, "arbiter": ARBITER_1, "arbiter_r2": ARBITER_2}
        return {str(count): _compare(targets, count) for count in CONNECTIONS}


def _compare(targets: dict[str, int], connections: int) -> dict[str, Any]:
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in targets}
    for _ in range(TURNS):
        for name, port in targets.items():
            turns[name].append(_wrk(port, connections))
    found: dict[str, Any] = {}
    for name, runs in turns.items():
        for key in ("rps", "p50_us", "p99_us"):
            values = [run[key] for run in runs]
            found[f"{name}_{key}"] = statistics.median(values)
            found[f"{name}_{key}_range"] = [min(values), max(values)]
        found[f"{name}_errors"] = sum(run["errors"] for run in runs)
    found["turns"] = TURNS
    found["ratio"] = found["arbiter_rps"] / found["haproxy_rps"]
    found["ratio_r2"] = found["arbiter_r2_rps"] / found["haproxy_rps"]
    return found


def _wrk(port: int, connections: int) -> dict[str, float]:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{TURN_S}s", "--latency"]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/body"],
        capture_output=True,
        text=True,
        timeout=TURN_S + 30,
        check=True,
    )
    text = done.stdout
    return {
        "rps": float(_find(r"Requests/sec:\s+([\d.]+)", text)),
        "p50_us": _microseconds(_find(r"(?m)^ +50%\s+(\S+)", text)),
        "p99_us": _microseconds(_find(r"(?m)^ +99%\s+(\S+)", text)),
        "errors": float(_errors(text)),
    }


def _errors(text: str) -> int:
    """Answers that were no success, and sockets that failed; wrk prints neither where it is 0."""
    told = re.findall(r"Non-2xx or 3xx responses: (.*)|Socket errors: (.*)", text)
    return sum(int(count) for line in told for count in re.findall(r"\d+", " ".join(line)))


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"wrk: expected {pattern!r} in its output, got {text!r}")
    return found.group(1)


def _microseconds(text: str) -> float:
    value = _find(r"^([\d.]+)", text)
    return float(value) * _UNIT_US[text.removeprefix(value)]


@contextmanager
def _process(command: list[str], port: int, log: Path) -> Iterator[None]:
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        _wait(port, process, log)
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/body", trust_env=False)
            if answer.status_code == 200 and len(answer.content) == BODY_BYTES:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"port {port}: expected 1 KB, got none; log: {log.read_text()}")
        time.sleep(0.05)


@contextmanager
def _nginx(work: Path) -> Iterator[None]:
    site = work / "www"
    site.mkdir()
    site.chmod(0o755)
    (site / "body").write_bytes(b"x" * BODY_BYTES)
    listens = "\n".join(f"    listen 127.0.0.1:{port};" for port in SERVERS)
    config = work / "nginx.conf"
    config.write_text(
        f"""user root;
daemon off;
worker_processes 1;
pid {work}/nginx.pid;
error_log stderr;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  server {{
{listens}
    root {site};
  }}
}}
"""
    )
    command = [_program("nginx"), "-c", str(config), "-e", "stderr"]
    with _process(command, SERVERS[0], work / "nginx.log"):
        yield


@contextmanager
def _haproxy(work: Path) -> Iterator[None]:
    servers = "\n".join(f"  server s{port} 127.0.0.1:{port}" for port in SERVERS)
    config = work / "haproxy.cfg"
    config.write_text(
        f"""global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 1s
  timeout client 10s
  timeout server 10s
  http-reuse always
frontend in
  bind 127.0.0.1:{HAPROXY}
  default_backend tier
backend tier
  balance roundrobin
{servers}
"""
    )
    with _process([_program("haproxy"), "-f", str(config)], HAPROXY, work / "haproxy.log"):
        yield


@contextmanager
def _arbiter(work: Path, port: int, replicas: int) -> Iterator[None]:
    config = work / f"arbiter-{port}.toml"
    config.write_text(
        f"""protocol = "http"
listen = "127.0.0.1:{port}"
admin = "127.0.0.1:{port + 100}"
tier = "bench"
policy = "round-robin"
replicas = {replicas}
tokens = 256
connect_timeout_ms = 1000
request_timeout_ms = 6000
"""
        + "".join(
            f'[[servers]]\nname = "s{server}"\naddress = "127.0.0.1:{server}"\n'
            for server in SERVERS
        )
    )
    command = [str(ROOT / "build" / "bin" / "arbiter"), "--config", str(config)]
    with _process(command, port, work / f"arbiter-{port}.log"):
        yield


def _program(name: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise RuntimeError(f"{name} is missing: call ci/bench, which installs it")
    return found
