"""A design as text, which tests change, and the folder that it is written to."""
# ruff: noqa: E501  (a machine is one line)

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from experiments.commands.check import check_design
from experiments.design import Design, load_design
from experiments.design.design import find_design
from experiments.tests.started import executable

TFVARS = """\
# the fleet
experiment = "mediawiki-noisy"
scheme     = "on-prem"
tiers = {
  web = { role = "mediawiki", calls = ["db"], nodes = 4, standby = 1, cpus = 0.6, memory_mb = 512, nic_mbps = 200, disk_mbps = 80, instance_type = "t3.small" }
  db  = {
    role = "mariadb"
    nodes = 3
    cpus = 1
    memory_mb = 512, nic_mbps = 200, disk_mbps = 80
    instance_type = "t3.small"
  }
}
arbiters = {
  web = { tokens = 1 }
  db  = { tokens = 12 }
}
"""

TOML = """\
[load]
user = "wiki-reader"
arrivals = "poisson"
rate_per_s = 5  # pages
[phases]
warm_up = 15
measure = 60
[interference]
pattern = "both"
kinds = ["cpu", "iperf"]
[[faults]]
kind = "process.crash"
select = { tier = "web", count = 1 }
at_s = 10.0
for_s = 15.0
[[faults]]
kind = "net.limp"
select = { machine = "db-2" }
at_s = 20.0
sticky = true
parameters = { factor = 10 }
[arms.baseline]
[arms.replicated.settings]
web = { policy = "tad", replicas = 2, tokens = 1 }
db = { policy = "tad", replicas = 1, tokens = 12 }
[slo]
availability = 0.999
p95_ms = 500.0
p99_ms = 1000.0
max_error_share = 0.01
[design]
order = "ABBA"
repeats = 2
seed = 20260101
"""


def write(directory: Path, tfvars: str = TFVARS, toml: str = TOML) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "fleet.tfvars").write_text(tfvars)
    (directory / "experiment.toml").write_text(toml)
    return directory


def design(directory: Path) -> Design:
    return load_design(write(directory))


def role(design: Path, name: str, stated: Mapping[str, Any], *more: str) -> Path:
    """Write a role of the design's own; `more` are files beside its scripts."""
    folder = design / "roles" / name
    folder.mkdir(parents=True)
    (folder / "role.json").write_text(json.dumps(stated, indent=2))
    for script in ("start.sh", "ready.sh", *more):
        executable(folder / script, "#!/bin/sh\nexec true\n")
    return folder


def refused(folder: Path, name: str, old: str, new: str) -> InputError:
    """Replace `old` with `new` in a supplied design's experiment; return the refusal."""
    directory, case = find_design(name)
    path = Path(shutil.copytree(directory, folder / directory.name)) / "experiment.toml"
    text = path.read_text()
    begin = text.index(f'name = "{name}"') if case else 0  # the case's own text, then all
    start = text.index(old, begin) if old in text[begin:] else text.index(old)
    path.write_text(text[:start] + text[start:].replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        check_design(load_design(folder / name))
    return caught.value
