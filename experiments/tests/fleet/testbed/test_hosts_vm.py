"""A host with systemd, as containers are none: a virtual machine of `ci/vm` that boots again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.testbed.platforms.hosts.hosts_file import read
from experiments.testbed.platforms.hosts.platform import HostsPlatform
from experiments.testbed.platforms.hosts.role_bundle import packed
from experiments.testbed.platforms.hosts.ssh import Remote
from experiments.tests.ec2_stack import copy_of_stack

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

SPEC = ROOT / "experiments" / "tests" / "designs" / "kills" / "fleet.tfvars"
EXPERIMENT, MACHINE = "tst-kills", "cache-1"
SERVER = "memcached.service"  # the distribution's, on the role's port
_NOT_SET_UP = 3
_PATIENCE_S = 1200.0  # it is emulated
_HOSTS = """
key = "key"
known_hosts = "known_hosts"

[[hosts]]
name = "vm"
address = "127.0.0.1"
port = {port}
data_interface = "eth1"
cores = 1
sysrq = true
"""


@dataclass(frozen=True)
class Vm:
    """The machine by its folder, and what ssh says there."""

    folder: Path

    def run(self, command: str) -> str:
        """Output of the command, also where it fails or nobody answers."""
        ssh = ["ssh", "-F", f"{self.folder}/ssh_config", "vm", command]
        said = subprocess.run(ssh, capture_output=True, text=True, check=False)
        return said.stdout.strip()

    def until(self, command: str, holds: Callable[[str], bool]) -> str:
        """Wait until that holds; the output then."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(said := self.run(command)):
            assert time.monotonic() < deadline, f"{command}: {said}"
            time.sleep(1)
        return said


@pytest.fixture
def vm(tmp_path: Path) -> Iterator[Vm]:
    """A machine that has booted, with a hosts.toml in its folder."""
    folder = tmp_path / "vm"
    program = ROOT / "ci" / "vm"
    try:
        booted = subprocess.run([program, "boot", folder], capture_output=True, text=True)
        if booted.returncode == _NOT_SET_UP:
            pytest.skip(booted.stderr.strip())
        assert booted.returncode == 0, booted.stderr
        port = (folder / "port").read_text().strip()
        (folder / "hosts.toml").write_text(_HOSTS.format(port=port))
        yield Vm(folder)
    finally:
        subprocess.run([program, "stop", folder], check=True)


@pytest.fixture
def platform(vm: Vm, tmp_path: Path, bundle: Path) -> HostsPlatform:
    """Four hosts by the stack, of which one is there."""
    stack = copy_of_stack(tmp_path / "copy", bundle).parent / "hosts"
    made = HostsPlatform(EXPERIMENT, vm.folder / "hosts.toml", stack=stack)
    own = ("data_cidr", "control_cidr", "entry_port", "influxdb_port")  # the local platform's
    spec = [line for line in SPEC.read_text().splitlines() if not line.startswith(own)]
    (tmp_path / "fleet.tfvars").write_text("\n".join(spec) + "\n")
    rows = [
        {
            "name": name,
            "address": f"10.0.2.{number}",
            "data_address": f"198.18.240.{number}",
            "cores": 1,
        }
        for name, number in (("a", 14), ("vm", 15), ("c", 16), ("d", 17))
    ]
    made.stack.apply(tmp_path / "fleet.tfvars", lambda _: None, {"hosts": rows})
    return made


def test_a_host_that_boots_again_has_its_role_and_is_given_back(
    vm: Vm, platform: HostsPlatform, bundle: Path
) -> None:
    settings = platform.stack.output("settings")[MACHINE]
    assert settings["host"] == "vm"
    listed = read(vm.folder / "hosts.toml")
    remote = Remote(listed.hosts[0], listed)
    before = remote.survey()
    assert before["systemd"]
    remote.take(EXPERIMENT, f"{datetime.now(UTC) + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}")
    part = packed(bundle / "sparecraft.tar.gz", {settings["role"]})[settings["role"]]
    remote.install(EXPERIMENT, part, bundle / "no-content", settings)
    ready = "/opt/sparecraft/role/ready.sh && echo ready"
    vm.until(ready, lambda said: said == "ready")

    boot = vm.run("cat /proc/sys/kernel/random/boot_id")
    platform.inject("machine.reboot", MACHINE)
    vm.until("cat /proc/sys/kernel/random/boot_id", lambda said: said not in ("", boot))
    vm.until(ready, lambda said: said == "ready")  # by itself
    assert vm.run(f"systemctl is-enabled {SERVER}; systemctl is-active {SERVER}").split() == [
        *("masked", "inactive")
    ]
    platform.stop(MACHINE)
    platform.revert("machine.reboot", MACHINE)
    vm.until(ready, lambda said: said == "ready")

    assert platform.down(lambda _: None) == []
    assert remote.survey()["holder"] is None
    left = "systemctl list-units --all --no-legend 'sparecraft*'"
    assert vm.run(f"{left}; systemctl list-units --failed --no-legend") == ""
    assert vm.run("pgrep -l 'nodeagent|memcached'") == ""
    assert vm.run("find /etc/systemd/system -name 'sparecraft*' -o -name 'memcached*'") == ""
