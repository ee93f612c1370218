"""A run's folder as far as `sparecraft adopt` reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
