"""Hosts of the platform `hosts`: containers of Debian with its sshd, and two interfaces.

Nothing of Sparecraft is in them. What has changed is found without the code under test.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from experiments.tests.engine import docker
from experiments.tests.started import until

_IMAGE = "sparecraft/tst-host"
_NETWORK = "tst-hosts-data"
_DATA = "198.18.208"
_DOCKERFILE = """
FROM sparecraft/base:bookworm
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --no-install-recommends openssh-server python3 >/dev/null && apt-get clean && \
  rm -f /etc/ssh/ssh_host_* && install -d -m 755 /run/sshd
CMD ["sh", "-c", "ssh-keygen -A >/dev/null && exec /usr/sbin/sshd -D -e"]
"""
# What any use of apt or of a login leaves.
_ANYWAY = (
    *("/proc", "/sys", "/dev", "/run", "/tmp", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/ucf"),
    "/var/cache/*",
    *("/var/log/apt", "/var/log/*log", "/var/log/*tmp", "/root/.ssh", "/usr/sbin/docker-init"),
)


@dataclass
class Hosts:
    """The containers, by the name of their host, and the files that a user has of them."""

    folder: Path
    addresses: dict[str, str]
    first: dict[str, set[str]]

    @property
    def file(self) -> Path:
        """hosts.toml."""
        return self.folder / "hosts.toml"

    def write(self, *names: str, interface: str = "eth1") -> Path:
        """Write a hosts.toml that has these hosts."""
        head = f'key = "{self.folder}/key"\nknown_hosts = "known_hosts"\nttl_hours = 1\n'
        rows = [
            f'[[hosts]]\nname = "{name}"\naddress = "{self.addresses[name]}"\ncores = 1\n'
            f'data_interface = "{interface}"\nusd_per_hour = 0.1\n'
            for name in names
        ]
        self.file.write_text(head + "\n".join(rows))
        return self.file

    def know(self, *wrong: str) -> None:
        """Write the hosts' keys to known_hosts; hosts in `wrong` get another host's key."""
        keys = {
            name: self.run(name, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
            for name in self.addresses
        }
        first_name = next(iter(keys))
        lines = [
            f"{address} {keys[first_name if name in wrong else name].strip()}"
            for name, address in self.addresses.items()
        ]
        (self.folder / "known_hosts").write_text("\n".join(lines) + "\n")

    def run(self, name: str, *command: str) -> str:
        """Run a command in the host and return its output."""
        return docker("exec", _container(name), *command)

    def seen(self, name: str) -> set[str]:
        """List every file and folder with mode, owner and size, and checksums of files in /etc."""
        pruned = " -o ".join(f"-path '{path}'" for path in _ANYWAY)
        entry = "-type d -printf 'd %m %U:%G %p\\n' -o -printf '%y %m %U:%G %s %l %p\\n'"
        script = (
            f"find / -xdev \\( {pruned} \\) -prune -o {entry}; "
            "find /etc -type f -exec sha256sum {} +"
        )
        return set(self.run(name, "sh", "-c", script).splitlines())

    def changed(self, name: str) -> set[str]:
        """Return how the host's files differ from those at the beginning."""
        return self.seen(name) ^ self.first[name]

    def off(self, name: str) -> None:
        """Pause the host: it does not answer any more."""
        docker("pause", _container(name))

    def on(self, name: str) -> None:
        """Let the host go on and wait until it answers."""
        docker("unpause", _container(name))
        self.until_sshd(name)

    def until_sshd(self, name: str) -> None:
        probe = ["ssh-keyscan", "-T", "2", self.addresses[name]]
        until(f"sshd of {name}", lambda: subprocess.run(probe, capture_output=True).stdout)


def after(**span: float) -> str:
    """Return the time at this distance from now, in the form that a host reads."""
    return f"{datetime.now(UTC) + timedelta(**span):%Y-%m-%dT%H:%M:%SZ}"


def without_ports(spec: Path, folder: Path) -> Path:
    """The spec without the local platform's own variables, written to a folder."""
    own_variables = ("data_cidr", "control_cidr", "entry_port", "influxdb_port")
    lines = [line for line in spec.read_text().splitlines() if not line.startswith(own_variables)]
    (folder / "fleet.tfvars").write_text("\n".join(lines) + "\n")
    return folder / "fleet.tfvars"


def _container(name: str) -> str:
    return f"tst-host-{name}"


def _remove(names: tuple[str, ...]) -> None:
    for name in names:
        docker("rm", "--force", "--volumes", _container(name))
    if docker("network", "ls", "--quiet", "--filter", f"name=^{_NETWORK}$"):
        docker("network", "rm", _NETWORK)


@contextmanager
def hosts(folder: Path, *names: str, small: str) -> Iterator[Hosts]:
    """Hosts that answer, gone when this ends; below /opt of `small` nearly nothing is free."""
    build = ["build", "--quiet", "--network", "host", "--tag", _IMAGE, "-"]
    docker(*build, text=_DOCKERFILE)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True
    )
    key = (folder / "key.pub").read_text()
    _remove(names)
    docker("network", "create", "--internal", "--subnet", f"{_DATA}.0/24", _NETWORK)
    rights = ("--cap-add=NET_ADMIN", "--cap-add=SYS_ADMIN", "--security-opt=apparmor=unconfined")
    running_hosts = Hosts(folder, {}, {})
    try:
        for number, name in enumerate(names, 11):
            disk = ["--tmpfs", "/opt:size=64m"] if name == small else []
            docker("run", "--detach", "--init", "--name", _container(name), *rights, *disk, _IMAGE)
            docker("network", "connect", "--ip", f"{_DATA}.{number}", _NETWORK, _container(name))
            command = "mkdir -p -m 700 /root/.ssh && cat >/root/.ssh/authorized_keys"
            docker("exec", "--interactive", _container(name), "sh", "-c", command, text=key)
            address = docker(
                "inspect",
                "--format",
                "{{.NetworkSettings.Networks.bridge.IPAddress}}",
                _container(name),
            )
            running_hosts.addresses[name] = address.strip()
            running_hosts.until_sshd(name)
        running_hosts.know()
        running_hosts.first = {name: running_hosts.seen(name) for name in names}
        yield running_hosts
    finally:
        _remove(names)
