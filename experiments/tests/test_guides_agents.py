"""The guides of agents/README.md, followed to the letter.

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

AGENTS = Path(__file__).parents[2] / "agents"
# Always the same place, so that a second build is of the changed crates alone.
COPY = AGENTS / "target" / "guides"
STEPS_MAX = 3

FAULT = """\
//! `disk.fill`: a file that takes up room.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::parameter::{Default, Parameter};
use super::{Fault, Refusal};
use crate::machine::Machine;

pub struct DiskFill;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    file: PathBuf,
    bytes: u64,
}

impl Fault for DiskFill {
    const KIND: &'static str = "disk.fill";
    const SUMMARY: &'static str = "a file that takes up room";
    const PARAMETERS: &'static [Parameter] = &[Parameter::integer("bytes", "its size")
        .in_unit("B")
        .at_least(1.0)
        .at_most(1e9)
        .or(Default::Number(1e6))];
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, _machine: &Machine) -> Result<(), String> {
        Ok(())
    }

    fn plan(
        &self,
        machine: &Machine,
        id: &str,
        parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        let file = machine.config.state_dir.join(format!("fill-{id}"));
        Ok(Record { file, bytes: parameters.bytes })
    }

    fn inject(&self, _machine: &Machine, record: &Record) -> Result<()> {
        Ok(std::fs::write(&record.file, vec![0; record.bytes as usize])?)
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        match std::fs::remove_file(&record.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}
"""

POLICY = """\
//! Longest idle: the server that was chosen longest ago.

use crate::policy::{Finds, Rule};

pub(crate) const RULE: Rule = Rule::new(
    "longest-idle",
    "when a server was chosen last",
    Finds::Ranked(|server, _| server.turn),
);
"""


def steps(title: str) -> list[str]:
    """The numbered steps under a bold title of the README, each on one line."""
    text = (AGENTS / "README.md").read_text()
    section = text.split(f"**{title}**", 1)[1].split("\n**", 1)[0]
    found = re.findall(r"^\d\. (.*?)(?=^\d\. |\Z)", section, flags=re.DOTALL | re.MULTILINE)
    return [" ".join(step.split()) for step in found]


def add_line(path: Path, after: str, line: str) -> None:
    """Put `line` below the first line that begins with `after`."""
    lines = path.read_text().splitlines(keepends=True)
    place = next(i for i, text in enumerate(lines) if text.startswith(after))
    lines.insert(place + 1, f"{line}\n")
    path.write_text("".join(lines))


def add_fault() -> None:
    (COPY / "nodeagent/src/faults/disk_fill.rs").write_text(FAULT)
    add_line(COPY / "nodeagent/src/faults/mod.rs", "faults! {", "    disk_fill::DiskFill,")


def add_policy() -> None:
    (COPY / "policy/src/longest_idle.rs").write_text(POLICY)
    add_line(COPY / "policy/src/lib.rs", "mod least_outstanding;", "mod longest_idle;")
    add_line(COPY / "policy/src/lib.rs", "const ALL:", "    &longest_idle::RULE,")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs, built with one fault and one policy more."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(AGENTS, COPY, ignore=shutil.ignore_patterns("target", "fuzz"))
    add_fault()
    add_policy()
    target = AGENTS / "target"
    command = ["cargo", "build", "--quiet", "--locked", "-p", "nodeagent", "-p", "arbiter"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    built = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return target / "debug"


def printed(program: Path, argument: str) -> Any:
    done = subprocess.run([program, argument], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("title", ["Add a fault.", "Add a policy."])
def test_a_guide_has_few_steps_and_names_files_that_are_there(title: str) -> None:
    found = steps(title)
    assert 1 <= len(found) <= STEPS_MAX
    named = re.findall(r"`((?:nodeagent|policy)/[\w/]+\.rs)`", " ".join(found))
    there = [path for path in named if "NAME" not in path]
    assert there
    assert all((AGENTS / path).is_file() for path in there), there


def test_a_fault_is_its_file_and_one_line(programs: Path) -> None:
    faults = {
        fault["kind"]: fault for fault in printed(programs / "nodeagent", "--kinds")["faults"]
    }
    assert faults["disk.fill"] == {
        "kind": "disk.fill",
        "group": "fault",
        "summary": "a file that takes up room",
        "stops_service": False,
        "parameters": [
            {
                "name": "bytes",
                "summary": "its size",
                "type": "integer",
                "unit": "B",
                "required": False,
                "default": 1000000,
                "minimum": 1,
                "maximum": 1000000000,
            }
        ],
    }


def test_a_policy_is_its_file_and_two_lines(programs: Path) -> None:
    policies = printed(programs / "arbiter", "--policies")["policies"]
    assert "longest-idle" in [policy["name"] for policy in policies]
    assert len(policies) == len({policy["name"] for policy in policies})
