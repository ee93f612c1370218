"""Restoration of a host: undoes the changes of our installations, and keeps those of others.

Our changes are the differences between the states before and after each installation: packages,
entries of folders, paths of /etc, and lines of account files. The purge of packages counts too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from before import STATE, fingerprint, load_note, packages, run, write
from units import stop_units_of, unmask

_OURS, _BEGAN = STATE / "ours.json", STATE / "began.json"
_ACCOUNTS = ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")
_THEIRS = "theirs"  # of a path of /etc that others changed between two installations
_GONE = ("not-installed", "config-files")
# Folders that packages do not write; other folders may belong to a package that stays.
_NOT_OF_PACKAGES = ("/opt/", "/srv/", "/home/", "/root/", "/usr/local/", "/var/tmp/")


@contextmanager
def own_changes() -> Iterator[None]:
    """Record the changes that are made in this context as ours, also if it raises.

    If the process is killed, the changes until the next call or `restore` are recorded as ours.
    """
    _record_changes()
    write(_BEGAN, _read_state())
    try:
        yield
    finally:
        _record_changes()


def restore() -> list[str]:
    """Undo our changes. Returns a sentence for each package of ours that stays."""
    before = load_note()
    if before is None:
        return []
    with own_changes():
        stays = purge(_read_ours()["packages"])
        unmask()
    ours = _read_ours()
    _remove_new(before, ours, bool(stays))
    _restore_etc(before, ours, bool(stays))
    if not stays:
        _restore_accounts(ours["accounts"])
    _remove_qdiscs(before)
    return [f"packages: {name} is ours and stays: {why}" for name, why in stays.items()]


def purge(names: Iterable[str]) -> dict[str, str]:
    """Purge packages, except those that a package outside `names` needs.

    Returns the reason for each package that stays, by its name.
    """
    names = sorted(set(names))
    if not names:
        return {}
    os.environ.update(DEBIAN_FRONTEND="noninteractive", LC_ALL="C")
    run("dpkg", "--configure", "-a", fails=True)  # an installation that was cut off
    stop_units_of(sorted(set(names) - _needed_by_others(set(names))))
    # All at once: a package that depends on one of them is among them, or dpkg refuses that one.
    forced = ("--force-remove-reinstreq", f"--abort-after={len(names) + 1}")
    run("dpkg", "--purge", *forced, *names, fails=True)
    stay = _installed_names(packages()) & set(names)
    needed = _needed_by(set(names)) if stay else {}
    return {
        name: f"{', '.join(needed[name])} needs it" if name in needed else "dpkg left it there"
        for name in sorted(stay)
    }


def add_changes(ours: Mapping[str, Any], began: Mapping[str, Any], now: Mapping[str, Any]) -> Any:
    """Return `ours` with the changes between the states `began` and `now`."""
    etc = dict(ours["etc"])
    for path in {*etc, *began["etc"], *now["etc"]}:
        was, became = began["etc"].get(path), now["etc"].get(path)
        if path in etc and etc[path] != was:
            etc[path] = _THEIRS
        elif was != became:
            etc[path] = became
    lists = {
        key: sorted({*ours[key], *(set(now[key]) - set(began[key]))})
        for key in ("packages", "entries")
    }
    accounts = {
        file: _line_changes(ours["accounts"].get(file, _NO_LINES), began["accounts"][file], lines)
        for file, lines in now["accounts"].items()
        if file in began["accounts"]
    }
    return {**lists, "etc": etc, "accounts": accounts}


def merge_lines(now: list[str], ours: Mapping[str, list[str]]) -> list[str]:
    """Return the lines of an account file without those we added, and with those we removed."""
    remaining = [line for line in now if line not in ours["added"]]
    names = {line.split(":")[0] for line in remaining}
    return [*remaining, *(line for line in ours["removed"] if line.split(":")[0] not in names)]


_NO_LINES: Mapping[str, list[str]] = {"added": [], "removed": []}
_NOTHING: Mapping[str, Any] = {"packages": [], "entries": [], "etc": {}, "accounts": {}}


def _line_changes(
    ours: Mapping[str, list[str]], began: list[str], now: list[str]
) -> dict[str, list[str]]:
    came = [line for line in now if line not in began]
    went = [line for line in began if line not in now]
    new = [line for line in came if line not in ours["removed"]]
    old = [line for line in went if line not in ours["added"]]
    return {
        "added": [line for line in ours["added"] if line not in went] + new,
        "removed": [line for line in ours["removed"] if line not in came] + old,
    }


def _record_changes() -> None:
    if _BEGAN.exists():
        write(_OURS, add_changes(_read_ours(), json.loads(_BEGAN.read_text()), _read_state()))
        _BEGAN.unlink()


def _read_ours() -> Any:
    return json.loads(_OURS.read_text()) if _OURS.exists() else _NOTHING


def _read_state() -> dict[str, Any]:
    state = fingerprint()
    return {
        "packages": sorted(_installed_names(state["packages"])),
        "entries": state["entries"],
        "etc": state["etc"],
        "accounts": {
            name: _read_lines(Path("/etc") / name)
            for name in _ACCOUNTS
            if (Path("/etc") / name).exists()
        },
    }


def _installed_names(lines: Iterable[str]) -> set[str]:
    """Return the packages of which more than configuration files is present."""
    rows = (line.split() for line in lines if line)
    return {row[0] for row in rows if row[-1] not in _GONE}


def _needed_by_others(ours: set[str]) -> set[str]:
    """Return those of our packages that others need, directly or through ours."""
    needed: set[str] = set()
    while more := set(_needed_by(ours - needed)):
        needed |= more
    return needed


def _needed_by(ours: set[str]) -> dict[str, list[str]]:
    """Return those of our packages that others need directly, with the names of these."""
    dependents: dict[str, list[str]] = {}
    fields = "${Package}\t${db:Status-Status}\t${Pre-Depends}, ${Depends}\n"
    for line in run("dpkg-query", "-W", "-f", fields).splitlines():
        name, status, needs = line.split("\t")
        if name in ours or status in _GONE:
            continue
        names = re.split(r"[,|]|\([^)]*\)|:\w+", needs)
        for needed in ours & {word.strip() for word in names}:
            dependents.setdefault(needed, []).append(name)
    return dependents


def _remove_new(before: Mapping[str, Any], ours: Mapping[str, Any], is_kept: bool) -> None:
    present = set(fingerprint()["entries"])
    new = sorted((set(ours["entries"]) & present) - set(before["entries"]))
    for path in set(new) - _owned_by_packages(new):
        if not (is_kept and not path.startswith(_NOT_OF_PACKAGES)):
            _remove(Path(path))


def _restore_etc(before: Mapping[str, Any], ours: Mapping[str, Any], is_kept: bool) -> None:
    """Restore each path of /etc that we changed and nobody changed since."""
    was, now = before["etc"], fingerprint()["etc"]
    accounts = {f"/etc/{name}" for name in ours["accounts"]}
    changed = [
        path
        for path, became in ours["etc"].items()
        if now.get(path) == became != was.get(path) and path not in accounts
    ]
    if not is_kept:
        new = {path for path in changed if path not in was}
        for path in sorted(
            new - _owned_by_packages(new), reverse=True
        ):  # a folder after its contents
            _remove_etc(Path(path))
    _unpack(path for path in changed if path in was)
    if is_kept:
        run("ldconfig", fails=True)  # of libraries that stay too


def _restore_accounts(ours: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Undo our lines in account files.

    If nobody else changed a file, it is restored with its time.
    """
    for name, lines in ours.items():
        file = Path("/etc") / name
        now, was = _read_lines(file), _read_packed(f"etc/{name}").splitlines()
        lines_wanted = merge_lines(now, lines)
        if sorted(lines_wanted) == sorted(was):
            _unpack([str(file)])
        elif lines_wanted != now:
            file.write_text("\n".join(lines_wanted) + "\n", errors="surrogateescape")


