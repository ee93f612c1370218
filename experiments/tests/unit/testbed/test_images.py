"""Images, jars, hardened programs, engines and the signed package that machines are made of."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.design import load_design
from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.testbed.platforms.local import docker, engines, images, on_demand_build
from experiments.testbed.platforms.local.on_demand_build import used_variants
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.tests.started import executable
from optimizer.tests.answers import Answer, answering


def _row(number: int, tag: str, containers: str = "0") -> dict[str, str]:
    return {"ID": f"sha256:{number:064}",
            "Repository": "sparecraft/shop" if tag != "<none>" else "<none>", "Tag": tag,
            "CreatedAt": "2026-11-28 20:50:42 +0000 UTC", "Size": "545MB", "UniqueSize": "93.26MB",
            "Containers": containers}  # fmt: skip


ROWS = [_row(1, "local"), _row(2, "<none>"), _row(3, "local", "1"), _row(4, "latest")]


def test_only_our_images_without_a_container_are_unused() -> None:
    ours = {f"sha256:{number:064}" for number in (1, 2, 3)}
    unused = images.read(json.dumps(ROWS), ours)
    names = [(image.name, image.superseded) for image in unused]
    assert names == [("sparecraft/shop:local", False), ("", True)]
    assert {(image.size, image.own_size) for image in unused} == {("545MB", "93.26MB")}


def test_what_a_newer_build_has_replaced_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: str) -> str:
        if arguments[0] == "system":
            return json.dumps(ROWS)
        return "\n".join(row["ID"] for row in ROWS)

    monkeypatch.setattr(docker, "run", run)
    names = [image.name for image in images.find_unused()]
    assert names == ["", "sparecraft/shop:local", "sparecraft/shop:latest"]


NAME = "tst-jars"
MADE = ROOT / "build" / NAME
# A repository of one jar, which notes each call.
MAVEN = """#!/bin/sh
echo "$@" >>{calls}
for option in "$@"; do
  case $option in
  -DoutputDirectory=*) mkdir -p "${{option#*=}}"; cp {jar} "${{option#*=}}/one.jar" ;;
  esac
done
"""


@pytest.fixture
def role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A role with one generation, and Maven's stand-in."""
    folder = tmp_path / NAME
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "pom.xml").write_text("<project/>\n")
    (tmp_path / "one.jar").write_bytes(b"one")
    text = MAVEN.format(calls=tmp_path / "calls", jar=tmp_path / "one.jar")
    program = executable(tmp_path / "bin" / "mvn", text)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _lock(folder, b"one")
    yield folder
    shutil.rmtree(MADE, ignore_errors=True)


def _lock(folder: Path, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    (folder / "old" / "jars.sha256").write_text(f"{digest}  one.jar\n")


def _calls(role: Path) -> int:
    return len((role.parent / "calls").read_text().splitlines())


def test_jars_are_had_once_and_again_where_they_were_changed(role: Path) -> None:
    messages: list[str] = []
    on_demand_build.fetch_jars([role], messages.append)
    assert (MADE / "old" / "one.jar").read_bytes() == b"one"
    assert len(messages) == 1
    on_demand_build.fetch_jars([role], messages.append)
    assert (_calls(role), len(messages)) == (1, 1)
    (MADE / "old" / "one.jar").write_bytes(b"two")
    on_demand_build.fetch_jars([role], messages.append)
    assert (MADE / "old" / "one.jar").read_bytes() == b"one"
    (MADE / "old" / "more.jar").write_bytes(b"more")
    on_demand_build.fetch_jars([role], messages.append)
    assert [path.name for path in (MADE / "old").iterdir()] == ["one.jar"]


def test_other_jars_than_the_locked_ones_are_refused(role: Path) -> None:
    _lock(role, b"another")
    with pytest.raises(EnvironmentMissing) as caught:
        on_demand_build.fetch_jars([role], print)
    assert caught.value.place == f"jars of {NAME}"
    assert hashlib.sha256(b"one").hexdigest() in str(caught.value)


def test_every_pom_is_locked_and_its_jars_are_what_the_image_takes() -> None:
    """Of a client that only this host runs, no image has them."""
    poms = sorted((ROOT / "infra/roles").rglob("pom.xml"))
    assert poms
    for pom in poms:
        folder = pom.parent.relative_to(ROOT / "infra/roles")
        role = (ROOT / "infra/roles" / folder.parts[0] / "role.json").read_text()
        assert (f'"build/{folder}/*.jar"' in role) == (folder.name != "client"), pom
        lines = (pom.parent / "jars.sha256").read_text().splitlines()
        assert lines, pom
        assert all(len(line.split("  ")[0]) == 64 and line.endswith(".jar") for line in lines), pom


@pytest.mark.parametrize(
    ("name", "expected"),
    [("redis-variants", {("redis", "native"), ("redis", "ilr"), ("redis", "tx")}),
     ("redis-capacity", set()), ("mediawiki-noisy", set())],
)  # fmt: skip
def test_what_arms_ask_for(name: str, expected: set[tuple[str, str]]) -> None:
    design = load_design(name)
    roles = find_roles(design.directory)
    assert used_variants(design.directory, design.fleet, roles) == expected


def test_a_fleet_without_arms_asks_for_none(tmp_path: Path) -> None:
    assert used_variants(tmp_path, load_design("redis-variants").fleet, find_roles()) == set()


def test_a_program_that_cannot_be_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '#!/bin/sh\necho "no $1 for $2" >&2\nexit 3\n'
    program = executable(ROOT / "build" / "tst-variants", text)
    monkeypatch.setattr(on_demand_build, "BUILD", program)
    try:
        with pytest.raises(EnvironmentMissing) as error:
            on_demand_build.build_variants({("redis", "ilr")}, print)
    finally:
        program.unlink()
    assert error.value.place == "redis, variant ilr"
    assert "no redis for ilr" in str(error.value)


EXPERIMENT = "tst-engines"
THERE = "unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("addresses", "here"),
    [((THERE,), True), (("tcp://10.0.0.2:2376",), False), ((THERE, "ssh://10.0.0.2"), False)],
)
def test_machines_are_on_this_host_where_its_engine_has_all_of_them(
    addresses: tuple[str, ...], here: bool
) -> None:
    hosts = [
        {"name": f"host-{number}", "address": address, "certificates": None}
        for number, address in enumerate(addresses)
    ]
    assert LocalPlatform(EXPERIMENT, {"hosts": hosts}).on_this_host is here


