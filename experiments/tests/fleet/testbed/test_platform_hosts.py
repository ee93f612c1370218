"""The platform `hosts` on four machines reached by ssh, and on hosts that it must refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.testbed.fleet import connect, disconnect, wait_ready
from experiments.testbed.platforms.hosts.hosts_file import read
from experiments.testbed.platforms.hosts.platform import HostsPlatform
from experiments.testbed.platforms.hosts.ssh import Remote
from experiments.tests.ec2_stack import copy_of_stack
from experiments.tests.hosts_fixture import Hosts, after, hosts, without_ports
from experiments.tests.quiet import NOBODY
from experiments.tests.started import until

pytestmark = pytest.mark.long

FOUR, SMALL = ("a", "b", "c", "d"), "small"
SPEC = ROOT / "experiments" / "tests" / "designs" / "kills" / "fleet.tfvars"
EXPERIMENT = "tst-kills"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Four hosts, and one without disk space."""
    with hosts(tmp_path_factory.mktemp("hosts"), *FOUR, SMALL, small=SMALL) as containers:
        yield containers


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The spec without the local platform's own variables."""
    return without_ports(SPEC, tmp_path)


@pytest.fixture
def stack(tmp_path: Path, bundle: Path) -> Path:
    """A copy of the stacks, so that no state of a user is touched."""
    return copy_of_stack(tmp_path / "copy", bundle).parent / "hosts"


def _platform(there: Hosts, stack: Path, experiment: str = EXPERIMENT) -> HostsPlatform:
    return HostsPlatform(experiment, there.file, stack=stack)


def _untouched(there: Hosts) -> None:
    changes = {name: there.changed(name) for name in (*FOUR, SMALL)}
    assert {name: paths for name, paths in changes.items() if paths} == {}


def test_hosts_that_cannot_be_had_are_refused_by_name_and_left_alone(
    there: Hosts, stack: Path
) -> None:
    for names, interface, host, message in (
        (("a", SMALL), "eth1", SMALL, "MB free below /opt"),
        (("a",), "eth0", "a", "to carry nothing else"),
        (("a",), "eth7", "a", "with one IPv4 address"),
    ):
        there.write(*names, interface=interface)
        with pytest.raises(EnvironmentMissing, match=message) as refused:
            _platform(there, stack).check()
        assert refused.value.place.startswith(f"host {host} ")
    there.write(*FOUR)
    there.know("b")
    with pytest.raises(EnvironmentMissing) as caught:
        _platform(there, stack).check()
    assert caught.value.place.startswith("host b ")
    assert caught.value.expected == "the host key that is known"
    there.know()
    _platform(there, stack).check()
    _untouched(there)


def test_a_host_is_one_experiment_s_and_gives_itself_back_when_its_time_is_over(
    there: Hosts, stack: Path
) -> None:
    there.write(*FOUR)
    hosts_file = read(there.file)
    remote = Remote(hosts_file.hosts[0], hosts_file)
    remote.take("tst-other", after(hours=1))
    with pytest.raises(EnvironmentMissing, match="taken by tst-other until"):
        _platform(there, stack).check()
    with pytest.raises(EnvironmentMissing, match="it is taken"):
        remote.take(EXPERIMENT, after(hours=1))
    remote.take("tst-other", after(seconds=2))
    until("release after its time", lambda: remote.survey()["holder"] is None)
    _untouched(there)


_UP = """
import sys
from pathlib import Path
from experiments.testbed.platforms.hosts.platform import HostsPlatform
file, stack, spec = map(Path, sys.argv[2:])
HostsPlatform(sys.argv[1], file, stack=stack).up(spec, lambda said: print(said, flush=True))
"""


def test_an_installation_that_is_killed_is_undone(there: Hosts, stack: Path, spec: Path) -> None:
    there.write(*FOUR)
    command = [sys.executable, "-c", _UP, EXPERIMENT, *map(str, (there.file, stack, spec))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as process:
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "hosts are taken" in line:
                until("package that is installed", lambda: _installs(there))
                os.killpg(process.pid, signal.SIGKILL)
    assert "hosts are taken" in output
    platform = _platform(there, stack)
    assert platform.remaining() == [f"host {name}" for name in FOUR]
    assert platform.down(lambda _: None) == []
    assert platform.remaining() == []
    _untouched(there)


def _installs(there: Hosts) -> bool:
    command = "ls /var/lib/sparecraft-host/installing 2>/dev/null || true"
    return any(there.run(name, "sh", "-c", command) for name in FOUR)


def test_a_fleet_on_four_hosts_is_ready_and_leaves_them_as_they_were(
    there: Hosts, stack: Path, spec: Path
) -> None:
    there.write(*FOUR)
    platform = _platform(there, stack)
    inventory = platform.up(spec, lambda _: None)
    assert {machine.name for machine in inventory.machines} == {
        *("arbiter-cache", "cache-1", "cache-2", "influxdb-1")
    }
    assert {machine.usd_per_hour for machine in inventory.machines} == {0.1}
    fleet = connect(platform, inventory)
    try:
        wait_ready(fleet, find_roles(SPEC.parent), NOBODY)
    finally:
        disconnect(fleet)
    platform.stop("cache-1")
    assert not platform.running("cache-1")
    platform.start("cache-1")
    assert platform.running("cache-1")
    with pytest.raises(InputError, match="power_off"):
        platform.inject("machine.crash", "cache-1")
    settings = platform.stack.output("settings")
    lost_host = settings["cache-2"]["host"]
    there.off(lost_host)
    with pytest.raises(EnvironmentMissing) as caught:
        platform.down(lambda _: None)
    assert f"host {lost_host} " in caught.value.place
    assert platform.stack.state_resources(), "what it was told is needed once more"
    other_hosts = there.write(*(name for name in FOUR if name != lost_host))
    assert HostsPlatform(EXPERIMENT, other_hosts, stack=stack).remaining() == []
    there.write(*FOUR)
    there.on(lost_host)
    assert platform.down(lambda _: None) == []
    assert not platform.stack.state_directory.exists()
    assert platform.remaining() == []
    _untouched(there)
    assert json.dumps(settings).count("PRIVATE KEY") >= 4