def _remove_qdiscs(before: Mapping[str, Any]) -> None:
    """Remove our qdiscs from data interfaces; the kernel's default returns."""
    for line in set(fingerprint()["qdiscs"]) - set(before["qdiscs"]):
        fields = line.split()
        if "root" in fields and "dev" in fields:
            run("tc", "qdisc", "del", "dev", fields[fields.index("dev") + 1], "root", fails=True)


def _owned_by_packages(paths: Iterable[str]) -> set[str]:
    """Return those of the paths that belong to installed packages."""
    owners = {name: path for path in paths for name in (path, path.removeprefix("/usr"))}
    if not owners:
        return set()
    output = run("dpkg-query", "-S", *owners, fails=True)
    return {
        owners[path] for line in output.split("\n") if (path := line.rpartition(": ")[2]) in owners
    }


def _unpack(paths: Iterable[str]) -> None:
    members = sorted(path.lstrip("/") for path in paths)
    if members:
        run("tar", "-C", "/", "--no-recursion", "-xf", str(STATE / "etc.tar"), *members)


def _read_packed(member: str) -> str:
    return run("tar", "-xOf", str(STATE / "etc.tar"), member, fails=True)


def _read_lines(file: Path) -> list[str]:
    return file.read_text(errors="surrogateescape").splitlines()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_etc(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    elif not any(path.iterdir()):
        path.rmdir()
