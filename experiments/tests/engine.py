"""The `docker` that tests call."""

from __future__ import annotations

import subprocess


def docker(*arguments: str, text: str = "") -> str:
    """Run docker and return its output; AssertionError where it fails."""
    process = subprocess.run(["docker", *arguments], input=text, capture_output=True, text=True)
    message = f"docker {' '.join(arguments)}: {process.stdout[-3000:]}{process.stderr[-3000:]}"
    assert process.returncode == 0, message
    return process.stdout
