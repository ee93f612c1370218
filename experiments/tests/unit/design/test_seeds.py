"""The seed of a run: stated, given, or another one each time; and it is said, to be given again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from experiments.cli import app
from experiments.design import load_design
from experiments.record.manifest import spec_json
from experiments.tests.spec_fixture import TOML, write

STATED = "seed = 20260101\n"
UNSTATED = TOML.replace(STATED, "")


def told(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_a_design_without_a_seed_has_another_each_time(tmp_path: Path) -> None:
    assert STATED in TOML
    folder = write(tmp_path, toml=UNSTATED)
    seen = {load_design(folder).experiment.design.seed for _ in range(3)}
    assert len(seen) > 1


def test_the_manifest_has_the_seed_that_was_drawn(tmp_path: Path) -> None:
    design = load_design(write(tmp_path, toml=UNSTATED))
    assert spec_json(design)["design"]["seed"] == design.experiment.design.seed
    assert not design.experiment.design.seed_is_stated


def test_a_seed_that_is_given_goes_before_the_designs(tmp_path: Path) -> None:
    for toml in (TOML, UNSTATED):
        own = load_design(write(tmp_path, toml=toml), seed=5).experiment.design
        assert (own.seed, own.seed_is_stated) == (5, True)
    assert load_design(write(tmp_path)).experiment.design.seed == 20260101


def test_check_and_a_dry_run_say_the_seed_and_whether_the_next_run_has_it(tmp_path: Path) -> None:
    folder = str(write(tmp_path, toml=UNSTATED))
    assert told("check", folder)["seed"]["stated"] is False
    given = told("run", folder, "--dry-run", "--seed", "5")
    assert given["seed"] == {"value": 5, "stated": True}
    assert told("run", folder, "--dry-run", "--seed", "5")["disturbances"] == given["disturbances"]
