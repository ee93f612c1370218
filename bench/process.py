"""Programs that a comparison starts, and the CPU time that they take."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit

import httpx
import psutil

from core.json_object import JsonObject

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "build" / "peers"
READY_S = 30


def program(name: str) -> str:
    """Return a peer's path. Raises RuntimeError if it is not installed."""
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if path is None:
        raise RuntimeError(f"{name} is missing: call ci/bench, which installs it")
    return path


@contextmanager
def run_program(command: list[str], log: Path, is_ready: Callable[[], bool]) -> Iterator[int]:
    """Run a program until the block ends, and yield its process number once it is ready.

    Raises RuntimeError with its log if it ends, or is not ready within 30 s.
    """
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + READY_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]}: expected it ready; its log: {log.read_text()}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=READY_S)


def arbiter(
    work: Path,
    protocol: str,
    port: int,
    replicas: int,
    servers: tuple[int, ...],
    is_ready: Callable[[], bool],
    more: str = "",
) -> AbstractContextManager[int]:
    """Run an arbiter before servers on these ports of loopback; `more` is added to its settings."""
    settings = f"""protocol = "{protocol}"
listen = "127.0.0.1:{port}"
admin = "127.0.0.1:{port + 100}"
tier = "bench"
policy = "round-robin"
replicas = {replicas}
tokens = 256
"""
    tables = "".join(
        f'[[servers]]\nname = "s{server}"\naddress = "127.0.0.1:{server}"\n' for server in servers
    )
    config = work / f"arbiter-{port}.toml"
    config.write_text(settings + more + tables)
    binary = os.environ.get("SPARECRAFT_ARBITER", str(ROOT / "build" / "bin" / "arbiter"))
    return run_program([binary, "--config", str(config)], config.with_suffix(".log"), is_ready)


def haproxy(
    work: Path, settings: str, port: int, servers: tuple[int, ...], is_ready: Callable[[], bool]
) -> AbstractContextManager[int]:
    """Run HAProxy with one thread before servers on these ports; `settings` contain its mode."""
    lines = "\n".join(f"  server s{server} 127.0.0.1:{server}" for server in servers)
    config = work / f"haproxy-{port}.cfg"
    config.write_text(
        f"""global
  nbthread 1
  maxconn 4096
defaults
  {settings}
  timeout connect 1s
  timeout client 60s
  timeout server 60s
frontend in
  bind 127.0.0.1:{port}
  default_backend tier
backend tier
  balance roundrobin
{lines}
"""
    )
    command = [program("haproxy"), "-db", "-f", str(config)]
    return run_program(command, config.with_suffix(".log"), is_ready)


@contextmanager
def nginx(
    work: Path, ports: Sequence[int], root: Path, is_ready: Callable[[], bool], more: str = ""
) -> Iterator[int]:
    """Run nginx with one thread on these ports of loopback, without a log.

    Yields the id of the process that answers. `more` is added to the `http` block."""
    listens = "\n".join(f"    listen 127.0.0.1:{port};" for port in ports)
    config = work / f"nginx-{ports[0]}.conf"
    config.write_text(
        f"""user root;
daemon off;
worker_processes 1;
pid {config.with_suffix(".pid")};
error_log stderr;
worker_rlimit_nofile {getrlimit(RLIMIT_NOFILE)[1]};
events {{ worker_connections 32768; }}
http {{
  access_log off;
  keepalive_requests 100000000;
{more}
  server {{
{listens}
    root {root};
    error_page 405 =200 $uri; # a POST gets the file as well
  }}
}}
"""
    )
    command = [program("nginx"), "-c", str(config), "-e", "stderr"]
    with run_program(command, config.with_suffix(".log"), is_ready) as master:
        (worker,) = psutil.Process(master).children()
        yield worker.pid


def run_peer(script: str, *arguments: object, limit_s: float | None = None) -> JsonObject:
    """Run a script of this folder in the peers' own environment, and return the JSON it prints."""
    command = [str(PEERS / "bin" / "python"), f"bench/{script}", *map(str, arguments)]
    process = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=True
    )
    result: JsonObject = json.loads(process.stdout.splitlines()[-1])
    return result


def run_example(options: str, limit_s: float) -> list[JsonObject]:
    """Run `cargo run` for an example of the agents, and return its lines of JSON."""
    command = ["cargo", "run", "-q", "--locked", *options.split()]
    process = subprocess.run(
        command,
        cwd=ROOT / "agents", stdout=subprocess.PIPE, text=True, check=True, timeout=limit_s,
    )  # fmt: skip
    return [json.loads(line) for line in process.stdout.splitlines()]


def answer_check(port: int, path: str, size: int | None = None) -> Callable[[], bool]:
    """Return a check that this path is answered on this port of loopback, with `size` bytes."""

    def is_up() -> bool:
        try:
            response = httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False)
        except httpx.HTTPError:
            return False
        return response.is_success and size in (None, len(response.content))

    return is_up


def extract(name: str, pattern: str, text: str) -> str:
    """Return the group of a pattern in the output of a program. Raises ValueError."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"{name}: expected {pattern!r} in its output, got {text!r}")
    return match.group(1)


def connection_check(port: int) -> Callable[[], bool]:
    """Return a check that this port of loopback accepts connections."""

    def is_up() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    return is_up


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process [s]: user and system, all threads."""
    return float(sum(psutil.Process(pid).cpu_times()[:2]))
