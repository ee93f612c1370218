"""A host with systemd, which containers have not: a virtual machine of `ci/vm` that reboots."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.testbed.platforms.hosts.hosts_file import read
from experiments.testbed.platforms.hosts.platform import HostsPlatform
from experiments.testbed.platforms.hosts.role_bundle import pack_roles
from experiments.testbed.platforms.hosts.ssh import Remote
from experiments.tests.ec2_stack import copy_of_stack
from experiments.tests.hosts_fixture import after, without_ports

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
    """The virtual machine of a folder, reached by ssh."""

    folder: Path

    def run(self, command: str) -> str:
        """Output of the command, also where it or ssh fails."""
        ssh = ["ssh", "-F", f"{self.folder}/ssh_config", "vm", command]
        process = subprocess.run(ssh, capture_output=True, text=True, check=False)
        return process.stdout.strip()

    def until(self, command: str, holds: Callable[[str], bool]) -> str:
        """Wait until `holds` is true of the command's output; return that output."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(output := self.run(command)):
            assert time.monotonic() < deadline, f"{command}: {output}"
            time.sleep(1)
        return output


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
    """The stack applied for four hosts, of which one exists."""
    stack = copy_of_stack(tmp_path / "copy", bundle).parent / "hosts"
    hosts_platform = HostsPlatform(EXPERIMENT, vm.folder / "hosts.toml", stack=stack)
    spec = without_ports(SPEC, tmp_path)
    rows = [
        {
            "name": name,
            "address": f"10.0.2.{number}",
            "data_address": f"198.18.240.{number}",
            "cores": 1,
        }
        for name, number in (("a", 14), ("vm", 15), ("c", 16), ("d", 17))
    ]
    hosts_platform.stack.apply(spec, lambda _: None, {"hosts": rows})
    return hosts_platform


def test_a_host_that_boots_again_has_its_role_and_is_given_back(
    vm: Vm, platform: HostsPlatform, bundle: Path
) -> None:
    settings = platform.stack.output("settings")[MACHINE]
    assert settings["host"] == "vm"
    hosts_file = read(vm.folder / "hosts.toml")
    remote = Remote(hosts_file.hosts[0], hosts_file)
    survey = remote.survey()
    assert survey["systemd"]
    remote.take(EXPERIMENT, after(hours=2))
    roles = pack_roles(bundle / "sparecraft.tar.gz", {settings["role"]})[settings["role"]]
    remote.install(EXPERIMENT, roles, bundle / "no-content", settings)
    ready = "/opt/sparecraft/role/ready.sh && echo ready"
    vm.until(ready, lambda output: output == "ready")

    boot = vm.run("cat /proc/sys/kernel/random/boot_id")
    platform.inject("machine.reboot", MACHINE)
    vm.until("cat /proc/sys/kernel/random/boot_id", lambda output: output not in ("", boot))
    vm.until(ready, lambda output: output == "ready")  # by itself
    assert vm.run(f"systemctl is-enabled {SERVER}; systemctl is-active {SERVER}").split() == [
        *("masked", "inactive")
    ]
    platform.stop(MACHINE)
    platform.revert("machine.reboot", MACHINE)
    vm.until(ready, lambda output: output == "ready")

    assert platform.down(lambda _: None) == []
    assert remote.survey()["holder"] is None
    list_units = "systemctl list-units --all --no-legend 'sparecraft*'"
    assert vm.run(f"{list_units}; systemctl list-units --failed --no-legend") == ""
    assert vm.run("pgrep -l 'nodeagent|memcached'") == ""
    assert vm.run("find /etc/systemd/system -name 'sparecraft*' -o -name 'memcached*'") == ""
