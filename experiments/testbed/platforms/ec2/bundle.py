"""The bundle for instances, packed by `ci/bundle` of the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

from core.errors import EnvironmentMissing
from experiments.console import Narrator
from experiments.design import Design

_MODULES_BELOW = 3  # infra/stacks/ec2


def pack(stack: Path, design: Design, narrator: Narrator) -> None:
    """Pack the bundle, with the design's own roles. The same files give the same archive, which
    changes no machine. Does nothing if the stack is in no checkout. Raises EnvironmentMissing."""
    program = stack.resolve().parents[_MODULES_BELOW - 1] / "ci" / "bundle"
    if not program.exists():
        return
    roles = design.directory.resolve() / "roles"
    command = [str(program), *([str(roles)] if any(roles.glob("*/role.json")) else [])]
    with narrator.step("Packing what machines are made of (ci/bundle)"):
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    for line in process.stdout.splitlines():
        narrator.detail(line)
    if process.returncode != 0:
        raise EnvironmentMissing(
            "ci/bundle",
            expected="roles, agents and Python in build/bundle",
            got=process.stderr.strip()[-2000:] or f"exit code {process.returncode}",
            hint="Correct the named problem (`make build` makes the agents), then call again.",
        )
