"""Process 1 of a machine: the node agent's program as the first process of a name space."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.tests.load_fixture import children
from experiments.tests.started import until

AGENT = ROOT / "build" / "bin" / "nodeagent"


class Settings:
    """A pipe in place of an agent's settings: the agent reads, and nobody writes."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._held: list[int] = []

    def are_read(self) -> bool:
        """Return whether an agent has opened them, and so is no longer a copy of process 1."""
        try:
            self._held.append(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody has opened it
            return False
        return True

    def close(self) -> None:
        """Close what was opened."""
        while self._held:
            os.close(self._held.pop())


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    agent_settings = Settings(tmp_path / "agent.toml")
    yield agent_settings
    agent_settings.close()


def _state(process: int) -> str:
    """The state as `ps` shows it: R, S, T (stopped), Z and so on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]


def _switches(process: int) -> int:
    """Number of context switches; a stop is one too."""
    status = Path(f"/proc/{process}/status").read_text()
    return sum(int(count) for count in re.findall(r"ctxt_switches:\s+(\d+)", status))


def _stop(process: int) -> None:
    switches_before = _switches(process)
    os.kill(process, signal.SIGSTOP)
    until("its stop", lambda: _switches(process) > switches_before)


@pytest.fixture
def first(settings: Settings) -> Iterator[int]:
    """Process 1, whose agent has begun to read."""
    user_options = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    space = ["unshare", *user_options, "--pid", "--fork", "--kill-child"]
    if subprocess.run([*space, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this host gives no name space of processes")
    process = subprocess.Popen([*space, str(AGENT), "--config", str(settings.path)])
    try:
        until("the agent", settings.are_read)
        (child,) = children(process.pid)
        yield child
    finally:
        process.kill()
        process.wait()


def test_an_agent_that_is_stopped_goes_on_and_one_that_is_killed_is_there_again(first: int) -> None:
    (agent,) = children(first)
    for _ in range(2):
        _stop(agent)
        until("an agent that goes on", lambda: _state(agent) == "S")
    os.kill(agent, signal.SIGKILL)
    until("another agent", lambda: children(first) not in ([], [agent]))
