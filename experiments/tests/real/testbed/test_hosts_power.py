"""Power of hosts that a fault took: it is back whatever becomes of the run. Their ssh and their
controllers of power are stand-ins, which keep in files what is on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.testbed.platforms.hosts.platform import HostsPlatform
from experiments.testbed.platforms.terraform import Stack
from experiments.tests.started import executable, until

pytestmark = pytest.mark.usefixtures("own_runs")

EXPERIMENT = "tst-power"
# Records `start` of host.py, answers anything else as `survey`, and fails as ssh does when off.
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


def platform(folder: Path) -> HostsPlatform:
    """The machine web-1 is on host a, web-2 on b."""
    hosts_platform = HostsPlatform(EXPERIMENT, folder / "hosts.toml", stack=folder / "stack")
    hosts_platform.stack = _Stack(folder / "stack", EXPERIMENT)
    return hosts_platform


class _Stack(Stack):
    """A stack with the outputs of one host."""

    def output(self, name: str) -> dict[str, dict[str, str]]:
        assert name == "settings"
        return {"web-1": {"host": "a"}, "web-2": {"host": "b"}}


@dataclass(frozen=True)
class Hosts:
    """Files that show the state of host a."""

    there: Path

    @property
    def on(self) -> bool:
        return (self.there / "a.on").exists()

    @property
    def started(self) -> bool:
        return (self.there / "a.started").exists()

    def killed_run(self, **environment: str) -> None:
        command = [sys.executable, "-c", _RUN, str(self.there)]
        process = subprocess.run(command, env=os.environ | environment, check=False)
        assert process.returncode == -signal.SIGKILL


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Both hosts, switched on."""
    (tmp_path / "stack").mkdir()
    executable(tmp_path / "bin" / "ssh", _SSH.format(there=tmp_path))
    (tmp_path / "hosts.toml").write_text(_HOSTS.format(there=tmp_path))
    for name in ("a", "b"):
        (tmp_path / f"{name}.on").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return Hosts(tmp_path)


def test_a_host_that_a_killed_run_switched_off_is_on_again(hosts: Hosts) -> None:
    hosts.killed_run()
    hosts_platform = platform(hosts.there)
    until("power and no note", lambda: hosts.on and not hosts_platform.journal.notes())


def test_without_a_watchdog_the_next_run_switches_it_on(hosts: Hosts) -> None:
    hosts.killed_run(WITHOUT_WATCHDOG="1")
    hosts_platform = platform(hosts.there)
    assert (hosts.on, [note.machine for note in hosts_platform.journal.notes()]) == (False, ["a"])
    with pytest.raises(KeyError):  # from the survey, which this ssh does not answer fully
        hosts_platform.check()
    assert (hosts.on, hosts_platform.journal.notes()) == (True, [])


def test_down_switches_it_on_whatever_hosts_toml_says_by_now(hosts: Hosts) -> None:
    hosts.killed_run(WITHOUT_WATCHDOG="1")
    file = hosts.there / "hosts.toml"
    file.write_text(
        "\n".join(line for line in file.read_text().splitlines() if "power_" not in line)
    )
    lines: list[str] = []
    hosts_platform = platform(hosts.there)
    hosts_platform.down(lines.append)
    assert (hosts.on, hosts_platform.journal.notes()) == (True, [])
    assert len(lines) == 1


def test_a_controller_that_refuses_keeps_the_note_and_down_goes_on(hosts: Hosts) -> None:
    hosts.killed_run(WITHOUT_WATCHDOG="1")
    (note,) = platform(hosts.there).journal.notes()
    hosts_platform = platform(hosts.there)
    hosts_platform.journal.write(note.kind, note.machine, "echo no such chassis >&2; exit 1")
    lines: list[str] = []
    hosts_platform.down(lines.append)
    assert "no such chassis" in lines[0]
    assert [entry.machine for entry in hosts_platform.journal.notes()] == ["a"]
    os.kill(hosts_platform.journal.watch(), signal.SIGKILL)


def test_a_repair_switches_the_host_on_before_it_starts_the_program(hosts: Hosts) -> None:
    hosts_platform = platform(hosts.there)
    hosts_platform.inject("machine.crash", "web-1")
    assert not hosts.on
    hosts_platform.start("web-1")
    assert (hosts.on, hosts.started, hosts_platform.journal.notes()) == (True, True, [])
    os.kill(hosts_platform.journal.watch(), signal.SIGKILL)


def test_a_fault_that_is_reverted_or_refused_leaves_no_note(hosts: Hosts) -> None:
    hosts_platform = platform(hosts.there)
    hosts_platform.inject("machine.crash", "web-1")
    hosts_platform.revert("machine.crash", "web-1")
    assert (hosts.on, hosts.started, hosts_platform.journal.notes()) == (True, True, [])
    with pytest.raises(InputError):
        hosts_platform.inject("machine.crash", "web-2")
    assert hosts_platform.journal.notes() == []
    os.kill(hosts_platform.journal.watch(), signal.SIGKILL)


def test_a_reboot_that_is_reverted_starts_the_program(hosts: Hosts) -> None:
    hosts_platform = platform(hosts.there)
    hosts_platform.inject("machine.reboot", "web-1")
    assert not hosts.started
    hosts_platform.revert("machine.reboot", "web-1")
    assert hosts.started


def test_without_a_watchdog_no_host_is_switched_off(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts_platform = platform(hosts.there)
    monkeypatch.setattr(hosts_platform.journal, "platform", "no-such-platform")
    with pytest.raises(EnvironmentMissing):
        hosts_platform.inject("machine.crash", "web-1")
    assert hosts.on
