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
from experiments.testbed.platforms.ec2.attached import HANDED, Handed
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.testbed.platforms.ec2.remote_runner import KEPT
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
    pip = [x for name in os.environ if name.startswith("PIP_") for x in ("--env", name)]
    # A test that was killed leaves its container.
    subprocess.run(["docker", "rm", "--force", NAME], capture_output=True, check=False)
    docker(
        *("run", "--rm", "--detach", "--name", NAME, "--network", "host", "--memory", "1g", *pip),
        *("--cap-add", "SYS_NICE", "--security-opt", "no-new-privileges"),  # as a fleet has
        *(x for to, path in mounts.items() for x in ("--volume", f"{path}:{to}")),
        *("sparecraft/base:bookworm", "sleep", "900"),
    )
    docker("exec", NAME, f"{ROLE}/install.sh")
    docker("exec", NAME, "cp", "-r", f"{ROLE}/bin", "/opt/sparecraft/bin")
    yield NAME
    docker("rm", "--force", NAME)


def test_workers_installed_from_the_bundle_send_their_shares(machine: str, tmp_path: Path) -> None:
    docker("exec", machine, f"{ROLE}/ready.sh")
    said = docker("exec", machine, "sparecraft", "--version")
    assert said.startswith("sparecraft ")
    assert docker("exec", machine, "sparecraft", "glossary", "NodT").startswith("NodT")
    workloads = "from experiments.design.workloads import find_workloads as w; print(*w(None))"
    said = docker("exec", machine, "/opt/sparecraft/venv/bin/python", "-c", workloads)
    assert set(said.split()) == set(find_workloads(None)), "the roles are in the bundle"
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
    """Systems Manager between who sends a command and the machine's agent: runs it there. While
    `cut` is set nobody is reached; `heard` is called with each command."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._running = dict[str, subprocess.Popen[str]]()
        self.cut = threading.Event()
        self.heard: Callable[[str], None] | None = None

    def __call__(self, asked: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        """An answer as AWS gives it; None for whatever is none of Systems Manager's."""
        _, _, operation = asked.headers.get("X-Amz-Target", "").partition("AmazonSSM.")
        if not operation:
            return None
        if self.cut.is_set():
            return 503, {}, b"{}"
        said = {"SendCommand": self._send, "GetCommandInvocation": self._look}[operation](
            json.loads(body)
        )
        return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(said).encode()

    def end(self) -> None:
        """A request of somebody who was lost has no other to wait for it."""
        for process in self._running.values():
            process.communicate()

    def _send(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["DocumentName"] == "AWS-RunShellScript"
        (command,) = asked["Parameters"]["commands"]
        if self.heard:
            self.heard(command)
        given = [f"--env={k}={v}" for k, v in os.environ.items() if k.startswith("AWS_")]
        process = subprocess.Popen(
            ["docker", "exec", *given, self._machine, "sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        name = str(uuid.uuid4())
        self._running[name] = process
        return {"Command": {"CommandId": name, "InstanceIds": asked["InstanceIds"]}}

    def _look(self, asked: dict[str, Any]) -> dict[str, Any]:
        process = self._running[asked["CommandId"]]
        if process.poll() is None:
            return {"Status": "InProgress", "StandardOutputContent": "", "StandardErrorContent": ""}
        out, err = process.communicate()
        del self._running[asked["CommandId"]]
        return {
            "Status": "Failed" if process.returncode else "Success",
            "StandardOutputContent": out[:24_000],
            "StandardErrorContent": err[:8_000],
        }


@pytest.fixture
def commands(
    machine: str, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Commands]:
    """An account with that machine in it, which is told of a fleet that is up on this host."""
    assert call("up", NODE).exit_code == 0
    try:
        local = entry("local").for_run(EXPERIMENT)
        told = Handed(region=REGION, fleet=local.inventory(), identity=local.identity())
        write = ["exec", "--interactive", machine, "sh", "-c", f"cat > {HANDED}"]
        docker(*write, text=told.model_dump_json())
        made = Commands(machine)
        monkeypatch.setattr(remote_run, "LOOK_S", 0.5)
        with account_of_a_stack(bundle, tmp_path, monkeypatch, made):
            yield made
        made.end()
    finally:
        assert call("down", EXPERIMENT).exit_code == 0


def _run(tmp_path: Path, *more: str) -> Result:
    (tmp_path / "key.asc").write_text(KEY)
    way_in = ("--var", f"session_manager_key={tmp_path / 'key.asc'}", "--ttl-hours", "1")
    where = ("--platform", "ec2", "--results", str(tmp_path / "results"))
    return call("run", NODE, "--yes", *way_in, *where, *more)


def test_a_run_from_elsewhere_goes_on_whatever_becomes_of_the_connection(
    commands: Commands, machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "PATIENCE_S", 2.0)

    def heard(command: str) -> None:
        if re.search("--past [1-9]", command):
            commands.cut.set()

    commands.heard = heard
    lost = _run(tmp_path)
    assert isinstance(lost.exception, EnvironmentMissing), lost.output
    assert "same command again" in lost.exception.hint
    assert resources.instances(Aws(REGION), EXPERIMENT), "it goes on there"
    commands.cut.clear()
    commands.heard = None
    refused = _run(tmp_path, "--interference", "none")
    assert isinstance(refused.exception, InputError), "not the run that is under way"
    done = _run(tmp_path)
    assert "is under way" in done.output, done.output + repr(done.exception)
    assert "Raising the load" in done.output, "what it says there is said here"
    folder = tmp_path / "results" / EXPERIMENT
    (run,) = (one for one in folder.iterdir() if not one.is_symlink())
    assert (folder / "latest").resolve() == run
    result = read_result(run)
    assert validity(result) in ("yes", "disturbed"), result["verdicts"]  # others share this host
    assert done.exit_code == (0 if passed(result) else 1)
    assert (run / "report.html").exists()
    assert len(docker("exec", machine, "ls", str(KEPT)).split()) == 1, "begun once"
    assert resources.find(Aws(REGION)) == [], "the fleet that was made for it is gone"


def test_an_interrupt_ends_the_run_there_and_brings_what_was_measured(
    commands: Commands, tmp_path: Path
) -> None:
    def heard(command: str) -> None:
        if "--past" in command and "block 2" in said():
            commands.heard = None
            os.kill(os.getpid(), signal.SIGINT)

    def said() -> str:
        return docker("exec", NAME, "sh", "-c", f"cat $(ls -d {KEPT}/* | tail -1)/log")

    commands.heard = heard
    ended = _run(tmp_path)
    assert isinstance(ended.exception, Interrupted), ended.output
    (folder,) = (tmp_path / "results" / EXPERIMENT).glob("2*")
    assert str(folder) in ended.exception.hint
    assert (folder / "report.html").exists()
    assert resources.find(Aws(REGION)) == []
