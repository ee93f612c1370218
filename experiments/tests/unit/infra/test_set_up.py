"""Scripts of set-up, boot and the weekly test: what is missing, checksums, lock files."""

from __future__ import annotations

import configparser
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from experiments.paths import ROOT
from experiments.tests.started import executable

Boot = Callable[[str], ModuleType]


def test_a_service_s_private_folder_of_this_boot_is_no_entry(boot: Boot, tmp_path: Path) -> None:
    for name in ("systemd-private-1229-ssh.service-7okJeq", "theirs"):
        (tmp_path / name).mkdir()
    assert boot("before").entries([str(tmp_path), "/no-such-folder"]) == [str(tmp_path / "theirs")]


def test_a_bridge_and_its_ports_are_no_links_of_the_host(boot: Boot, tmp_path: Path) -> None:
    for folder in ("docker0/bridge", "veth12/brport", "eth0/device", "sc-1"):
        (tmp_path / folder).mkdir(parents=True)
    lines = [
        "eth0             UP             52:54:00:12:34:56 <BROADCAST,MULTICAST,UP,LOWER_UP>",
        "sc-1             DOWN           5a:11:22:33:44:55 <BROADCAST,NOARP>",
        "docker0          DOWN           02:42:6c:11:22:33 <NO-CARRIER,BROADCAST>",
        "veth12@if4       UP             fe:54:00:12:34:57 <BROADCAST,MULTICAST,UP>",
        "",
    ]
    assert boot("before").without_bridges(lines, tmp_path) == lines[:2]


BOOT = ROOT / "infra" / "boot"
BUNDLE = b"what the fleet was planned with"


def _function(name: str) -> str:
    text = (BOOT / "boot.sh").read_text()
    match = re.search(rf"^{name}\(\) {{.*?^}}$", text, re.MULTILINE | re.DOTALL)
    assert match, name
    return match[0]


@pytest.mark.parametrize(("got", "taken"), [(BUNDLE, True), (b"another's", False), (b"", False)])
def test_a_bundle_with_another_checksum_is_not_unpacked(
    tmp_path: Path, got: bytes, taken: bool
) -> None:
    (tmp_path / "in-the-bucket").write_bytes(got)
    script = f"""
    set -eu
    archive={tmp_path}/archive bundle={tmp_path}/bundle
    SC_BUNDLE={hashlib.sha256(BUNDLE).hexdigest()}
    fetch() {{ cp {tmp_path}/in-the-bucket "$2"; }}
    again() {{ "$@"; }}
    install_packages() {{ :; }}
    tar() {{ touch {tmp_path}/unpacked; }}
    {_function("fetch_bundle")}
    {_function("prepare")}
    prepare
    """
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (process.returncode == 0) == taken, process.stderr
    assert (tmp_path / "unpacked").exists() == taken
    assert (tmp_path / "bundle" / ".whole").exists() == taken


