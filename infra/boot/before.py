"""State of a host before it was taken, and its comparison with the present state.

The state covers packages, /etc and a few other folders, and is independent of roles.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

STATE = Path("/var/lib/sparecraft-host")
HOME = Path("/opt/sparecraft")
LOG = Path("/var/log/sparecraft.log")
# Folders whose entries come and go with packages and install.sh. Deeper entries are not compared.
_PLACES = (
    *("/opt", "/srv", "/home", "/root", "/usr/bin", "/usr/sbin", "/usr/local/bin"),
    *("/usr/local/sbin", "/usr/local/lib", "/var/cache", "/var/lib", "/var/log", "/var/tmp"),
)
_OWN = (STATE, HOME, LOG)
_PER_BOOT = "systemd-private-"  # a folder of /var/tmp for each service, named by the boot
_NET = Path("/sys/class/net")


def note(before: dict[str, Any]) -> None:
    """Save the state and an archive of /etc."""
    write(STATE / "before.json", before)
    run("tar", "-C", "/", "-cf", str(STATE / "etc.tar"), "etc")
    (STATE / "noted").touch()


def load_note() -> dict[str, Any] | None:
    """Load the saved state; None if taking the host was interrupted before any change."""
    if not (STATE / "noted").exists():
        return None
    before: dict[str, Any] = json.loads((STATE / "before.json").read_text())
    return before


def fingerprint() -> dict[str, Any]:
    """Read the state of the host, as far as a role can change it, in readable form."""
    return {
        "packages": packages(),
        "etc": {str(path): _digest(path) for path in sorted(Path("/etc").rglob("*"))},
        "entries": entries(_PLACES),
        "links": without_bridges(run("ip", "-brief", "link").split("\n")),
        "addresses": without_bridges(run("ip", "-brief", "address").split("\n")),
        "qdiscs": run("tc", "qdisc", "show", fails=True).split("\n"),
        "tables": run("nft", "list", "tables", fails=True).split("\n"),
        "listening": _listening(),
    }


def entries(folders: Iterable[str]) -> list[str]:
    """List the files of folders, without our own and those that each boot recreates."""
    return sorted(
        str(path)
        for folder in folders
        if Path(folder).is_dir()
        for path in Path(folder).iterdir()
        if path not in _OWN and not path.name.startswith(_PER_BOOT)
    )


def without_bridges(lines: Iterable[str], net: Path = _NET) -> list[str]:
    """Return the lines of links that are neither a bridge nor a port of one.

    Bridges belong to containers and virtual machines, and get another address at each boot.
    """
    return [
        line
        for line in lines
        if line and not any((net / _name(line) / kind).exists() for kind in ("bridge", "brport"))
    ]


def _name(line: str) -> str:
    return line.split()[0].split("@")[0]


def packages() -> list[str]:
    """List name, version and status of each package that dpkg knows."""
    fields = "${Package} ${Version} ${db:Status-Status}\n"
    return sorted(run("dpkg-query", "-W", "-f", fields).split("\n"))


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Describe the differences of two states, one line each."""
    lines = []
    for key, was in before.items():
        now = after[key]
        if isinstance(was, dict):
            changed = sorted(k for k in {*was, *now} if was.get(k) != now.get(k))
            lines += [f"{key}: {path}" for path in changed]
        elif isinstance(was, list):
            lines += [f"{key}: no longer {entry}" for entry in was if entry not in now]
            lines += [f"{key}: now {entry}" for entry in now if entry not in was]
        elif was != now:
            lines.append(f"{key}: {was!r} became {now!r}")
    return lines


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    if path.is_dir():
        return "folder"
    if not path.is_file():
        return "special"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _listening() -> list[str]:
    rows = run("ss", "-Hltn", fails=True).split("\n")
    return sorted({row.split()[3] for row in rows if row})


def write(file: Path, content: object) -> None:
    """Write JSON to a file atomically."""
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(content))
    draft.rename(file)


def run(*command: str, fails: bool = False) -> str:
    """Run a command and return its output; exits the process if it fails, unless `fails` is set."""
    try:
        process = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False
        )
    except FileNotFoundError:
        if fails:
            return ""
        raise
    if process.returncode != 0 and not fails:
        sys.exit(f"{' '.join(command[:3])}: {process.stderr.strip() or process.stdout.strip()}")
    return process.stdout.strip()
