"""ZooKeeper's own client at a real server: a session that is lost is begun anew."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from experiments.design import load_design
from experiments.kinds.limplock.clients.process import Clients, Task, command
from experiments.paths import ROOT
from experiments.tests.started import free_port, until

pytestmark = pytest.mark.long

ROLE = load_design("limplock-zookeeper").roles["zookeeper"]
TICK_MS = 100  # a session is 20 ticks at most, and then lost


@contextmanager
def server(port: int, folder: Path) -> Iterator[Path]:
    """A real ZooKeeper server; yields the path of its log."""
    folder.mkdir()
    jars = (ROOT / ROLE.build["new/lib/"]).parent
    arguments = [
        "java", "-Xmx48m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.admin.enableServer=false", "-cp", f"{ROLE.directory / 'new'}:{jars}/*",
        "org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(folder), str(TICK_MS),
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
    try:
        yield folder / "log"
    finally:
        process.kill()
        process.wait()


def test_a_client_that_loses_its_session_begins_another_and_asks_on(tmp_path: Path) -> None:
    subprocess.run([ROOT / "ci/jars", ROLE.directory], check=True)
    port = free_port()
    task = Task("ensemble-1", "create", f"127.0.0.1:{port}", 0, 10, 1, gap_s=0.05)
    arguments = command(ROLE, "new", ("ZooKeeperClient.java",), "ZooKeeperClient", {}, tmp_path)
    with (
        server(port, tmp_path / "server") as log,
        closing(Clients(arguments, tmp_path / "client.log")) as clients,
    ):
        lane = clients.start(task)
        until("first answer", lambda: any(operation.outcome == "ok" for operation in lane.did))
        clients._process.send_signal(signal.SIGSTOP)
        try:
            until("end of the session", lambda: b"Expiring session" in log.read_bytes())
        finally:
            lost_at_s = time.monotonic()
            clients._process.send_signal(signal.SIGCONT)
        until(
            "other",
            lambda: any(
                operation.outcome == "ok" for operation in lane.did if operation.start > lost_at_s
            ),
        )
        clients.stop(lane)
