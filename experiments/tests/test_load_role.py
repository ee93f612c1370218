"""The role `load` as a load machine has it: installed from the bundle, its workers send load."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from experiments.design.workloads import find_workloads
from experiments.load.generator import MASTER_PORT
from experiments.load.plan import RemoteWorkers
from experiments.tests.engine import docker
from experiments.tests.load_fixture import begun, ended, make_plan, shared
from experiments.tests.servers import serving

pytestmark = pytest.mark.real

NAME = "tst-role-load"
ROLE = "/opt/sparecraft/bundle/roles/load"
CERTIFICATES = "/etc/ssl/certs"


@pytest.fixture
def machine(bundle: Path, tmp_path: Path) -> Iterator[str]:
    """A container with the bundle and the settings of a load machine, on this host's network."""
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
    yield NAME
    docker("rm", "--force", NAME)


def test_workers_installed_from_the_bundle_send_their_shares(machine: str, tmp_path: Path) -> None:
    docker("exec", machine, f"{ROLE}/install.sh")
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
