"""Servers and arbiters that tests start as programs of their own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.paths import ROOT
from experiments.tests.started import until_listening

ARBITER = Path(os.environ.get("SPARECRAFT_ARBITER", ROOT / "build" / "bin" / "arbiter"))
EXAMPLES = ROOT / "agents" / "arbiter" / "examples"


@contextmanager
def started(port: int, *command: str) -> Iterator[None]:
    """Run a program, from when it listens at the port on."""
    said = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=said, stderr=said) as program:
        try:
            until_listening(program, port)
            yield
        finally:
            program.kill()
