"""Installation of files and role on a Debian host, on any platform.

The bundle of ci/bundle lies in /opt/sparecraft/bundle. Each step can be repeated.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from units import new_units_masked, run_step

HOME = Path("/opt/sparecraft")
DONE = Path("/var/lib/sparecraft/role-installed")
POLICY = Path("/usr/sbin/policy-rc.d")  # asked by packages that want to start a service
_OURS = "# sparecraft: packages start nothing while they are installed"


def write_files(files: dict[str, dict[str, str]]) -> None:
    for name, file in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(file["content"])
        path.chmod(int(file["mode"], 8))


def install_role(name: str, content: Path | None) -> None:
    """Run the role's image build: install.sh, then its content, prebuilt or made now."""
    if DONE.exists():
        return
    role, bundle = HOME / "role", HOME / "bundle"
    shutil.rmtree(role, ignore_errors=True)
    shutil.copytree(bundle / "roles" / name, role)
    for programs in (bundle / "bin", role / "bin"):
        if programs.exists():
            shutil.copytree(programs, HOME / "bin", dirs_exist_ok=True)
    with packages_start_nothing(), new_units_masked():
        run_step(role / "install.sh")
        if content is not None:
            subprocess.run(["tar", "-xzf", content, "-C", "/"], check=True)
            content.unlink()
        elif (role / "make-content.sh").exists():
            run_step(role / "make-content.sh")
    DONE.parent.mkdir(parents=True, exist_ok=True)
    DONE.touch()


@contextmanager
def packages_start_nothing(policy: Path = POLICY) -> Iterator[None]:
    """Prevent packages from starting services, because the agent starts them.

    A policy of somebody else is kept. Ours is removed, also one that a killed process left behind.
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
