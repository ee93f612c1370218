"""Units of systemd on a host: the unit of the machine, those of a role's packages, and the scope in
which the steps of an installation run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from before import run, write

UNITS = Path("/etc/systemd/system")
MACHINE = "sparecraft-machine.service"
SCOPE = "sparecraft-install.scope"
_STATE = Path("/var/lib/sparecraft")
_NOWHERE = Path("/dev/null")
_OF_PACKAGES = re.compile(r"(?:/usr)?/lib/systemd/system/([^/]+\.(?:service|socket|timer|path))")
_SCRIPT = re.compile(r"/etc/init\.d/([^/]+)")


def systemd_runs() -> bool:
    """Tell whether systemd runs, as sd_booted(3) does."""
    return Path("/run/systemd/system").is_dir()


def write_unit(program: str, units: Path = UNITS) -> None:
    """Write the service of the machine's program, which is the agent or a load worker.

    An enabled service runs after a boot too.
    """
    units.mkdir(parents=True, exist_ok=True)
    (units / MACHINE).write_text(
        "[Unit]\nDescription=Sparecraft: what this machine runs\nStartLimitIntervalSec=0\n"
        f"[Service]\nExecStart={program}\nRestart=always\nRestartSec=1\nKillMode=mixed\n"
        "Delegate=yes\nLimitNOFILE=1048576\n"
        "StandardOutput=append:/var/log/sparecraft.log\n"
        "StandardError=append:/var/log/sparecraft.log\n"  # Apache's must not be a socket
        "[Install]\nWantedBy=multi-user.target\n"
    )


@contextmanager
def new_units_masked(etc: Path = Path("/etc"), state: Path = _STATE) -> Iterator[None]:
    """Mask the units that are enabled in this context, also if it raises.

    The next boot would start them, on the role's ports. After a kill the next call masks them.
    """
    enabled_file, masked_file = state / "enabled-before.json", state / "masked.json"
    state.mkdir(parents=True, exist_ok=True)
    if not enabled_file.exists():
        write(enabled_file, sorted(_enabled_units(etc)))
    try:
        yield
    finally:
        new = _enabled_units(etc) - set(json.loads(enabled_file.read_text()))
        # Write this first: unmask() ignores masks that do not exist.
        write(masked_file, sorted(new | _read_names(masked_file)))
        for name in new:
            unit = etc / "systemd" / "system" / name
            unit.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                unit.symlink_to(_NOWHERE)
        enabled_file.unlink()
        if systemd_runs():
            run("systemctl", "daemon-reload", fails=True)


def unmask(etc: Path = Path("/etc"), state: Path = _STATE) -> None:
    """Remove the masks of `new_units_masked`, and no others."""
    for name in _read_names(state / "masked.json"):
        unit = etc / "systemd" / "system" / name
        if unit.is_symlink() and unit.readlink() == _NOWHERE:
            unit.unlink()
    (state / "masked.json").unlink(missing_ok=True)
    if systemd_runs():
        run("systemctl", "daemon-reload", fails=True)


def stop_units_of(packages: Iterable[str]) -> None:
    """Stop the units of these packages, whoever started them; after a purge it is too late."""
    listed = run("dpkg-query", "-L", *packages, fails=True).splitlines()
    names = {match[1] for line in listed if (match := _OF_PACKAGES.fullmatch(line))}
    names |= {f"{match[1]}.service" for line in listed if (match := _SCRIPT.fullmatch(line))}
    for name in sorted(name.replace("@.", "@*.") for name in names):
        run("systemctl", "stop", name, fails=True)  # one call each: an unknown unit ends a call


def run_step(program: Path) -> None:
    """Run one of the role's scripts, and kill the processes that it leaves, also if it fails.

    Raises CalledProcessError.
    """
    if not systemd_runs():
        with subprocess.Popen([program], start_new_session=True) as process:
            try:
                code = process.wait()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if code != 0:
            raise subprocess.CalledProcessError(code, [program])
        return
    end_step()  # of an installation that was killed
    scope = ["systemd-run", "--quiet", "--scope", "--collect", f"--unit={SCOPE}"]
    try:
        subprocess.run([*scope, program], check=True)
    finally:
        end_step()


def end_step() -> None:
    """Kill the remaining processes of `run_step`, also if its caller was killed."""
    if systemd_runs():
        run("systemctl", "kill", "--signal=KILL", SCOPE, fails=True)
        run("systemctl", "stop", SCOPE, fails=True)


def _enabled_units(etc: Path) -> set[str]:
    """List the units that a boot starts, by links of systemctl and of update-rc.d."""
    links = (*etc.glob("systemd/system/*.wants/*"), *etc.glob("systemd/system/*.requires/*"))
    scripts = etc.glob("rc[2-5S].d/S[0-9][0-9]*")
    return {link.name for link in links} | {f"{script.name[3:]}.service" for script in scripts}


def _read_names(file: Path) -> set[str]:
    return set(json.loads(file.read_text())) if file.exists() else set()
