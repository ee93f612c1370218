"""A load machine as its fleet has it, installed from the bundle: its workers send load, and it
runs experiments for somebody who is elsewhere.

What stands in for AWS: moto for its APIs, which boots no machine, and `Commands` for what carries
a command of Systems Manager to one. The fleet that is measured is one on this host.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from core.errors import EnvironmentMissing, InputError, Interrupted
from core.runfiles.result import read_result
from experiments.design.workloads import find_workloads
from experiments.load.plan import MASTER_PORT, RemoteWorkers
from experiments.paths import ROOT
from experiments.record.result import passed, validity
from experiments.testbed.platforms import entry
from experiments.testbed.platforms.ec2 import remote_run, resources
from experiments.testbed.platforms.ec2.attached import FLEET_FILE, FleetFile
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.testbed.platforms.ec2.remote_runner import FOLDER
from experiments.tests.aws import REGION
from experiments.tests.called import call
from experiments.tests.ec2_stack import KEY, account_of_a_stack
from experiments.tests.engine import docker
from experiments.tests.load_fixture import begun, ended, make_plan, shared
from experiments.tests.servers import serving
from optimizer.tests.answers import Answer

pytestmark = pytest.mark.long

NAME = "tst-role-load"
ROLE = "/opt/sparecraft/bundle/roles/load"
NODE, EXPERIMENT = str(ROOT / "experiments" / "tests" / "designs" / "node"), "tst-node"
CERTIFICATES = "/etc/ssl/certs"


@pytest.fixture(scope="module")
def machine(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A container that is made a load machine from the bundle, on this host's network."""
    tmp_path = tmp_path_factory.mktemp("machine")
    with tarfile.open(bundle / "sparecraft.tar.gz") as archive:
        archive.extractall(tmp_path / "bundle", filter="data")
    settings = tmp_path / "role.env"
    settings.write_text("LOAD_MASTER=127.0.0.1\n", encoding="utf-8")
    mounts: Mapping[str, Path | str] = {
        "/opt/sparecraft/bundle": tmp_path / "bundle",
        "/etc/sparecraft/role.env": settings,
        f"{CERTIFICATES}:ro": CERTIFICATES,  # the way to the package index is this host's
    }
    pip = [option for name in os.environ if name.startswith("PIP_") for option in ("--env", name)]
    # A test that was killed leaves its container.
    subprocess.run(["docker", "rm", "--force", NAME], capture_output=True, check=False)
    docker(
        *("run", "--rm", "--detach", "--name", NAME, "--network", "host", "--memory", "1g", *pip),
        *("--cap-add", "SYS_NICE", "--security-opt", "no-new-privileges"),  # as a fleet has
        *(word for target, path in mounts.items() for word in ("--volume", f"{path}:{target}")),
        *("sparecraft/base:bookworm", "sleep", "900"),
    )
    docker("exec", NAME, f"{ROLE}/install.sh")
    docker("exec", NAME, "cp", "-r", f"{ROLE}/bin", "/opt/sparecraft/bin")
    yield NAME
    docker("rm", "--force", NAME)


def test_workers_installed_from_the_bundle_send_their_shares(machine: str, tmp_path: Path) -> None:
    docker("exec", machine, f"{ROLE}/ready.sh")
    output = docker("exec", machine, "sparecraft", "--version")
    assert output.startswith("sparecraft ")
    assert docker("exec", machine, "sparecraft", "glossary", "NodT").startswith("NodT")
    workloads = "from experiments.design.workloads import find_workloads as w; print(*w(None))"
    output = docker("exec", machine, "/opt/sparecraft/venv/bin/python", "-c", workloads)
    assert set(output.split()) == set(find_workloads(None)), "the roles are in the bundle"
    for _ in range(2):
        docker("exec", "--detach", machine, f"{ROLE}/start.sh")
    with serving() as server:
        plan = shared(make_plan(server.url, ["good"] * 200), 2)
        remote = RemoteWorkers("127.0.0.1", MASTER_PORT, 60.0)
        handle = begun(tmp_path / "run", plan, remote=remote)
        records, status = ended(handle)
    assert status.state == "done"
    assert records.height == 200
    assert records["outcome"].unique().to_list() == ["ok"]
    assert [worker["recorded"] for worker in handle.workers] == [100, 100]
    docker("exec", machine, f"{ROLE}/ready.sh")


