"""The `docker` that tests call."""

from __future__ import annotations

import subprocess


def docker(*arguments: str, text: str = "") -> str:
    """The output; an assertion where it fails."""
    done = subprocess.run(["docker", *arguments], input=text, capture_output=True, text=True)
    said = f"docker {' '.join(arguments)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    assert done.returncode == 0, said
    return done.stdout
