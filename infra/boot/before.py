"""What a host was before it was taken, what it is now, and the way back: packages, /etc, and what
lies beside them. Found by comparing, whatever a role's install.sh does."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

KEPT = Path("/var/lib/sparecraft-host")
HOME = Path("/opt/sparecraft")
LOG = Path("/var/log/sparecraft.log")
# Whose entries come and go with packages and install.sh. What is below them is their owner's.
_PLACES = (
    *("/opt", "/srv", "/home", "/root", "/usr/bin", "/usr/sbin", "/usr/local/bin"),
    *("/usr/local/sbin", "/usr/local/lib", "/var/cache", "/var/lib", "/var/log", "/var/tmp"),
)
_OWN = (KEPT, HOME, LOG)
# Files of /etc that a purge itself writes, besides install.sh.
_ACCOUNTS = ("passwd", "group", "shadow", "gshadow", "ld.so.cache", "subuid", "subgid")


def note(before: dict[str, Any]) -> None:
    """Keep it, and all of /etc."""
    write(KEPT / "before.json", before)
    run("tar", "-C", "/", "-cf", str(KEPT / "etc.tar"), "etc")
    (KEPT / "noted").touch()


def noted() -> dict[str, Any] | None:
    """What the host was; None where taking it was cut off, and nothing was changed."""
    if not (KEPT / "noted").exists():
        return None
    before: dict[str, Any] = json.loads((KEPT / "before.json").read_text())
    return before


def restore(before: dict[str, Any]) -> None:
    """The way back."""
    _purge(before)
    _remove_new(before)
    _restore_etc(before)
    _remove_qdiscs(before)


def fingerprint() -> dict[str, Any]:
    """What a person would call the state of the host, as far as a role could change it."""
    packages = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n").split(
        "\n"
    )
    return {
        "packages": sorted(packages),
        "etc": {str(path): _digest(path) for path in sorted(Path("/etc").rglob("*"))},
        "entries": sorted(
            str(path)
            for place in _PLACES
            if Path(place).is_dir()
            for path in Path(place).iterdir()
            if path not in _OWN
        ),
        "links": run("ip", "-brief", "link").split("\n"),
        "addresses": run("ip", "-brief", "address").split("\n"),
        "qdiscs": run("tc", "qdisc", "show", fails=True).split("\n"),
        "rules": run("nft", "--stateless", "list", "ruleset", fails=True),
        "listening": _listening(),
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """In words, a line for each thing."""
    found = []
    for key, was in before.items():
        now = after[key]
        if isinstance(was, dict):
            changed = sorted(k for k in {*was, *now} if was.get(k) != now.get(k))
            found += [f"{key}: {one}" for one in changed]
        elif isinstance(was, list):
            found += [f"{key}: no longer {one}" for one in was if one not in now]
            found += [f"{key}: now {one}" for one in now if one not in was]
        elif was != now:
            found.append(f"{key}: {was!r} became {now!r}")
    return found


def _after() -> dict[str, Any] | None:
    """The state right after the installation; none where it was aborted."""
    file = KEPT / "after.json"
    return json.loads(file.read_text()) if file.exists() else None


def _purge(before: dict[str, Any]) -> None:
    ours = set(fingerprint()["packages"]) - set(before["packages"])
    known = {line.split()[0] for line in before["packages"] if line.endswith(" installed")}
    names = sorted({line.split()[0] for line in ours if line} - known)
    if names:
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        run("dpkg", "--configure", "-a", fails=True)  # an installation that was cut off
        # All of them at once, so that whatever depends on them is among them.
        run("dpkg", "--purge", "--force-depends", "--force-remove-reinstreq", *names, fails=True)


def _remove_new(before: dict[str, Any]) -> None:
    after = _after()
    for entry in set(fingerprint()["entries"]) - set(before["entries"]):
        if after is not None and entry not in after["entries"]:
            continue  # somebody else's
        _remove(Path(entry))


def _restore_etc(before: dict[str, Any]) -> None:
    """Each path of /etc that the installation changed, and nobody since."""
    after, was, now = _after(), before["etc"], fingerprint()["etc"]
    back = []
    for path in sorted({*was, *now}, reverse=True):  # what is in a folder before the folder
        if was.get(path) == now.get(path) or _changed_since(path, now, after):
            continue
        if path in was:
            back.append(path.lstrip("/"))
        else:
            _remove(Path(path))
    if back:
        run("tar", "-C", "/", "-xf", str(KEPT / "etc.tar"), *sorted(back))


def _remove_qdiscs(before: dict[str, Any]) -> None:
    """What shaped a data interface; the kernel's own is there again then."""
    for line in set(fingerprint()["qdiscs"]) - set(before["qdiscs"]):
        words = line.split()
        if "root" in words and "dev" in words:
            run("tc", "qdisc", "del", "dev", words[words.index("dev") + 1], "root", fails=True)


def _changed_since(path: str, now: dict[str, str], after: dict[str, Any] | None) -> bool:
    if path.removeprefix("/etc/").rstrip("-") in _ACCOUNTS or after is None or path not in now:
        return False
    return now[path] != "folder" and bool(after["etc"].get(path) != now[path])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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


def write(file: Path, what: object) -> None:
    """JSON, whole or not at all."""
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(what))
    draft.rename(file)


def run(*command: str, fails: bool = False) -> str:
    """What a command says; this process ends where it fails, unless it may."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        if fails:
            return ""
        raise
    if done.returncode != 0 and not fails:
        sys.exit(f"{' '.join(command[:3])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
