"""Power of hosts that a fault took: it is back whatever becomes of the run. Their ssh and their
controllers of power are stand-ins, which keep in files what is on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.testbed.platforms.hosts.platform import HostsPlatform
from experiments.testbed.platforms.terraform import Stack

pytestmark = pytest.mark.usefixtures("own_runs")

EXPERIMENT = "tst-power"
_PATIENCE_S = 60.0
# `start` of host.py is noted; anything else is answered as `survey`. Switched off: ssh's own code.
_SSH = """#!/bin/sh
case "$*" in *10.0.0.1*) host=a;; *) host=b;; esac
cat >/dev/null
[ -e {there}/$host.on ] || exit 255
case "$*" in *"host.py start"*) touch {there}/$host.started;; *) echo '{{"holder": null}}';; esac
"""
_HOSTS = """
[[hosts]]
name = "a"
address = "10.0.0.1"
data_interface = "eth1"
cores = 1
power_off = "rm {there}/a.on"
power_on = "touch {there}/a.on"
sysrq = true

[[hosts]]
name = "b"
address = "10.0.0.2"
data_interface = "eth1"
cores = 1
"""
_RUN = """
import os, signal, sys
from pathlib import Path
from experiments.tests.real.testbed.test_hosts_power import platform
made = platform(Path(sys.argv[1]))
made.inject("machine.crash", "web-1")
if os.environ.get("WITHOUT_WATCHDOG"):
    os.kill(made.journal.watch(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


def platform(there: Path) -> HostsPlatform:
    """The machine web-1 is on host a, web-2 on b."""
    made = HostsPlatform(EXPERIMENT, there / "hosts.toml", stack=there / "stack")
    made.stack = _Stack(there / "stack", EXPERIMENT)
    return made


class _Stack(Stack):
    """A stack with the outputs of one host."""

    def output(self, name: str) -> dict[str, dict[str, str]]:
        assert name == "settings"
        return {"web-1": {"host": "a"}, "web-2": {"host": "b"}}


@dataclass(frozen=True)
class Hosts:
    """The state of host a."""

    there: Path

    @property
    def on(self) -> bool:
        return (self.there / "a.on").exists()

    @property
    def started(self) -> bool:
        return (self.there / "a.started").exists()

    def killed_run(self, **environment: str) -> None:
        command = [sys.executable, "-c", _RUN, str(self.there)]
        ended = subprocess.run(command, env=os.environ | environment, check=False)
        assert ended.returncode == -signal.SIGKILL


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Both on."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "stack").mkdir()
    (tmp_path / "bin" / "ssh").write_text(_SSH.format(there=tmp_path))
    (tmp_path / "bin" / "ssh").chmod(0o755)
    (tmp_path / "hosts.toml").write_text(_HOSTS.format(there=tmp_path))
    for name in ("a", "b"):
        (tmp_path / f"{name}.on").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return Hosts(tmp_path)


def test_a_host_that_a_killed_run_switched_off_is_on_again(hosts: Hosts) -> None:
    hosts.killed_run()
    made = platform(hosts.there)
    deadline = time.monotonic() + _PATIENCE_S
    while not hosts.on or made.journal.notes():
        assert time.monotonic() < deadline, "it is still off"
        time.sleep(0.05)


def test_without_a_watchdog_the_next_run_switches_it_on(hosts: Hosts) -> None:
    hosts.killed_run(WITHOUT_WATCHDOG="1")
    made = platform(hosts.there)
    assert (hosts.on, [note.machine for note in made.journal.notes()]) == (False, ["a"])
    with pytest.raises(KeyError):  # a survey's, which this ssh does not know
        made.check()
    assert (hosts.on, made.journal.notes()) == (True, [])


def test_down_switches_it_on_whatever_hosts_toml_says_by_now(hosts: Hosts) -> None:
    hosts.killed_run(WITHOUT_WATCHDOG="1")
    file = hosts.there / "hosts.toml"
    file.write_text("\n".join(one for one in file.read_text().splitlines() if "power_" not in one))
    said: list[str] = []
    made = platform(hosts.there)
    made.down(said.append)
    assert (hosts.on, made.journal.notes()) == (True, [])
    assert len(said) == 1


def test_a_controller_that_refuses_keeps_the_note_and_down_goes_on(hosts: Hosts) -> None:
    hosts.killed_run(WITHOUT_WATCHDOG="1")
    (note,) = platform(hosts.there).journal.notes()
    made = platform(hosts.there)
    made.journal.write(note.kind, note.machine, "echo no such chassis >&2; exit 1")
    said: list[str] = []
    made.down(said.append)
    assert "no such chassis" in said[0]
    assert [one.machine for one in made.journal.notes()] == ["a"]
    os.kill(made.journal.watch(), signal.SIGKILL)


def test_a_repair_switches_the_host_on_before_it_starts_the_program(hosts: Hosts) -> None:
    made = platform(hosts.there)
    made.inject("machine.crash", "web-1")
    assert not hosts.on
    made.start("web-1")
    assert (hosts.on, hosts.started, made.journal.notes()) == (True, True, [])
    os.kill(made.journal.watch(), signal.SIGKILL)


def test_a_fault_that_is_reverted_or_refused_leaves_no_note(hosts: Hosts) -> None:
    made = platform(hosts.there)
    made.inject("machine.crash", "web-1")
    made.revert("machine.crash", "web-1")
    assert (hosts.on, hosts.started, made.journal.notes()) == (True, True, [])
    with pytest.raises(InputError):
        made.inject("machine.crash", "web-2")
    assert made.journal.notes() == []
    os.kill(made.journal.watch(), signal.SIGKILL)


def test_a_reboot_that_is_reverted_starts_the_program(hosts: Hosts) -> None:
    made = platform(hosts.there)
    made.inject("machine.reboot", "web-1")
    assert not hosts.started
    made.revert("machine.reboot", "web-1")
    assert hosts.started


def test_without_a_watchdog_no_host_is_switched_off(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = platform(hosts.there)
    monkeypatch.setattr(made.journal, "platform", "no-such-platform")
    with pytest.raises(EnvironmentMissing):
        made.inject("machine.crash", "web-1")
    assert hosts.on
