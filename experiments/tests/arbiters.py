"""Servers and arbiters that tests start as programs of their own."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.paths import ROOT
from experiments.tests.started import until_listening

ARBITER = Path(os.environ.get("SPARECRAFT_ARBITER", ROOT / "build" / "bin" / "arbiter"))
EXAMPLES = ROOT / "agents" / "arbiter" / "examples"


@contextmanager
def started(port: int, *command: str) -> Iterator[None]:
    """Run a program in the block, which begins once the program listens at the port."""
    devnull = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=devnull, stderr=devnull) as program:
        try:
            until_listening(program, port)
            yield
        finally:
            program.kill()


def stats(admin: int) -> dict[str, Any]:
    """The counters of the arbiter whose admin port that is."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/v1/stats", timeout=60) as reply:
        counters: dict[str, Any] = json.load(reply)
    return counters
