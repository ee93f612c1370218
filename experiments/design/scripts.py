"""Checks of a role's scripts: they exist, are executable, and a shell can parse them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from core.errors import InputError
from experiments.design.fleet import Fleet
from experiments.design.roles import Role, Roles

_SOURCED = "# shellcheck shell="  # the begin of a file that other scripts source


def script_errors(fleet: Fleet, roles: Roles) -> Iterator[InputError]:
    """Yield the errors in the files of the roles in use."""
    for name in dict.fromkeys(tier.role for tier in fleet.tiers.values()):
        role = roles[name]
        image_role = role if role.image_of is None else roles[role.image_of]
        stock = image_role.is_stock or all(
            tier.image for tier in fleet.tiers.values() if tier.role == name
        )
        if not stock and not (image_role.directory / "Dockerfile").is_file():
            yield InputError(
                str(image_role.directory),
                expected="a Dockerfile, or in role.json an `image` or `context` to stand on",
                got="none of them",
                hint="Add one.",
            )
        yield from _folder_errors(image_role)


def _folder_errors(role: Role) -> Iterator[InputError]:
    for script in sorted(role.directory.glob("*.sh")):
        if not os.access(script, os.X_OK) and not _first_line(script).startswith(_SOURCED):
            yield InputError(
                str(script), expected="an executable file", got="another", hint=f"chmod +x {script}"
            )
        yield from _syntax_errors(script)


def _first_line(script: Path) -> str:
    return script.read_text(encoding="utf-8").partition("\n")[0]


def _syntax_errors(script: Path) -> Iterator[InputError]:
    first = _first_line(script)
    shell = "bash" if "bash" in first else "sh"
    if not first.startswith(("#!", _SOURCED)):
        yield InputError(
            f"{script}:1", expected="#! and an interpreter", got=repr(first), hint="Add it."
        )
    process = subprocess.run(
        [shell, "-n", str(script)], capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        yield InputError(
            str(script),
            expected=f"a script that {shell} can read",
            got=process.stderr.strip().removeprefix(f"{script}: "),
            hint="Correct it.",
        )
