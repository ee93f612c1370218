"""Servers and arbiters that tests start as programs of their own."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.paths import ROOT

ARBITER = Path(os.environ.get("SPARECRAFT_ARBITER", ROOT / "build" / "bin" / "arbiter"))
EXAMPLES = ROOT / "agents" / "arbiter" / "examples"


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(port: int, *command: str) -> Iterator[None]:
    """Run a program, from when it listens at the port on."""
    said = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=said, stderr=said) as program:
        try:
            for _ in range(6_000):
                if _answers(port):
                    break
                assert program.poll() is None, f"{command[0]} ended"
                time.sleep(0.01)
            yield
        finally:
            program.kill()
