"""`sparecraft` as a user calls it, within this process and as one of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from typer.testing import CliRunner, Result

from core.errors import SparecraftError
from experiments.cli import app

COMMAND = [sys.executable, "-m", "experiments.cli"]


def call(*arguments: str) -> Result:
    """Within this process."""
    return CliRunner().invoke(app, list(arguments))


def refusal(*arguments: str) -> SparecraftError:
    """The message of a call that has to be refused."""
    done = call(*arguments)
    assert isinstance(done.exception, SparecraftError), done.output
    return done.exception


def sparecraft(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a process, to its end; a traceback is a defect."""
    done = subprocess.run(
        [*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done
