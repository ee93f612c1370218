"""The part of the bundle that machines of one role need."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

_ALL = ("boot/", "bin/")


def pack_roles(bundle: Path, roles: Iterable[str]) -> dict[str, bytes]:
    """Return an archive for each role. The bundle is read once."""
    buffers = {role: io.BytesIO() for role in roles}
    with ExitStack() as files:
        archives = {
            role: files.enter_context(tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1))
            for role, buffer in buffers.items()
        }
        source = files.enter_context(tarfile.open(bundle))
        for member in source:
            name = member.name.removeprefix("./")
            for role, archive in archives.items():
                if name.startswith((*_ALL, f"roles/{role}/")):
                    archive.addfile(member, source.extractfile(member) if member.isfile() else None)
    return {role: buffer.getvalue() for role, buffer in buffers.items()}