def test_settings_and_content_with_another_checksum_are_not_taken(
    boot: Boot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = boot("machine")
    sha256 = hashlib.sha256(BUNDLE).hexdigest()
    assert machine.verify(BUNDLE, sha256, "settings") == BUNDLE
    with pytest.raises(ValueError, match="settings"):
        machine.verify(b"another's", sha256, "settings")
    monkeypatch.setattr(machine, "DONE", tmp_path / "not-yet")
    monkeypatch.setattr(machine, "CONTENT", tmp_path / "content.tar.gz")

    class Bucket:
        def download_file(self, bucket: str, key: str, file: str) -> None:
            assert (bucket, key) == ("b", "vpc-1/content/redis.tar.gz")
            Path(file).write_bytes(BUNDLE)

    content = {"key": "content/redis.tar.gz", "sha256": sha256}
    assert machine.fetch_content(content, Bucket(), "b", "vpc-1") == tmp_path / "content.tar.gz"
    with pytest.raises(ValueError, match=r"content/redis\.tar\.gz"):
        machine.fetch_content({**content, "sha256": "0"}, Bucket(), "b", "vpc-1")


STACK, ACCOUNT = ROOT / "infra" / "stacks" / "ec2", ROOT / "infra" / "account"
AWS, FLEET = "hashicorp/aws", "sparecraft/fleet"
PLATFORMS_MIN = 14  # that a release of hashicorp/aws has packages for


def _locked(folder: Path) -> dict[str, str]:
    """Provider to its block."""
    text = (folder / ".terraform.lock.hcl").read_text()
    block = re.compile(r'^provider "registry\.terraform\.io/(\S+)" \{$(.*?)^\}$', re.M | re.S)
    return dict(block.findall(text))


def _pinned(file: Path) -> dict[str, str]:
    pin = re.compile(r'source\s*= "(\S+)"\s*version\s*= "(\S+)"')
    return dict(pin.findall(file.read_text()))


@pytest.mark.parametrize("folder", [STACK, ACCOUNT])
def test_a_lock_file_is_under_version_control(folder: Path) -> None:
    command = ["git", "-C", str(folder), "ls-files", "--error-unmatch", ".terraform.lock.hcl"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("file", [STACK / "versions.tf", ACCOUNT / "main.tf"])
def test_each_provider_is_locked_in_the_version_that_is_pinned(file: Path) -> None:
    blocks = _locked(file.parent)
    assert {
        name: re.findall(r'^  (?:version|constraints)\s*= "(\S+)"$', block, re.M)
        for name, block in blocks.items()
    } == {name: [version, version] for name, version in _pinned(file).items()}


def test_packages_of_aws_are_locked_by_their_checksums_and_alike_in_both() -> None:
    block = _locked(STACK)[AWS]
    assert block == _locked(ACCOUNT)[AWS]
    for scheme, text in (("zh", r"[0-9a-f]{64}"), ("h1", r"[A-Za-z0-9+/]{43}=")):
        assert len(set(re.findall(rf'^    "{scheme}:{text}",$', block, re.M))) >= PLATFORMS_MIN


def test_our_own_provider_which_is_built_here_has_no_checksum() -> None:
    assert "hashes" not in _locked(STACK)[FLEET]


NOT_THERE = 3
# Of this host's, for the scripts themselves.
_TOOLS = (
    "bash", "cut", "dirname", "env", "grep", "head", "sed", "sha256sum", "sort", "rm", "chmod",
)  # fmt: skip


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that is all of PATH: a user who is not root has nothing but the shell's tools."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in _TOOLS:
        (folder / name).symlink_to(str(shutil.which(name)))
    _program(folder, "id", "echo 1000")
    _program(folder, "apt-get", "exit 1")
    return folder


def _program(folder: Path, name: str, does: str) -> None:
    executable(folder / name, f"#!/bin/sh\n{does}\n")


def _call(programs: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(programs), "XDG_CACHE_HOME": str(programs / "cache")}
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_packages_and_tools_that_are_missing_are_said_at_once(programs: Path) -> None:
    _program(programs, "go", "echo go version go1.2.3")
    process = _call(programs, "ci/setup")
    assert process.returncode == NOT_THERE, process.stderr
    words = set(process.stderr.replace(":", " ").split())
    assert {"curl", "cargo", "go", "1.2.3", "terraform"} <= words
    assert len(process.stderr.splitlines()) == 5


def test_a_boot_starts_no_server_of_tests_but_the_engine(programs: Path, tmp_path: Path) -> None:
    files = "/usr/lib/systemd/system/$2.service\n/lib/systemd/system/$2@.service\n/etc/$2"
    _program(programs, "dpkg-query", f'printf "{files}\n"')
    _program(programs, "systemctl", f'echo "$*" >>"{tmp_path}/said"')
    call = '. ci/lib.sh; start_no_server_at_boot "$@"'
    process = _call(programs, "bash", "-c", call, "bash", "influxdb", "docker.io", "redis-server")
    assert process.returncode == 0, process.stderr
    lines = (tmp_path / "said").read_text().splitlines()
    assert lines == [f"disable --quiet {name}.service" for name in ("influxdb", "redis-server")]


@pytest.mark.parametrize("verb", ["build", "boot"])
def test_a_machine_that_cannot_be_emulated_here_says_all_that_is_missing(
    programs: Path, tmp_path: Path, verb: str
) -> None:
    """Also where a disk is kept: the test, which would be skipped, is not come to."""
    (programs / "realpath").symlink_to(str(shutil.which("realpath")))
    process = _call(programs, "ci/vm", verb, str(tmp_path / "vm"))
    assert process.returncode == NOT_THERE, process.stderr
    missing = {"qemu-system-x86_64", "qemu-img", "mmdebstrap", "ssh-keygen"}
    assert missing <= set(process.stderr.replace(";", " ").split())
    assert not (tmp_path / "vm").exists()


NIGHTLY = ROOT / "ci" / "nightly"


def _unit(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((NIGHTLY / name).read_text())
    return unit


def test_the_timer_calls_it_each_sunday_and_never_beside_a_night() -> None:
    timer, service = _unit("sparecraft-weekly.timer"), _unit("sparecraft-weekly.service")
    assert timer["Timer"]["OnCalendar"] == "Sun *-*-* 12:00"
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert service["Service"]["ExecStart"] == "/usr/bin/make test-boot"
    assert "sparecraft-nightly.service" in service["Unit"]["After"].split()


def test_the_workflow_calls_it_on_one_day_a_week() -> None:
    text = (ROOT / ".github" / "workflows" / "weekly.yml").read_text()
    (cron,) = re.findall(r'- cron: "(.*)"', text)
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", cron)
    assert "make test-boot" in text


def test_its_target_runs_the_test_of_a_host_that_boots() -> None:
    make = ["make", "--no-print-directory", "--dry-run", "test-boot"]
    process = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "ci/test boot"
    (path,) = re.findall(r"pytest -q (\S+test_hosts_vm\.py)", (ROOT / "ci" / "test").read_text())
    assert (ROOT / path).exists()
