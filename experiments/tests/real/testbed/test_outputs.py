"""Outputs of an applied configuration, read by the real Terraform; no provider is needed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.testbed import attach
from experiments.testbed.attach import read_outputs
from experiments.testbed.platforms.terraform import outputs
from experiments.tests.applied_fleet import IDENTITY, fleet

WORKSPACE = "another"


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose workspace WORKSPACE was applied, and which selects the default one."""
    monkeypatch.delenv("TF_WORKSPACE", raising=False)
    values = {"fleet": fleet(), "identity": IDENTITY}
    output_values = {name: {"value": value, "sensitive": True} for name, value in values.items()}
    (tmp_path / "main.tf.json").write_text(json.dumps({"output": output_values}))
    for arguments in (["init"], ["workspace", "new", WORKSPACE], ["apply", "-auto-approve"]):
        command = ["terraform", f"-chdir={tmp_path}", *arguments]
        subprocess.run(command, check=True, capture_output=True, env=os.environ)
    selected = ["terraform", f"-chdir={tmp_path}", "workspace", "select", "default"]
    subprocess.run(selected, check=True, capture_output=True)
    return tmp_path


def test_a_workspace_is_read_by_name_and_a_folder_in_the_one_that_is_selected(
    applied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "_local_stack", lambda: applied)
    assert read_outputs(WORKSPACE).identity.influxdb_login == IDENTITY["influxdb_login"]
    with pytest.raises(InputError) as caught:  # nothing was applied in the default one
        read_outputs(str(applied))
    assert caught.value.place == f"--attach {applied}: fleet"
    monkeypatch.setenv("TF_WORKSPACE", WORKSPACE)
    assert read_outputs(str(applied)).fleet.experiment == "mediawiki-noisy"


def test_what_terraform_says_against_a_folder_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text("output {")
    with pytest.raises(EnvironmentMissing) as caught:
        outputs(tmp_path, None)
    assert "main.tf" in caught.value.got
