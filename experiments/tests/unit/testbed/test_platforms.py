"""`--platform` is what the folders of testbed/platforms say, and the guide to a new one is true."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.paths import ROOT
from experiments.testbed import platforms
from experiments.tests.called import answer, call, refusal

SMALL = str(ROOT / "experiments" / "tests" / "designs" / "small")
GUIDE = ROOT / "experiments" / "testbed" / "platforms" / "README.md"

# Step 1 of the guide: machines that are only written down, as far as anybody asks for them.
MACHINES = """
from pathlib import Path

from experiments.design.inventory import Endpoints, Inventory
from core.errors import EnvironmentMissing

LENT = Path(__file__).parent / "lent"


def lent():
    return sorted(path.name for path in LENT.glob("*"))


class LentPlatform:
    name = "lent"
    through_agent = {}
    ready_timeout_s = 1.0
    reachable = False
    is_attached = False

    def __init__(self, experiment):
        self.experiment = experiment

    def check(self):
        if self.experiment in lent():
            raise EnvironmentMissing("lent", expected="no fleet", got="one", hint="Give it back.")

    def up(self, tfvars, progress):
        LENT.mkdir(exist_ok=True)
        (LENT / self.experiment).touch()
        return self.inventory()

    def inventory(self):
        ends = Endpoints(ENDPOINTS)
        return Inventory(experiment=self.experiment, platform="lent", scheme="on-prem",
                         machines=(), endpoints=ends)

    def down(self, progress):
        (LENT / self.experiment).unlink(missing_ok=True)
        return []
""".replace("ENDPOINTS", 'entries=(), influxdb="http://198.19.0.3", grafana=None')


@pytest.fixture
def lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A platform made by the guide, on the registry's search path."""
    (code,) = re.findall(
        r"^   ```python\n(.*?)^   ```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE
    )
    folder = tmp_path / "lent"
    folder.mkdir()
    (folder / "__init__.py").write_text(textwrap.dedent(code))
    (folder / "platform.py").write_text(MACHINES)
    monkeypatch.setattr(platforms, "__path__", [*platforms.__path__, str(tmp_path)])
    yield
    for name in [name for name in sys.modules if name.startswith(f"{platforms.__name__}.lent")]:
        del sys.modules[name]


@pytest.mark.usefixtures("lent")
def test_a_folder_is_all_that_the_command_line_needs_of_a_platform(tmp_path: Path) -> None:
    up = call("up", SMALL, "--platform", "lent", "--shelf", "7")
    assert up.exit_code == 0, up.output
    assert "On shelf 7." in up.output
    assert "sparecraft down tst-small --platform lent" in up.output
    listing = answer("list", "--platform", "lent", "--results", str(tmp_path))
    assert listing["fleets"] == [{"experiment": "tst-small", "shelf": None}]
    again = refusal("run", SMALL, "--platform", "lent", "--results", str(tmp_path))
    assert isinstance(again, EnvironmentMissing)
    assert again.place == "lent", "this platform's check, and no other's"
    assert call("down", "--all", "--platform", "lent").exit_code == 0
    listing = answer("list", "--platform", "lent", "--results", str(tmp_path))
    assert listing["fleets"] == []


@pytest.mark.usefixtures("lent")
def test_an_option_is_refused_with_a_platform_that_did_not_declare_it() -> None:
    error = refusal("up", SMALL, "--shelf", "7")
    assert (error.exit_code, error.place) == (2, "--shelf")
    assert error.expected == "--platform lent with it"


@pytest.mark.parametrize(
    "arguments", [("run", SMALL), ("up", SMALL), ("down", "tst-small"), ("list",)]
)
def test_an_unknown_platform_is_refused_and_is_no_other(arguments: tuple[str, ...]) -> None:
    error = refusal(*arguments, "--platform", "lent")
    assert isinstance(error, InputError)
    assert (error.place, error.got) == ("--platform", "'lent'")
    assert error.expected == "one of ec2, hosts, local"


def test_each_platform_has_the_name_of_its_folder_and_a_column_of_faults() -> None:
    table = (
        (ROOT / "infra" / "stacks" / "README.md").read_text().split("| kind |")[1].split("\n")[0]
    )
    for entry in platforms.entries():
        assert platforms.entry(entry.name) is entry
        assert f"| {entry.name} |" in f"|{table}".lower()


@pytest.mark.parametrize("name", ["hosts", "local"])
def test_watch_finds_a_fleet_by_the_options_that_it_has(name: str) -> None:
    entry = platforms.entry(name)
    options = {option.name: None for option in entry.options if "watch" in option.commands}
    assert entry.for_down("tst", options).experiment == "tst"


@pytest.mark.usefixtures("lent")
def test_down_removes_all_only_when_told_so() -> None:
    assert call("up", SMALL, "--platform", "lent").exit_code == 0
    refusal_without_all = refusal("down", "--platform", "lent")
    assert (refusal_without_all.exit_code, "--all" in refusal_without_all.hint) == (2, True)
    assert call("down", "--platform", "lent", "--yes").exit_code == 0
    assert call("down", "--platform", "lent").exit_code == 0, "nothing to ask for"
    refusal_of_both = refusal("down", "tst-small", "--all", "--platform", "lent")
    assert refusal_of_both.exit_code == 2


@pytest.mark.usefixtures("lent")
def test_down_of_a_name_that_nothing_has_is_a_slip() -> None:
    assert call("up", SMALL, "--platform", "lent").exit_code == 0
    error = refusal("down", "tst-smal", "--platform", "lent")
    assert (error.exit_code, error.hint) == (2, "Did you mean tst-small?")
    assert refusal("down", "zzz", "--platform", "lent").exit_code == 2
    assert call("down", "tst-small", "--platform", "lent").exit_code == 0


@pytest.mark.usefixtures("lent")
def test_down_never_takes_a_path_for_a_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(type(platforms.entry("lent")), "for_down")
    for path in (str(tmp_path), "../local", "."):
        assert refusal("down", path, "--platform", "lent").exit_code == 2


@pytest.mark.usefixtures("lent")
def test_down_of_a_design_s_folder_removes_the_fleet_of_its_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SMALL, tmp_path / "planned")
    for folder in ("planned", "./planned"):
        assert call("up", SMALL, "--platform", "lent").exit_code == 0
        [fleet] = answer("down", folder, "--platform", "lent")["fleets"]
        assert (fleet["experiment"], fleet["removed"]) == ("tst-small", True)


@pytest.mark.usefixtures("lent")
def test_down_of_a_fleet_that_is_gone_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "ran-here").mkdir(parents=True)
    (tmp_path / "my-shop").mkdir()
    (tmp_path / "my-shop" / "fleet.tfvars").touch()
    for name in ("mediawiki-noisy", "ran-here", "my-shop"):
        fleet: dict[str, object] = {"experiment": name, "removed": False, "swept": []}
        assert answer("down", name, "--platform", "lent") == {"platform": "lent", "fleets": [fleet]}


def test_fleets_are_unknown_while_docker_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    outcome = call("list", "--results", str(tmp_path))
    assert outcome.exit_code == 0, outcome.output
    assert "fleets: unknown (Docker does not answer:" in outcome.output
    listing = answer("list", "--results", str(tmp_path))
    assert listing["fleets"] is None
    assert listing["unknown"].startswith("Docker does not answer: ")
    assert listing["designs"]
    assert refusal("down", "--all").exit_code == 3
