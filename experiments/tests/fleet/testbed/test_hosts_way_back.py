"""A host that others use while it is held: what they installed works when it is given back."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from experiments.testbed.platforms.hosts.hosts_file import read
from experiments.testbed.platforms.hosts.ssh import Remote
from experiments.tests.hosts_fixture import Hosts, hosts

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
    with hosts(tmp_path, HOST, small="") as there:
        listed = read(there.write(HOST))
        remote = Remote(listed.hosts[0], listed)
        expires = datetime.now(UTC) + timedelta(hours=1)
        remote.take(EXPERIMENT, f"{expires:%Y-%m-%dT%H:%M:%SZ}")
        remote.install(EXPERIMENT, _bundle(), tmp_path / "no-content", _SETTINGS)
        yield there, remote


def _bundle() -> bytes:
    packed = io.BytesIO()
    files = {"roles/tst/install.sh": _INSTALL, "bin/nodeagent": "#!/bin/sh\nexec sleep 1000\n"}
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(text), 0o755
            archive.addfile(file, io.BytesIO(text.encode()))
    return packed.getvalue()


def _others(there: Hosts, script: str) -> None:
    there.run(HOST, "bash", "-ec", _PACKAGE + script)


def test_what_others_installed_meanwhile_stays_and_works(held: tuple[Hosts, Remote]) -> None:
    there, remote = held
    _others(there, 'package their-database ""; useradd --system their-user; mkdir /opt/theirs')
    remote.install(EXPERIMENT, _bundle(), Path("no-content"), _SETTINGS)  # another `up`
    _others(there, 'package their-kernel ""; echo "theirs 1" >>/etc/networks')
    remote.release(EXPERIMENT)
    installed = there.run(HOST, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n")
    mine = {line for line in installed.splitlines() if line.startswith(("role", "their"))}
    assert mine == {"their-database installed", "their-kernel installed"}
    assert "their-user" in there.run(HOST, "cat", "/etc/passwd")
    assert "role-user" not in there.run(HOST, "cat", "/etc/passwd", "/etc/shadow", "/etc/group")
    _others(
        there,
        "test -d /var/lib/their-kernel; test -f /etc/their-database/conf; test -d /opt/theirs\n"
        "dpkg --purge their-database their-kernel; userdel their-user; rmdir /opt/theirs\n"
        "sed -i '/^theirs/d' /etc/networks",
    )
    left = {line for line in there.changed(HOST) if "/etc/" not in line or "/etc/services" in line}
    assert left == set()


def test_what_theirs_needs_of_ours_stays_and_is_told(held: tuple[Hosts, Remote]) -> None:
    there, remote = held
    _others(there, "package their-cluster 'role-server | other'")
    told = remote.release(EXPERIMENT)
    assert sum("is ours and stays" in line for line in told) == 2
    _others(there, "dpkg --verify their-cluster role-server role-library; dpkg --audit")
    names = there.run(HOST, "dpkg-query", "-W", "-f", "${Package}\n").splitlines()
    assert {"their-cluster", "role-server", "role-library"} <= set(names)
    assert "role-tool" not in names
    _others(there, "! grep -q ^role /etc/services; ! test -e /opt/role-data")
    assert remote.holder() is None


def test_a_host_that_nobody_else_used_is_as_it_was(held: tuple[Hosts, Remote]) -> None:
    there, remote = held
    assert remote.release(EXPERIMENT) == []
    assert there.changed(HOST) == set()


def test_without_systemd_a_host_that_booted_ends_its_time_again(held: tuple[Hosts, Remote]) -> None:
    there, remote = held
    guard = "$(cut -d' ' -f1 /var/lib/sparecraft-host/guard)"
    there.run(HOST, "sh", "-c", f"kill -KILL {guard}")  # as a boot does
    remote.start(EXPERIMENT)
    command = f"tr '\\0' ' ' </proc/{guard}/cmdline"
    assert there.run(HOST, "sh", "-c", command).split()[-2:] == ["guard", EXPERIMENT]
