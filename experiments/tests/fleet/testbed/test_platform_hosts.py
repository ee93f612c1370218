"""The platform `hosts` on four machines reached by ssh, and on those that cannot be had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
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
from experiments.tests.hosts_fixture import Hosts, hosts
from experiments.tests.quiet import NOBODY

pytestmark = pytest.mark.long

FOUR, SMALL = ("a", "b", "c", "d"), "small"
SPEC = ROOT / "experiments" / "tests" / "designs" / "kills" / "fleet.tfvars"
EXPERIMENT = "tst-kills"
_WAIT_S = 120.0


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Four hosts and one with no room."""
    with hosts(tmp_path_factory.mktemp("hosts"), *FOUR, SMALL, small=SMALL) as made:
        yield made


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The spec without the local platform's own variables."""
    text = SPEC.read_text()
    own = ("data_cidr", "control_cidr", "entry_port", "influxdb_port")
    kept = [line for line in text.splitlines() if not line.startswith(own)]
    (tmp_path / "fleet.tfvars").write_text("\n".join(kept) + "\n")
    return tmp_path / "fleet.tfvars"


@pytest.fixture
def stack(tmp_path: Path, bundle: Path) -> Path:
    """A copy of the stacks, so that no state of a user is touched."""
    return copy_of_stack(tmp_path / "copy", bundle).parent / "hosts"


def _platform(there: Hosts, stack: Path, experiment: str = EXPERIMENT) -> HostsPlatform:
    return HostsPlatform(experiment, there.file, stack=stack)


def _untouched(there: Hosts) -> None:
    changed = {name: there.changed(name) for name in (*FOUR, SMALL)}
    assert {name: what for name, what in changed.items() if what} == {}


def test_hosts_that_cannot_be_had_are_refused_by_name_and_left_alone(
    there: Hosts, stack: Path
) -> None:
    for names, interface, place, says in (
        (("a", SMALL), "eth1", SMALL, "MB free below /opt"),
        (("a",), "eth0", "a", "to carry nothing else"),
        (("a",), "eth7", "a", "with one IPv4 address"),
    ):
        there.write(*names, interface=interface)
        with pytest.raises(EnvironmentMissing, match=says) as refused:
            _platform(there, stack).check()
        assert refused.value.place.startswith(f"host {place} ")
    there.write(*FOUR)
    there.know("b")
    with pytest.raises(EnvironmentMissing) as other:
        _platform(there, stack).check()
    assert other.value.place.startswith("host b ")
    assert other.value.expected == "the host key that is known"
    there.know()
    _platform(there, stack).check()
    _untouched(there)


def test_a_host_is_one_experiment_s_and_gives_itself_back_when_its_time_is_over(
    there: Hosts, stack: Path
) -> None:
    there.write(*FOUR)
    listed = read(there.file)
    remote = Remote(listed.hosts[0], listed)
    remote.take("tst-other", _in(hours=1))
    with pytest.raises(EnvironmentMissing, match="taken by tst-other until"):
        _platform(there, stack).check()
    with pytest.raises(EnvironmentMissing, match="it is taken"):
        remote.take(EXPERIMENT, _in(hours=1))
    remote.take("tst-other", _in(seconds=2))
    deadline = time.monotonic() + _WAIT_S
    while remote.survey()["holder"] is not None:
        assert time.monotonic() < deadline, "it is held after its time"
    _untouched(there)


def _in(**span: float) -> str:
    return f"{datetime.now(UTC) + timedelta(**span):%Y-%m-%dT%H:%M:%SZ}"


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
        said = ""
        for line in process.stdout:
            said += line
            if "hosts are taken" in line:
                _until_installing(there)
                os.killpg(process.pid, signal.SIGKILL)
    assert "hosts are taken" in said
    platform = _platform(there, stack)
    assert platform.remaining() == [f"host {name}" for name in FOUR]
    assert platform.down(lambda _: None) == []
    assert platform.remaining() == []
    _untouched(there)


def _until_installing(there: Hosts) -> None:
    """Until a package is being installed somewhere."""
    deadline = time.monotonic() + _WAIT_S
    asks = "ls /var/lib/sparecraft-host/installing 2>/dev/null || true"
    while not any(there.run(name, "sh", "-c", asks) for name in FOUR):
        assert time.monotonic() < deadline, "no installation began"


def test_a_fleet_on_four_hosts_is_ready_and_leaves_them_as_they_were(
    there: Hosts, stack: Path, spec: Path
) -> None:
    there.write(*FOUR)
    platform = _platform(there, stack)
    inventory = platform.up(spec, lambda _: None)
    assert {one.name for one in inventory.machines} == {
        *("arbiter-cache", "cache-1", "cache-2", "influxdb-1")
    }
    assert {one.usd_per_hour for one in inventory.machines} == {0.1}
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
    gone = settings["cache-2"]["host"]
    there.off(gone)
    with pytest.raises(EnvironmentMissing) as unanswered:
        platform.down(lambda _: None)
    assert f"host {gone} " in unanswered.value.place
    assert platform.stack.state_resources(), "what it was told is needed once more"
    others = there.write(*(one for one in FOUR if one != gone))
    assert HostsPlatform(EXPERIMENT, others, stack=stack).remaining() == []
    there.write(*FOUR)
    there.on(gone)
    assert platform.down(lambda _: None) == []
    assert not platform.stack.state_directory.exists()
    assert platform.remaining() == []
    _untouched(there)
    assert json.dumps(settings).count("PRIVATE KEY") >= 4
