"""`sparecraft check --deep` on Docker: the smallest fleet answers each operation, and is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.commands.init import make_design
from experiments.tests.called import sparecraft
from experiments.tests.fleets import nothing_stays

NAME = "tst-deep"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_operation_is_asked_once_and_nothing_stays(tmp_path: Path) -> None:
    design = tmp_path / NAME
    make_design(design)
    toml = design / "experiment.toml"
    operation = '[[load.operations]]\nname = "wrong"\npath = "/none"\n\n[phases]'
    toml.write_text(toml.read_text().replace("[phases]", operation, 1))
    with nothing_stays(f"{NAME}-check"):
        process = sparecraft("check", str(design), "--deep", "--json")
    assert process.returncode == 1, process.stderr
    replies = {reply["operation"]: reply for reply in json.loads(process.stdout)["asked"]}
    assert (replies["flag"]["outcome"], replies["flag"]["status"]) == ("ok", 200)
    assert replies["flag"]["begin"].startswith("<!doctype html>")
    assert (replies["wrong"]["outcome"], replies["wrong"]["status"]) == ("bad_status", 404)
