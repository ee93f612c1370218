"""Parts of images that are made when they are needed, by a script or with its error."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from core.errors import EnvironmentMissing


def make(command: Sequence[str | Path], place: str, *, expected: str, hint: str) -> list[str]:
    """Run a script of ours; returns its output. Raises EnvironmentMissing if it fails."""
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    if process.returncode != 0:
        got = (process.stdout + process.stderr)[-2000:].strip()
        raise EnvironmentMissing(place, expected=expected, got=got, hint=hint)
    return process.stdout.splitlines()
