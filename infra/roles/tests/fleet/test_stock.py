"""The role of the README's guide, on a stock image: BusyBox, which has no libraries at all."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from machines import PREFIX, ROOT, Machine, docker

pytestmark = pytest.mark.timeout(900)

GUIDE = (ROOT / "infra/roles/README.md").read_text()
BUSYBOX = Path(__file__).parents[1] / "busybox"
STOCK = f"{PREFIX}stock:test"
ADDRESS = "198.18.241.90"


def files_of_the_guide() -> dict[str, str]:
    """Name to text of what stands in the guide's first step."""
    blocks = re.findall(r"^ +```\w+ (\S+)\n(.*?)^ +```$", GUIDE, re.MULTILINE | re.DOTALL)
    return {name: textwrap.dedent(text) for name, text in blocks}


def test_the_guide_s_role_is_one() -> None:
    schema = json.loads((ROOT / "contracts/role.schema.json").read_text())
    jsonschema.validate(json.loads(files_of_the_guide()["role.json"]), schema)


@pytest.fixture(scope="module")
def made(network: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    assert network
    folder = tmp_path_factory.mktemp("context")
    for name, text in files_of_the_guide().items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    docker("build", "-q", "--network", "host", "-t", STOCK, str(BUSYBOX))
    image = built(folder, "pages", STOCK_USER="1000")
    machine = Machine("pages", ADDRESS, {})
    yield machine
    docker("rm", "-f", "-v", machine.name)
    docker("rmi", "--no-prune", image, STOCK)


def built(folder: Path, name: str, **arguments: str) -> str:
    """The image of a role on the stock image, as the stack has it built."""
    (folder / "bin").mkdir()
    shutil.copy(ROOT / "build/bin/nodeagent", folder / "bin")
    shutil.copytree(ROOT / "infra/roles/stock", folder / "stock")
    image = f"{PREFIX}{name}:test"
    options = [f"--build-arg={key}={value}" for key, value in {"IMAGE": STOCK, **arguments}.items()]
    stock = str(folder / "stock/Dockerfile")
    docker("build", "-q", "--network", "host", "-f", stock, *options, "-t", image, str(folder))
    return image


def test_the_role_runs_in_the_image_and_its_scripts_have_a_shell(made: Machine) -> None:
    made.wait_until_ready()
    script = made.run("wget", "-q", "-O", "-", "http://127.0.0.1:8080/image-start.sh")
    assert script == files_of_the_guide()["start.sh"]


def test_the_service_is_the_image_s_user_who_may_listen_on_a_low_port_and_no_more(
    made: Machine,
) -> None:
    """The image says USER 1000; the container's first process is the service here."""
    status = dict(
        line.split(":\t", 1)
        for line in made.run("cat", "/proc/1/status").splitlines()
        if "\t" in line
    )
    assert status["Uid"].split() == ["1000"] * 4
    assert (status["CapPrm"], status["CapEff"]) == (f"{1 << 10:016x}",) * 2


@pytest.mark.parametrize("program", ["bash", "ip", "iperf3", "nft", "ss", "tc"])
def test_what_the_agent_calls_is_debian_s_and_not_the_image_s(made: Machine, program: str) -> None:
    assert made.run("which", program).strip() == f"/opt/sparecraft/tools/bin/{program}"
    version = "-V" if program in ("ip", "ss", "tc") else "--version"
    assert made.run(program, version)


def test_the_agent_s_questions_are_answered(made: Machine) -> None:
    links = json.loads(made.run("ip", "-j", "address", "show"))
    addresses = {entry["local"] for link in links for entry in link["addr_info"]}
    assert ADDRESS in addresses
    assert isinstance(json.loads(made.run("tc", "-j", "qdisc", "show")), list)
    assert "nodeagent" in made.run("/opt/sparecraft/bin/nodeagent", "--version")


@pytest.mark.usefixtures("made")
def test_the_image_ends_as_the_agent_does() -> None:
    (config,) = json.loads(docker("image", "inspect", f"{PREFIX}pages:test"))
    assert config["Config"]["StopSignal"] == "SIGTERM"
    assert config["Config"]["User"] == "0"
    assert config["Config"]["Entrypoint"] == ["/opt/sparecraft/bin/nodeagent"]
    assert not config["Config"]["Cmd"]


@pytest.fixture(scope="module")
def plain(made: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A role without scripts: what the image, or role.json, has it run."""
    assert made
    folder = tmp_path_factory.mktemp("plain")
    (folder / "root/srv").mkdir(parents=True)
    (folder / "root/srv/hello").write_text("laid over\n")
    image = built(
        folder,
        "plain",
        STOCK_ENTRYPOINT="'httpd' '-f'",
        STOCK_COMMAND="'-p' '8081' '-h' '/srv'",
        STOCK_USER="1000",
        STOCK_WORKDIR="/srv",
        STOCK_HEALTHCHECK="'sh' '-c' 'test -e hello && wget -q -O /dev/null http://web:8081/hello'",
        ROLE_PORT="8081",
        ROLE_RESTART="yes",
    )
    address = "198.18.241.91"
    names = {"CALLED_NAMES_1": f"{address}:8081 web shop"}
    machine = Machine("plain", address, {}, environment=names)
    yield machine
    docker("rm", "-f", "-v", machine.name)
    docker("rmi", "--no-prune", image)


def test_a_role_without_scripts_runs_what_its_image_has_to(plain: Machine) -> None:
    """Ready says: the healthcheck ran in the working folder, and found the machine by a name."""
    plain.wait_until_ready()
    assert plain.run("wget", "-q", "-O", "-", "http://shop:8081/hello") == "laid over\n"


def test_a_service_that_ends_by_itself_is_started_again_as_its_user(plain: Machine) -> None:
    plain.wait_until_ready()
    before = plain.run("pidof", "httpd").split()
    plain.run("sh", "-c", f"kill -9 {' '.join(before)}")
    plain.wait_until_ready()
    (after,) = plain.run("pidof", "httpd").split()
    assert after not in before
    assert "Uid:\t1000\t1000" in plain.run("cat", f"/proc/{after}/status")
