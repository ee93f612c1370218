"""A host that others use during an experiment: what they installed still works afterwards."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.testbed.platforms.hosts.hosts_file import read
from experiments.testbed.platforms.hosts.ssh import Remote
from experiments.tests.hosts_fixture import Hosts, after, hosts

EXPERIMENT, HOST = "tst-back", "back"
_PACKAGE = """
package() {  # name, what it depends on
  mkdir -p "/tmp/p/$1/DEBIAN" "/tmp/p/$1/etc/$1" "/tmp/p/$1/var/lib/$1"
  touch "/tmp/p/$1/etc/$1/conf"
  printf 'Package: %s\\nVersion: 1\\nArchitecture: all\\nMaintainer: A <a@b.c>\\n' "$1" \
    >"/tmp/p/$1/DEBIAN/control"
  if [ -n "$2" ]; then echo "Depends: $2" >>"/tmp/p/$1/DEBIAN/control"; fi
  echo "Description: a test" >>"/tmp/p/$1/DEBIAN/control"
  echo "/etc/$1/conf" >"/tmp/p/$1/DEBIAN/conffiles"
  dpkg-deb --build "/tmp/p/$1" "/tmp/p/$1.deb" >/dev/null && dpkg --install "/tmp/p/$1.deb"
  rm -r "/tmp/p"
}
"""
_INSTALL = f"""#!/bin/bash
set -euo pipefail
{_PACKAGE}
package role-library ""
package role-server "role-library (>= 1)"
package role-tool ""
useradd --system role-user
echo "role 1.2.3.4" >>/etc/services
mkdir -p /opt/role-data
"""
_SETTINGS = {"role": "tst", "files": {}}


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Hosts, Remote]]:
    """A host with the role `tst`."""
    with hosts(tmp_path, HOST, small="") as host_set:
        hosts_file = read(host_set.write(HOST))
        remote = Remote(hosts_file.hosts[0], hosts_file)
        remote.take(EXPERIMENT, after(hours=1))
        remote.install(EXPERIMENT, _bundle(), tmp_path / "no-content", _SETTINGS)
        yield host_set, remote


def _bundle() -> bytes:
    buffer = io.BytesIO()
    files = {"roles/tst/install.sh": _INSTALL, "bin/nodeagent": "#!/bin/sh\nexec sleep 1000\n"}
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(text), 0o755
            archive.addfile(file, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _others(host_set: Hosts, script: str) -> None:
    host_set.run(HOST, "bash", "-ec", _PACKAGE + script)


def test_what_others_installed_meanwhile_stays_and_works(held: tuple[Hosts, Remote]) -> None:
    host_set, remote = held
    _others(host_set, 'package their-database ""; useradd --system their-user; mkdir /opt/theirs')
    remote.install(EXPERIMENT, _bundle(), Path("no-content"), _SETTINGS)  # another `up`
    _others(host_set, 'package their-kernel ""; echo "theirs 1" >>/etc/networks')
    remote.release(EXPERIMENT)
    installed = host_set.run(HOST, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n")
    packages = {line for line in installed.splitlines() if line.startswith(("role", "their"))}
    assert packages == {"their-database installed", "their-kernel installed"}
    assert "their-user" in host_set.run(HOST, "cat", "/etc/passwd")
    assert "role-user" not in host_set.run(HOST, "cat", "/etc/passwd", "/etc/shadow", "/etc/group")
    _others(
        host_set,
        "test -d /var/lib/their-kernel; test -f /etc/their-database/conf; test -d /opt/theirs\n"
        "dpkg --purge their-database their-kernel; userdel their-user; rmdir /opt/theirs\n"
        "sed -i '/^theirs/d' /etc/networks",
    )
    left_over = {
        line for line in host_set.changed(HOST) if "/etc/" not in line or "/etc/services" in line
    }
    assert left_over == set()


def test_what_theirs_needs_of_ours_stays_and_is_told(held: tuple[Hosts, Remote]) -> None:
    host_set, remote = held
    _others(host_set, "package their-cluster 'role-server | other'")
    messages = remote.release(EXPERIMENT)
    assert sum("is ours and stays" in line for line in messages) == 2
    _others(host_set, "dpkg --verify their-cluster role-server role-library; dpkg --audit")
    names = host_set.run(HOST, "dpkg-query", "-W", "-f", "${Package}\n").splitlines()
    assert {"their-cluster", "role-server", "role-library"} <= set(names)
    assert "role-tool" not in names
    _others(host_set, "! grep -q ^role /etc/services; ! test -e /opt/role-data")
    assert remote.holder() is None


def test_a_host_that_nobody_else_used_is_as_it_was(held: tuple[Hosts, Remote]) -> None:
    host_set, remote = held
    assert remote.release(EXPERIMENT) == []
    assert host_set.changed(HOST) == set()


def test_without_systemd_a_host_that_booted_ends_its_time_again(held: tuple[Hosts, Remote]) -> None:
    host_set, remote = held
    guard = "$(cut -d' ' -f1 /var/lib/sparecraft-host/guard)"
    host_set.run(HOST, "sh", "-c", f"kill -KILL {guard}")  # as a boot does
    remote.start(EXPERIMENT)
    command = f"tr '\\0' ' ' </proc/{guard}/cmdline"
    assert host_set.run(HOST, "sh", "-c", command).split()[-2:] == ["guard", EXPERIMENT]
