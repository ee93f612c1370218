"""Takes an existing host as a machine of one fleet, and restores it afterwards; run as root.

    python3 host.py survey eth1                      prints facts as JSON; changes nothing
    python3 host.py take shop 2026-11-22T21:00:00Z   for one experiment, until then
    python3 host.py install shop <settings           role, files, program; the bundle is in HOME
    python3 host.py start shop                       start the program
    python3 host.py stop shop                        kill the program and its children
    python3 host.py release shop                     uninstall, and print remaining differences

A host belongs to one experiment: the first one that creates the folder STATE. `take` saves the
state of the host there, and the changes of a role's install.sh are found by comparison with it.
Needs Debian with python3, tar and apt; systemd is optional.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from back import own_changes, restore
from before import HOME, LOG, STATE, differences, fingerprint, load_note, note, run, write
from role import install_role, write_files
from units import MACHINE, UNITS, end_step, systemd_runs, write_unit

PROGRAM = HOME / "bin" / "nodeagent"
_STOP_S = 15.0
_PACKAGES_S = 180.0
_INSTALLERS = ("apt-get", "dpkg")
TAKEN, NOT_OURS, CHANGED = 10, 11, 12  # exit codes


def main(arguments: list[str]) -> int:
    """Run one of the commands above. Returns the exit code; prints JSON or a reason."""
    verb, *rest = arguments
    if verb == "survey":
        return _print_json(survey(rest[0]))
    if verb == "take":
        return take(rest[0], rest[1])
    holder = _holder()
    if verb == "release" and holder is None:
        return 0
    if holder is None or holder["experiment"] not in (rest[0], ""):
        print(f"held by {holder['experiment'] if holder else 'nobody'}")
        return NOT_OURS
    if verb == "guard":
        return guard(rest[0])
    return {"install": install, "start": start, "stop": stop, "release": release}[verb]()


def _print_json(value: object) -> int:
    print(json.dumps(value))
    return 0


def survey(interface: str) -> dict[str, Any]:
    """Return the host's facts, its holder, and the address of its data interface."""
    links = {link["ifname"]: link for link in json.loads(run("ip", "-j", "-4", "address", "show"))}
    data = [address["local"] for address in links.get(interface, {}).get("addr_info", [])]
    connected_to = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    return {
        "cores": os.cpu_count(),
        "free_mb": shutil.disk_usage("/opt").free // 2**20,
        "systemd": systemd_runs(),
        "root": os.geteuid() == 0,
        "apt": shutil.which("apt-get") is not None,
        "data_address": data[0] if len(data) == 1 else None,
        "shared": bool(connected_to) and connected_to[0] in data,
        "holder": _holder(),
        "program": _pid() is not None,
    }


def take(experiment: str, expires: str) -> int:
    """Take the host, or print its holder; a repetition by the same experiment changes the end."""
    holder = _holder()
    if holder is not None and holder["experiment"] not in (experiment, ""):
        print(f"taken by {holder['experiment']} until {holder['expires']}")
        return TAKEN
    if holder is None:
        try:
            STATE.mkdir(mode=0o700)  # of several calls at the same time, one succeeds
        except FileExistsError:
            print("taken at this moment")
            return TAKEN
    write(STATE / "owner.json", {"experiment": experiment, "expires": expires})
    if load_note() is None:
        note(fingerprint())
    shutil.copytree(Path(__file__).parent, STATE / "boot", dirs_exist_ok=True)
    with own_changes():
        _arm_end(experiment, expires)
    return 0


def install() -> int:
    """Install the machine of the settings on standard input, and start its program."""
    settings = json.load(sys.stdin)
    own_pid = os.getpid()
    (STATE / "installing").write_text(f"{own_pid} {_start_time(own_pid)}")
    stop()
    with own_changes():
        write_files(settings["files"])
        content = HOME / "bundle" / "content.tar.gz"
        install_role(settings["role"], content if content.exists() else None)
        if systemd_runs():
            write_unit(str(PROGRAM))
            run("systemctl", "daemon-reload")
            run("systemctl", "enable", "--quiet", MACHINE)
    (STATE / "installing").unlink()
    return start()


def start() -> int:
    """Start the program if it does not run."""
    if systemd_runs():
        run("systemctl", "start", MACHINE)
    elif _pid() is None:
        with LOG.open("ab") as log:
            process = subprocess.Popen(
                [PROGRAM], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd="/",
            )  # fmt: skip
        (STATE / "pid").write_text(f"{process.pid} {_start_time(process.pid)}")
    if not systemd_runs() and (holder := _holder()) is not None:
        _arm_end(holder["experiment"], holder["expires"])  # without systemd, no boot starts it
    return 0


def stop() -> int:
    """Kill the agent and all its children at once, as the nearest equivalent of a power loss."""
    pid = _pid()
    if systemd_runs():
        if (UNITS / MACHINE).exists():
            run("systemctl", "kill", "--signal=KILL", MACHINE, fails=True)
            run("systemctl", "stop", MACHINE, fails=True)
    elif pid is not None:
        _kill_all(pid)
    # A loss of power would also remove the agent's guard of the control address from the kernel.
    run("nft", "delete", "table", "netdev", "sparecraft_control", fails=True)
    (STATE / "pid").unlink(missing_ok=True)
    return 0


