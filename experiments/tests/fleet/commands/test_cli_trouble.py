"""A host that lacks something ends a command in one message and the right exit code."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.testbed.platforms.local import docker
from experiments.tests.called import refusal, sparecraft
from experiments.tests.disks import mounted
from experiments.tests.engine import docker as call_docker

SMALL = ROOT / "experiments" / "tests" / "designs" / "small"
EXPERIMENT = "tst-small"


def test_a_missing_docker_engine_is_said_with_what_to_do(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/docker.sock"
    results = str(tmp_path / "results")
    done = sparecraft("run", str(SMALL), "--results", results, DOCKER_HOST=nowhere)
    assert done.returncode == 3
    assert "Docker" in done.stderr
    assert "make setup" in done.stderr
    assert not list(Path(results).glob("*/2*")), "nothing was measured, nothing is left"


def test_a_missing_terraform_is_said_with_what_to_do(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("docker", "git"):
        (tools / name).symlink_to(str(shutil.which(name)))
    results = str(tmp_path / "results")
    done = sparecraft("run", str(SMALL), "--results", results, PATH=str(tools))
    assert done.returncode == 3
    assert "Terraform" in done.stderr


def test_a_provider_that_was_never_installed_is_said_with_what_to_do(tmp_path: Path) -> None:
    clean = {"HOME": str(tmp_path / "home"), "TF_DATA_DIR": str(tmp_path / "terraform")}
    done = sparecraft("run", str(SMALL), "--results", str(tmp_path / "results"), **clean)
    assert done.returncode == 3, done.stdout
    said = " ".join(done.stderr.split())
    assert "sparecraft/fleet" in said
    assert "make setup" in said
    assert docker.find(EXPERIMENT) == []


@pytest.mark.parametrize("verb", ["run", "up"])
def test_a_fleet_that_somebody_else_made_is_refused_and_left_alone(
    tmp_path: Path, verb: str
) -> None:
    name = f"sc-{EXPERIMENT}-web-1"
    label = f"sparecraft.experiment={EXPERIMENT}"
    call_docker("create", "--name", name, "--label", label, "sparecraft/base:bookworm")
    try:
        options = ["--results", str(tmp_path)] if verb == "run" else []
        done = sparecraft(verb, str(SMALL), *options)
        assert done.returncode == 3, done.stdout
        said = " ".join(done.stderr.split())
        assert name in said
        assert f"sparecraft down {EXPERIMENT}" in said
        assert [found.name for found in docker.find(EXPERIMENT)] == [name]
    finally:
        call_docker("rm", "--force", name)


def test_a_state_that_is_not_whole_is_named_and_down_removes_it(tmp_path: Path) -> None:
    folder = ROOT / "infra" / "stacks" / "local" / "terraform.tfstate.d" / EXPERIMENT
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "terraform.tfstate"
    state.write_text('{"version": 4, "resour')
    try:
        done = sparecraft("run", str(SMALL), "--results", str(tmp_path))
        assert done.returncode == 3, done.stdout
        assert state.name in done.stderr
        assert f"sparecraft down {EXPERIMENT}" in " ".join(done.stderr.split())
        assert state.exists(), "left to be looked at"
        assert sparecraft("down", EXPERIMENT).returncode == 0
        assert not folder.exists()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_taken_port_is_named_and_nothing_stays(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 18081))
        taken.listen()
        results = str(tmp_path / "results")
        done = sparecraft("run", str(SMALL), "--results", results)
    assert done.returncode == 3, done.stdout
    assert "18081" in done.stderr
    assert docker.find(EXPERIMENT) == []


@pytest.mark.long
def test_a_full_results_disk_ends_the_run_with_a_message_and_no_fleet(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", size_kb=96) as disk:
        done = sparecraft("run", str(SMALL), "--results", str(disk))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "room" in done.stderr
    assert docker.find(EXPERIMENT) == []


def test_down_of_a_name_that_nothing_has_is_refused() -> None:
    slip = refusal("down", "tst-never-made")
    assert slip.exit_code == 2
    assert "tst-never-made" in str(slip)
