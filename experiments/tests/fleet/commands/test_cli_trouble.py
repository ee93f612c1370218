"""A host that lacks something ends a command in one message and the right exit code."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.testbed.platforms.local import docker
from experiments.tests.called import sparecraft
from experiments.tests.disks import mounted
from experiments.tests.engine import docker as call_docker

SMALL = ROOT / "experiments" / "tests" / "designs" / "small"
EXPERIMENT = "tst-small"


def test_a_missing_docker_engine_is_said_with_what_to_do(tmp_path: Path) -> None:
    absent_socket = f"unix://{tmp_path}/docker.sock"
    results = str(tmp_path / "results")
    process = sparecraft("run", str(SMALL), "--results", results, DOCKER_HOST=absent_socket)
    assert process.returncode == 3
    assert "Docker" in process.stderr
    assert "make setup" in process.stderr
    assert not list(Path(results).glob("*/2*")), "nothing was measured, nothing is left"


def test_a_missing_terraform_is_said_with_what_to_do(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("docker", "git"):
        (tools / name).symlink_to(str(shutil.which(name)))
    results = str(tmp_path / "results")
    process = sparecraft("run", str(SMALL), "--results", results, PATH=str(tools))
    assert process.returncode == 3
    assert "Terraform" in process.stderr


def test_a_provider_that_was_never_installed_is_said_with_what_to_do(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path / "home"), "TF_DATA_DIR": str(tmp_path / "terraform")}
    process = sparecraft("run", str(SMALL), "--results", str(tmp_path / "results"), **environment)
    assert process.returncode == 3, process.stdout
    message = " ".join(process.stderr.split())
    assert "sparecraft/fleet" in message
    assert "make setup" in message
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
        process = sparecraft(verb, str(SMALL), *options)
        assert process.returncode == 3, process.stdout
        message = " ".join(process.stderr.split())
        assert name in message
        assert f"sparecraft down {EXPERIMENT}" in message
        assert [container.name for container in docker.find(EXPERIMENT)] == [name]
    finally:
        call_docker("rm", "--force", name)


def test_a_state_that_is_not_whole_is_named_and_down_removes_it(tmp_path: Path) -> None:
    folder = ROOT / "infra" / "stacks" / "local" / "terraform.tfstate.d" / EXPERIMENT
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "terraform.tfstate"
    state.write_text('{"version": 4, "resour')
    try:
        process = sparecraft("run", str(SMALL), "--results", str(tmp_path))
        assert process.returncode == 3, process.stdout
        assert state.name in process.stderr
        assert f"sparecraft down {EXPERIMENT}" in " ".join(process.stderr.split())
        assert state.exists(), "left to be looked at"
        assert sparecraft("down", EXPERIMENT).returncode == 0
        assert not folder.exists()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_taken_port_is_named_and_nothing_stays(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 18081))
        listener.listen()
        results = str(tmp_path / "results")
        process = sparecraft("run", str(SMALL), "--results", results)
    assert process.returncode == 3, process.stdout
    assert "18081" in process.stderr
    assert docker.find(EXPERIMENT) == []


@pytest.mark.long
def test_a_full_results_disk_ends_the_run_with_a_message_and_no_fleet(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", size_kb=96) as disk:
        process = sparecraft("run", str(SMALL), "--results", str(disk))
    assert process.returncode == 3, process.stdout + process.stderr
    assert "room" in process.stderr
    assert docker.find(EXPERIMENT) == []
