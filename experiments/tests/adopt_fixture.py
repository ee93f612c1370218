"""A run's folder as far as `sparecraft adopt` reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from experiments.design import load_design
from experiments.record.manifest import spec_json
from experiments.tests.planned_fixture import prediction
from experiments.tests.spec_fixture import TFVARS, TOML, write

RUN = "20261119T090000Z"


def source_run(folder: Path, fleet: str = TFVARS, toml: str = TOML, **plan: Any) -> Path:
    """A run's folder as far as adopt reads it."""
    design = load_design(write(folder, fleet, toml))
    manifest = {"schema": 1, "run": RUN, "spec": spec_json(design)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "plan.json").write_text(json.dumps(prediction(**plan)))
    return folder


def measured_run(
    folder: Path,
    more: str = "",
    *,
    arms: Sequence[str] = ("baseline", "replicated"),
    rounds: int = 4,
    toml: str = TOML,
) -> Path:
    """A run's folder with so many measured blocks of each arm; `more`: lines of fleet.tfvars."""
    source_run(folder, TFVARS + more, toml)
    rows = [(arm, index * len(arms) + k) for index in range(rounds) for k, arm in enumerate(arms)]
    blocks = pl.DataFrame(rows * 3, schema=["arm", "repeat"], orient="row")  # three requests each
    blocks.write_parquet(folder / "requests.parquet")
    return folder