@pytest.mark.parametrize("call", [docker.state, docker.logs, docker.run])
def test_an_engine_that_takes_too_long_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[str], str]
) -> None:
    executable(tmp_path / "docker", "#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(docker, "_TIMEOUT_S", 0.2)
    with pytest.raises(EnvironmentMissing, match="sc-web-1"):
        call("sc-web-1")


def test_an_end_of_a_network_is_a_container_and_no_machine() -> None:
    names = ("web-1", "vxlan-1949158", "vxlan")
    containers = [
        docker.OwnedObject("container", f"sc-{EXPERIMENT}-{name}", EXPERIMENT) for name in names
    ]
    assert [container.is_machine for container in containers] == [True, False, True]
    assert not docker.OwnedObject("network", f"sc-{EXPERIMENT}-data", EXPERIMENT).is_machine


def test_a_file_of_hosts_gives_the_stack_its_variables(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(
        '[[hosts]]\nname = "a"\naddress = "unix:///var/run/docker.sock"\nunderlay = "10.0.0.1"\n'
        '[[hosts]]\nname = "b"\naddress = "tcp://10.0.0.2:2376"\nunderlay = "10.0.0.2"\n'
        'certificates = "b"\n'
    )
    variables = engines.read(file)
    assert variables["underlay_mtu"] == 1500
    local_engine, remote_engine = engines.engines_of(variables)
    assert local_engine.arguments == ["--host", "unix:///var/run/docker.sock"]
    assert remote_engine.arguments[2:] == ["--tlsverify", f"--tlscacert={tmp_path}/b/ca.pem",
                                    f"--tlscert={tmp_path}/b/cert.pem",
                                    f"--tlskey={tmp_path}/b/key.pem"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hosts = []\n", "hosts"),
        ('[[hosts]]\nname = "a"\naddress = "http://10.0.0.1"\n', "address"),
        ('[[hosts]]\nname = "A"\naddress = "ssh://10.0.0.1"\n', "name"),
        ('[[hosts]]\nname = "a"\naddress = "ssh://h"\nrack = "b"\n', "rack"),
    ],
)
def test_what_is_wrong_in_a_file_of_hosts_is_named(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        engines.read(file)
    assert place in caught.value.place


SCRIPT = ROOT / "infra" / "boot" / "session_manager.py"
PACKAGE = b"a package"


def _gpg(home: Path, *arguments: str) -> bytes:
    home.mkdir(mode=0o700, exist_ok=True)
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    return subprocess.run([*command, *arguments], check=True, capture_output=True).stdout


def _signer(home: Path, package: Path) -> tuple[str, bytes]:
    """A key of its own: its public half in armour, and its signature of the package."""
    _gpg(home, "--quick-gen-key", "agent@example.org", "ed25519", "sign", "never")
    signature = _gpg(home, "--output", "-", "--detach-sign", str(package))
    key = _gpg(home, "--armor", "--export").decode()
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)
    return key, signature


@pytest.mark.parametrize("case", ["signed", "another's key", "another package", "no signature"])
def test_only_a_package_that_is_signed_with_the_given_key_is_installed(
    tmp_path: Path, case: str
) -> None:
    package = tmp_path / "package"
    package.write_bytes(PACKAGE)
    key, signature = _signer(tmp_path / "ours", package)
    if case == "another's key":
        _, signature = _signer(tmp_path / "theirs", package)
    body = PACKAGE + b"!" if case == "another package" else PACKAGE

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> Answer:
        if request.path.endswith(".sig"):
            return (404, {}, b"") if case == "no signature" else (200, {}, signature)
        return 200, {}, body

    (tmp_path / "key.asc").write_text(key)
    executable(tmp_path / "dpkg", f'#!/bin/sh\ncp "$2" {tmp_path}/installed\n')
    path = f"{tmp_path}:{os.environ['PATH']}"
    with answering(answer) as url:
        process = subprocess.run(
            [sys.executable, SCRIPT, "--key", tmp_path / "key.asc", "--url", f"{url}/agent.deb"],
            env={**os.environ, "PATH": path, "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
    installed = tmp_path / "installed"
    assert installed.exists() == (case == "signed"), process.stderr
    assert (process.returncode == 0) == installed.exists()
