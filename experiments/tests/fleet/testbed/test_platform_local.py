"""Faults of machines on the local platform: power, reboot, and undoing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from experiments.testbed.platforms import Platform
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.tests.engine import docker as call_docker
from experiments.tests.started import until

EXPERIMENT = "tst-power"


@pytest.fixture
def machine() -> Iterator[str]:
    """A container that sleeps, named as a machine of the fleet is."""
    name = f"sc-{EXPERIMENT}-web-1"
    label = f"{docker.LABEL}={EXPERIMENT}"
    image = ("sparecraft/base:bookworm", "sleep", "600")
    call_docker("run", "--detach", "--network=none", "--name", name, "--label", label, *image)
    try:
        yield "web-1"
    finally:
        call_docker("rm", "--force", name)


def _process(platform: LocalPlatform, machine: str) -> int:
    """The process id of the machine's process 1 on this host; 0 when it is off."""
    return int(call_docker("inspect", "--format", "{{.State.Pid}}", platform.container(machine)))


def test_a_machine_that_is_rebooted_runs_again_as_another_process(machine: str) -> None:
    platform = LocalPlatform(EXPERIMENT)
    process_before = _process(platform, machine)
    platform.inject("machine.reboot", machine)
    assert platform.running(machine)
    process_after = _process(platform, machine)
    assert process_after not in (0, process_before)
    platform.revert("machine.reboot", machine)
    assert _process(platform, machine) == process_after, (
        "a machine that came back by itself is left alone"
    )


def test_power_goes_off_and_on_and_what_is_so_already_is_left(machine: str) -> None:
    platform: Platform = LocalPlatform(EXPERIMENT)
    for _ in range(2):
        platform.stop(machine)
        assert not platform.running(machine)
    for _ in range(2):
        platform.start(machine)
        assert platform.running(machine)
    assert platform.remaining() == [f"container sc-{EXPERIMENT}-web-1"]


def test_the_work_of_a_machine_is_counted_while_it_runs(machine: str) -> None:
    platform = LocalPlatform(EXPERIMENT)
    [before_s] = platform.cpu_s().values()
    call_docker("exec", platform.container(machine), "sh", "-c", "seq 300000 | tail -1")
    [after_s] = platform.cpu_s().values()
    assert after_s > before_s
    platform.stop(machine)
    assert platform.cpu_s() == {}


def test_an_engine_of_another_host_counts_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://198.18.0.9:2375")
    assert LocalPlatform(EXPERIMENT).cpu_s() == {}


_INJECTING = """
import os, signal, sys
from experiments.testbed.platforms.local.platform import LocalPlatform
experiment, kind, machine = sys.argv[1:]
platform = LocalPlatform(experiment)
platform.inject(kind, machine)
if os.environ.get("WITHOUT_WATCHDOG"):
    os.kill(platform.journal.watch(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _killed_run(kind: str, machine: str, **environment: str) -> None:
    """A run that injects a fault and is killed."""
    command = [sys.executable, "-c", _INJECTING, EXPERIMENT, kind, machine]
    process = subprocess.run(command, env=os.environ | environment, check=False)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["machine.freeze", "machine.crash"])
def test_a_machines_fault_ends_with_the_run_that_made_it(machine: str, kind: str) -> None:
    platform = LocalPlatform(EXPERIMENT)
    _killed_run(kind, machine)
    name = platform.container(machine)
    until("undo", lambda: docker.state(name) == "running" and not platform.journal.notes())


def test_what_a_killed_run_and_its_watchdog_left_is_undone_by_the_next(machine: str) -> None:
    platform = LocalPlatform(EXPERIMENT)
    _killed_run("machine.freeze", machine, WITHOUT_WATCHDOG="1")
    assert docker.state(platform.container(machine)) == "paused"
    [note] = platform.journal.undo_ended(platform.undo)
    assert (note.kind, note.machine) == ("machine.freeze", machine)
    assert docker.state(platform.container(machine)) == "running"
    assert platform.journal.notes() == []


def test_the_fault_of_a_run_that_lives_is_left_alone(machine: str) -> None:
    platform = LocalPlatform(EXPERIMENT)
    platform.inject("machine.freeze", machine)
    assert platform.journal.undo_ended(platform.undo) == []
    assert docker.state(platform.container(machine)) == "paused"
    platform.revert("machine.freeze", machine)
    assert docker.state(platform.container(machine)) == "running"
    assert platform.journal.notes() == []
