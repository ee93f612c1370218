"""The load machine's end of a run from elsewhere, without a fleet: what it says of a run that
cannot begin, what it takes from an archive, and what it is made of."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.console import Narrator
from experiments.design import load_design
from experiments.paths import ROOT
from experiments.testbed.platforms.ec2 import remote_runner
from experiments.testbed.platforms.ec2.bundle import pack
from experiments.tests.started import until
from optimizer.tests.answers import answering

NODE = ROOT / "experiments" / "tests" / "designs" / "node"


def _archive(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(file, "w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def _said(verb: str, run: Path, *words: str) -> dict[str, Any]:
    """Output of the runner's program, called as a command."""
    command = [sys.executable, "-m", remote_runner.__name__, verb, str(run), *words]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


def test_a_run_that_cannot_begin_ends_once_and_says_why(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "design.tar", "w") as archive:
        archive.add(NODE / "fleet.tfvars", "shop/fleet.tfvars")
    archive_bytes = (tmp_path / "design.tar").read_bytes()
    run = tmp_path / "run"
    remote_run = remote_runner.Run(run)
    assert remote_run.look(0)["state"] == "none"
    with answering(lambda *_: (200, {}, archive_bytes)) as url:
        for _ in range(2):
            _said("begin", run, "--design", url, "--", "shop")
    until("its end", lambda: remote_run.look(0)["state"] != "goes on")
    look = _said("look", run)
    assert (look["state"], look["code"]) == ("ended", 2)
    assert look["said"].count("got no such file") == 1, look["said"]
    assert _said("look", run, "--past", str(look["past"]))["said"] == ""
    assert _said("end", run)["state"] == "ended"


def test_a_design_that_cannot_be_fetched_is_no_run(tmp_path: Path) -> None:
    with (
        answering(lambda *_: (403, {}, b"")) as url,
        pytest.raises(SystemExit, match="HTTP Error 403"),
    ):
        remote_runner.main(["begin", "r1", "--design", url, "--", "shop"], tmp_path)
    assert remote_runner.Run(tmp_path / "r1").look(0)["state"] == "none"


def test_a_bundle_has_the_designs_own_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without an engine no role's content is packed, which takes a minute.
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    design = load_design("nginx-python")
    pack(ROOT / "infra" / "stacks" / "ec2", design, Narrator(Console(), quiet=True))
    packed_roles = (ROOT / "build" / "bundle" / "roles").read_text().split()
    own_roles = {file.parent.name for file in (design.directory / "roles").glob("*/role.json")}
    assert own_roles
    assert own_roles <= set(packed_roles)


def test_only_files_below_its_folder_are_taken_from_an_archive(tmp_path: Path) -> None:
    link = tarfile.TarInfo("shop/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    for member in (link, tarfile.TarInfo("../out"), tarfile.TarInfo("/etc/out")):
        archive = _archive(tmp_path / "wrong.tar", (tarfile.TarInfo("a"), b"a"), (member, b""))
        with pytest.raises(OSError, match="no file below its folder"):
            remote_runner.unpack(archive, tmp_path / "into", 100)
    archive = _archive(tmp_path / "large.tar", (tarfile.TarInfo("a"), b"a" * 101))
    with pytest.raises(OSError, match="101 bytes, 100 at most"):
        remote_runner.unpack(archive, tmp_path / "into", 100)
    assert not (tmp_path / "into").exists()