class Commands:
    """A stand-in for Systems Manager, which runs each command on the machine. While
    `cut` is set it answers with an error; `heard` is called with each command."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._running = dict[str, subprocess.Popen[str]]()
        self.cut = threading.Event()
        self.heard: Callable[[str], None] | None = None

    def __call__(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        """The answer of AWS; None for a request that is not for Systems Manager."""
        _, _, operation = request.headers.get("X-Amz-Target", "").partition("AmazonSSM.")
        if not operation:
            return None
        if self.cut.is_set():
            return 503, {}, b"{}"
        response = {"SendCommand": self._send, "GetCommandInvocation": self._look}[operation](
            json.loads(body)
        )
        return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(response).encode()

    def end(self) -> None:
        """Wait for commands whose sender lost the connection."""
        for process in self._running.values():
            process.communicate()

    def _send(self, parameters: dict[str, Any]) -> dict[str, Any]:
        assert parameters["DocumentName"] == "AWS-RunShellScript"
        (command,) = parameters["Parameters"]["commands"]
        if self.heard:
            self.heard(command)
        options = [
            f"--env={variable}={value}"
            for variable, value in os.environ.items()
            if variable.startswith("AWS_")
        ]
        process = subprocess.Popen(
            ["docker", "exec", *options, self._machine, "sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        name = str(uuid.uuid4())
        self._running[name] = process
        return {"Command": {"CommandId": name, "InstanceIds": parameters["InstanceIds"]}}

    def _look(self, parameters: dict[str, Any]) -> dict[str, Any]:
        process = self._running[parameters["CommandId"]]
        if process.poll() is None:
            return {"Status": "InProgress", "StandardOutputContent": "", "StandardErrorContent": ""}
        output, errors = process.communicate()
        del self._running[parameters["CommandId"]]
        return {
            "Status": "Failed" if process.returncode else "Success",
            "StandardOutputContent": output[:24_000],
            "StandardErrorContent": errors[:8_000],
        }


@pytest.fixture
def commands(
    machine: str, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Commands]:
    """An account with that machine in it, whose fleet file describes a fleet on this host."""
    assert call("up", NODE).exit_code == 0
    try:
        local = entry("local").for_run(EXPERIMENT)
        fleet_file = FleetFile(region=REGION, fleet=local.inventory(), identity=local.identity())
        write = ["exec", "--interactive", machine, "sh", "-c", f"cat > {FLEET_FILE}"]
        docker(*write, text=fleet_file.model_dump_json())
        account = Commands(machine)
        monkeypatch.setattr(remote_run, "LOOK_S", 0.5)
        with account_of_a_stack(bundle, tmp_path, monkeypatch, account):
            yield account
        account.end()
    finally:
        assert call("down", EXPERIMENT).exit_code == 0


def _run(tmp_path: Path, *more: str) -> Result:
    (tmp_path / "key.asc").write_text(KEY)
    way_in = ("--var", f"session_manager_key={tmp_path / 'key.asc'}", "--ttl-hours", "1")
    options = ("--platform", "ec2", "--results", str(tmp_path / "results"))
    return call("run", NODE, "--yes", *way_in, *options, *more)


def test_a_run_from_elsewhere_goes_on_whatever_becomes_of_the_connection(
    commands: Commands, machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "PATIENCE_S", 2.0)

    def heard(command: str) -> None:
        if re.search("--past [1-9]", command):
            commands.cut.set()

    commands.heard = heard
    interrupted = _run(tmp_path)
    assert isinstance(interrupted.exception, EnvironmentMissing), interrupted.output
    assert "same command again" in interrupted.exception.hint
    assert resources.instances(Aws(REGION), EXPERIMENT), "it goes on there"
    commands.cut.clear()
    commands.heard = None
    conflicting = _run(tmp_path, "--interference", "none")
    assert isinstance(conflicting.exception, InputError), "not the run that is under way"
    completed = _run(tmp_path)
    assert "is under way" in completed.output, completed.output + repr(completed.exception)
    assert "Raising the load" in completed.output, "what it says there is said here"
    folder = tmp_path / "results" / EXPERIMENT
    (run,) = (path for path in folder.iterdir() if not path.is_symlink())
    assert (folder / "latest").resolve() == run
    result = read_result(run)
    assert validity(result) in ("yes", "disturbed"), result["verdicts"]  # others share this host
    assert completed.exit_code == (0 if passed(result) else 1)
    assert (run / "report.html").exists()
    assert len(docker("exec", machine, "ls", str(FOLDER)).split()) == 1, "begun once"
    assert resources.find(Aws(REGION)) == [], "the fleet that was made for it is gone"


def test_an_interrupt_ends_the_run_there_and_brings_what_was_measured(
    commands: Commands, tmp_path: Path
) -> None:
    def heard(command: str) -> None:
        if "--past" in command and "block 2" in said():
            commands.heard = None
            os.kill(os.getpid(), signal.SIGINT)

    def said() -> str:
        return docker("exec", NAME, "sh", "-c", f"cat $(ls -d {FOLDER}/* | tail -1)/log")

    commands.heard = heard
    result = _run(tmp_path)
    assert isinstance(result.exception, Interrupted), result.output
    (folder,) = (tmp_path / "results" / EXPERIMENT).glob("2*")
    assert str(folder) in result.exception.hint
    assert (folder / "report.html").exists()
    assert resources.find(Aws(REGION)) == []
