"""The guides of agents/nodeagent/README.md and agents/arbiter/README.md, followed as written.

A fault and a policy are added to a copy of the workspace, it is built, and the programs print them
as ci/contracts would write them down.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from experiments.paths import ROOT

AGENTS = ROOT / "agents"
GUIDES = ("nodeagent/README.md", "arbiter/README.md")
# Always the same place, so that a second build compiles only the changed crates.
COPY = AGENTS / "target" / "guides"
STEPS_MAX = 3


def steps(title: str) -> list[str]:
    """The numbered steps under a heading of the guides, each on one line."""
    text = "\n".join((AGENTS / path).read_text() for path in GUIDES)
    section = text.split(f"\n## {title}\n", 1)[1].split("\n#", 1)[0]
    numbered = re.findall(r"^\d\. (.*?)(?=^\d\. |\Z)", section, flags=re.DOTALL | re.MULTILINE)
    return [" ".join(step.split()) for step in numbered]


def add_line(path: Path, after: str, line: str) -> None:
    """Put `line` below the first line that begins with `after`."""
    lines = path.read_text().splitlines(keepends=True)
    index = next(number for number, text in enumerate(lines) if text.startswith(after))
    lines.insert(index + 1, f"{line}\n")
    path.write_text("".join(lines))


def add_copy(old: str, new: str, *renamed: tuple[str, str]) -> None:
    """Copy a source file to another one, with names in it replaced."""
    text = (COPY / old).read_text()
    for name, replacement in renamed:
        assert name in text
        text = text.replace(name, replacement)
    (COPY / new).write_text(text)


def add_fault() -> None:
    names = ("InterferenceCpu", "CpuSpin"), ("interference.cpu", "cpu.spin")
    faults = "nodeagent/src/faults"
    add_copy(f"{faults}/interference_cpu.rs", f"{faults}/cpu_spin.rs", *names)
    add_line(COPY / faults / "mod.rs", "faults! {", "    cpu_spin: CpuSpin;")


def add_policy() -> None:
    names = ('"random"', '"any-other"')
    add_copy("policy/src/random.rs", "policy/src/any_other.rs", names)
    add_line(COPY / "policy/src/lib.rs", "mod least_outstanding;", "mod any_other;")
    add_line(COPY / "policy/src/lib.rs", "const ALL:", "    &any_other::RULE,")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs, built with an additional fault and policy."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(AGENTS, COPY, ignore=shutil.ignore_patterns("target"))
    add_fault()
    add_policy()
    target = AGENTS / "target"
    command = ["cargo", "build", "--quiet", "--locked", "-p", "nodeagent", "-p", "arbiter"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    built = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return target / "debug"


def printed(program: Path, argument: str) -> Any:
    process = subprocess.run([program, argument], capture_output=True, text=True, check=True)
    return json.loads(process.stdout)


@pytest.mark.parametrize("title", ["Add a fault", "Add a policy"])
def test_a_guide_has_few_steps_and_names_files_that_are_there(title: str) -> None:
    guide_steps = steps(title)
    assert 1 <= len(guide_steps) <= STEPS_MAX
    mentioned = re.findall(r"`((?:nodeagent|policy)/[\w/]+\.rs)`", " ".join(guide_steps))
    paths = [path for path in mentioned if "NAME" not in path]
    assert paths
    assert all((AGENTS / path).is_file() for path in paths), paths


@pytest.mark.long
def test_a_fault_is_its_file_and_one_line(programs: Path) -> None:
    faults = {
        fault["kind"]: fault for fault in printed(programs / "nodeagent", "--kinds")["faults"]
    }
    interference = faults["interference.cpu"]
    assert faults["cpu.spin"] == {**interference, "kind": "cpu.spin", "group": "fault"}


@pytest.mark.long
def test_a_policy_is_its_file_and_two_lines(programs: Path) -> None:
    policies = printed(programs / "arbiter", "--policies")["policies"]
    assert "any-other" in [policy["name"] for policy in policies]
    assert len(policies) == len({policy["name"] for policy in policies})
