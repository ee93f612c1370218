"""A disk that is really full: a tmpfs of a few pages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(directory: Path, size_kb: int = 256, files: int = 1000) -> Iterator[Path]:
    """A small file system at `directory`; skips the test where mounting is not permitted."""
    directory.mkdir()
    room = f"size={size_kb}k,nr_inodes={files + 1}"  # the directory itself takes one
    command = ["mount", "-t", "tmpfs", "-o", room, "tmpfs", str(directory)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        pytest.skip(f"may not mount a tmpfs here: {process.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Fill the disk with one file and return that file."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler
