"""Copies of a service behind an arbiter that compares their replies; one of them gets the flip.

The flip goes to the first copy, whose replies to writes the client gets: the worst case. Each read
goes to two copies. If their replies differ, the arbiter asks a third copy; if there is none, it
refuses the read.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx

from core.errors import MeasurementFailed
from experiments.kinds.bitflips import service_run
from experiments.kinds.bitflips.build import ARBITER, Built
from experiments.kinds.bitflips.services import Service

T = TypeVar("T")
_REQUEST_MS = 2000  # shorter than what service_run.py calls a hang
_READY_S = 60.0
_LOOK_S = 0.005
_LOG = "arbiter.log"
_CONFIGURATION = """\
protocol = "memcached"
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
tier = "cache"
policy = "round-robin"
replicas = 2
tokens = 8
connect_timeout_ms = 1000
request_timeout_ms = {request_ms}

[compare]
mode = "refuse"
"""
_SERVER = """
[[servers]]
name = "{name}"
address = "{address}"
"""


def serving_of(service: Service, program: Path, built: Built, folder: Path) -> service_run.Serving:
    """Return the way `program` is served in `folder`: alone, or as the first of `built.copies`."""
    if built.copies == 1:
        return partial(service_run.serve_alone, service, program, folder)
    return partial(serve_copies, service, program, built, folder)


@contextmanager
def serve_copies(
    service: Service, program: Path, built: Built, folder: Path, environment: dict[str, str]
) -> Iterator[service_run.Server]:
    """Serve by the copies and their arbiter, with all connections; `environment` is for the first
    copy only.
    """
    with ExitStack() as stack:
        folders = [folder / f"copy-{number}" for number in range(built.copies)]
        copies = []
        for number, copy_folder in enumerate(folders):
            copy_folder.mkdir(exist_ok=True)
            binary, variables = (built.plain, {}) if number else (program, environment)
            copies.append(service_run.start(service, binary, copy_folder, variables))
            stack.callback(service_run.end, copies[-1])
        with service_run.report_start_failure(program, copies[0]):
            addresses = [service_run.address_of(service, copy_folder) for copy_folder in folders]
            for process, address in zip(copies, addresses, strict=True):
                service_run.connect_to(process, address).close()
        arbiter = _start_arbiter(folder, addresses)
        stack.callback(service_run.end, arbiter)
        log = folder / _LOG
        entry, admin = _until(arbiter, lambda: _read_addresses(log), "an arbiter that listens")
        url = f"http://{admin}"
        stats = stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=_READY_S))
        _until(arbiter, lambda: _alive(stats) == built.copies, "an arbiter that reaches all copies")
        server = service_run.Server(
            service, copies[0], addresses[0], entry=_pair(entry),
            beside=(*copies[1:], arbiter),
            is_apart=lambda: _differences(stats) > 0 or _alive(stats) < built.copies,
        )  # fmt: skip
        stack.callback(server.end)
        with service_run.report_start_failure(ARBITER, arbiter):
            server.connect()
        yield server


def _start_arbiter(folder: Path, copies: Sequence[service_run.Address]) -> subprocess.Popen[bytes]:
    text = _CONFIGURATION.format(request_ms=_REQUEST_MS)
    for number, address in enumerate(copies):
        assert isinstance(address, tuple)  # a service that compares is on TCP
        text += _SERVER.format(name=f"copy-{number}", address=f"{address[0]}:{address[1]}")
    (folder / "arbiter.toml").write_text(text, encoding="utf-8")
    with (folder / _LOG).open("wb") as log:
        return subprocess.Popen(
            [ARBITER, "--config", folder / "arbiter.toml"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip


def _read_addresses(log: Path) -> tuple[str, str] | None:
    """Return the addresses of the arbiter's entry and admin API; None before it logs them."""
    match = re.search(r" on (\S+), admin on (\S+)\n", log.read_text(encoding="utf-8"))
    return None if match is None else (match[1], match[2])


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _alive(stats: httpx.Client) -> int:
    return int(stats.get("/health").json()["alive"])


def _differences(stats: httpx.Client) -> int:
    return int(stats.get("/v1/stats").json()["compare"]["different"])


def _until(arbiter: subprocess.Popen[bytes], look: Callable[[], T | None], expected: str) -> T:
    end_s = time.monotonic() + _READY_S
    while time.monotonic() < end_s and arbiter.poll() is None:
        if value := look():
            return value
        time.sleep(_LOOK_S)
    raise MeasurementFailed(
        str(ARBITER), expected=expected, got=f"status {arbiter.poll()}",
        hint="See its configuration, arbiter.toml.",
    )  # fmt: skip
