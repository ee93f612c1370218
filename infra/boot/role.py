"""What makes a Debian host a machine of a fleet, wherever it stands: files, role, program. The
bundle of ci/bundle lies in /opt/sparecraft/bundle. Each step may have been done before."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOME = Path("/opt/sparecraft")
DONE = Path("/var/lib/sparecraft/role-installed")
UNITS = Path("/etc/systemd/system")
POLICY = Path("/usr/sbin/policy-rc.d")  # asked by packages that want to start a service
_OURS = "# sparecraft: packages start nothing while they are installed"


def write_files(files: dict[str, dict[str, str]]) -> None:
    """The machine's settings and keys."""
    for name, file in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(file["content"])
        path.chmod(int(file["mode"], 8))


def install_role(name: str, content: Path | None) -> None:
    """What the role's image build does: install.sh, then its content, made before or now."""
    if DONE.exists():
        return
    role, bundle = HOME / "role", HOME / "bundle"
    shutil.rmtree(role, ignore_errors=True)
    shutil.copytree(bundle / "roles" / name, role)
    for programs in (bundle / "bin", role / "bin"):
        if programs.exists():
            shutil.copytree(programs, HOME / "bin", dirs_exist_ok=True)
    with packages_start_nothing():
        subprocess.run([role / "install.sh"], check=True)
    if content is not None:
        subprocess.run(["tar", "-xzf", content, "-C", "/"], check=True)
        content.unlink()
    elif (role / "make-content.sh").exists():
        subprocess.run([role / "make-content.sh"], check=True)
    DONE.parent.mkdir(parents=True, exist_ok=True)
    DONE.touch()


@contextmanager
def packages_start_nothing(policy: Path = POLICY) -> Iterator[None]:
    """Forbid packages to start services, which the agent does.

    A policy of somebody else's is left alone; ours is removed, one that a kill left behind too.
    """
    if policy.exists() and _OURS not in policy.read_text().splitlines():
        yield
        return
    policy.write_text(f"#!/bin/sh\n{_OURS}\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def write_unit(program: str) -> None:
    """The machine's program as a service: the agent, which runs the role, or a load worker."""
    UNITS.mkdir(parents=True, exist_ok=True)
    (UNITS / "sparecraft-machine.service").write_text(
        "[Unit]\nDescription=Sparecraft: what this machine runs\nStartLimitIntervalSec=0\n"
        f"[Service]\nExecStart={program}\nRestart=always\nRestartSec=1\nKillMode=mixed\n"
        "Delegate=yes\nLimitNOFILE=1048576\n"
        "StandardOutput=append:/var/log/sparecraft.log\n"
        "StandardError=append:/var/log/sparecraft.log\n"  # Apache's must not be a socket
    )


def systemd_runs() -> bool:
    """As sd_booted(3) finds out."""
    return Path("/run/systemd/system").is_dir()
