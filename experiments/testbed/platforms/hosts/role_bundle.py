"""The part of the bundle that machines of one role need."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

_ALL = ("boot/", "bin/")


def packed(bundle: Path, roles: Iterable[str]) -> dict[str, bytes]:
    """Role to an archive. The bundle is read once."""
    made = {role: io.BytesIO() for role in roles}
    with ExitStack() as open_ones:
        archives = {
            role: open_ones.enter_context(tarfile.open(fileobj=out, mode="w:gz", compresslevel=1))
            for role, out in made.items()
        }
        whole = open_ones.enter_context(tarfile.open(bundle))
        for member in whole:
            name = member.name.removeprefix("./")
            for role, archive in archives.items():
                if name.startswith((*_ALL, f"roles/{role}/")):
                    archive.addfile(member, whole.extractfile(member) if member.isfile() else None)
    return {role: out.getvalue() for role, out in made.items()}