def release() -> int:
    """Restore the host as it was before `take`, remove the lock last, and print differences."""
    _disarm_end()
    if (installing := _pid("installing")) is not None:
        _end_install(installing)  # of a runner that was killed, or lost the connection
    end_step()
    _terminate()  # the agent undoes its faults
    stop()
    before = load_note()
    stays = restore()
    for folder in (HOME, Path("/var/lib/sparecraft"), Path("/etc/sparecraft")):
        shutil.rmtree(folder, ignore_errors=True)
    LOG.unlink(missing_ok=True)
    (UNITS / MACHINE).unlink(missing_ok=True)
    if systemd_runs():
        run("systemctl", "daemon-reload", fails=True)
    differs = stays + (differences(before, fingerprint()) if before is not None else [])
    shutil.rmtree(STATE)
    print(json.dumps(differs))
    return CHANGED if differs else 0


def guard(experiment: str) -> int:
    """Wait for the end of the lease, which may change, then release; for hosts without systemd."""
    while (holder := _holder()) is not None and holder["experiment"] == experiment:
        left_s = _parse_time(holder["expires"]) - time.time()
        if left_s <= 0:
            (STATE / "guard").unlink(missing_ok=True)  # so that `release` does not end this process
            return release()
        time.sleep(min(left_s, 5.0))
    return 0


def _arm_end(experiment: str, expires: str) -> None:
    if systemd_runs():
        (UNITS / "sparecraft-host-end.service").write_text(
            "[Unit]\nDescription=Sparecraft: this host is given back\n[Service]\nType=oneshot\n"
            f"ExecStart=/usr/bin/python3 {STATE}/boot/host.py release {experiment}\n"
        )
        when = datetime.fromtimestamp(_parse_time(expires), UTC)
        (UNITS / "sparecraft-host-end.timer").write_text(
            f"[Timer]\nOnCalendar={when:%Y-%m-%d %H:%M:%S} UTC\nPersistent=true\n"
            "[Install]\nWantedBy=timers.target\n"
        )
        run("systemctl", "daemon-reload")
        run("systemctl", "enable", "--quiet", "--now", "sparecraft-host-end.timer")
    elif _pid("guard") is None:
        process = subprocess.Popen(
            [sys.executable, STATE / "boot" / "host.py", "guard", experiment],
            start_new_session=True, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        (STATE / "guard").write_text(f"{process.pid} {_start_time(process.pid)}")


def _disarm_end() -> None:
    if systemd_runs():
        # Stop it too: if its file is removed while it waits, the host has a failed unit.
        run("systemctl", "disable", "--quiet", "--now", "sparecraft-host-end.timer", fails=True)
        for kind in ("timer", "service"):
            (UNITS / f"sparecraft-host-end.{kind}").unlink(missing_ok=True)
        run("systemctl", "disable", "--quiet", MACHINE, fails=True)
    elif (pid := _pid("guard")) is not None:
        os.kill(pid, signal.SIGTERM)


def _end_install(pid: int) -> None:
    """Stop an installation after its current package operation.

    A half-installed package is hard to remove, so apt-get and dpkg may finish first.
    """
    descendants = {process: _start_time(process) for process in _descendants(pid)}
    for process in (pid, *descendants):
        if process == pid or _command(process) in ("bash", "sh", "install.sh", "make-content.sh"):
            os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + _PACKAGES_S
    installing = {
        process: start_time
        for process, start_time in descendants.items()
        if _command(process) in _INSTALLERS
    }
    while any(
        _start_time(process) == start_time is not None for process, start_time in installing.items()
    ):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    for process, start_time in descendants.items():
        if _start_time(process) == start_time is not None:
            _kill_all(process)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _kill_all(pid: int) -> None:
    """Kill a process and its descendants, and wait for its end."""
    started = _start_time(pid)
    for process in (*_descendants(pid), pid):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + _STOP_S
    while started is not None and _start_time(pid) == started and time.monotonic() < deadline:
        time.sleep(0.05)


def _terminate() -> None:
    pid = _pid()
    if systemd_runs():
        run("systemctl", "stop", MACHINE, fails=True)
    elif pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        while _pid() is not None and time.monotonic() < deadline:
            time.sleep(0.05)


def _holder() -> dict[str, str] | None:
    """Return the holder of the host; its name is "" if `take` was interrupted before naming it."""
    if not STATE.exists():
        return None
    try:
        holder: dict[str, str] = json.loads((STATE / "owner.json").read_text())
    except (FileNotFoundError, ValueError):
        return {"experiment": "", "expires": ""}
    return holder


def _pid(name: str = "pid") -> int | None:
    """Return the running process of a pid file; its start time excludes a reused number."""
    if name == "pid" and systemd_runs():
        output = run("systemctl", "show", "-p", "MainPID", "--value", MACHINE, fails=True)
        return int(output) if output.strip() not in ("", "0") else None
    try:
        pid, started = (int(number) for number in (STATE / name).read_text().split())
    except (FileNotFoundError, ValueError):
        return None
    return pid if _start_time(pid) == started else None


def _start_time(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _descendants(pid: int) -> list[int]:
    """List the descendants of a process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    descendants, generation = [], [pid]
    while generation:
        generation = [child for child, parent in parents.items() if parent in generation]
        descendants += generation
    return descendants


def _parse_time(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
