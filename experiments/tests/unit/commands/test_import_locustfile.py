"""`sparecraft import locustfile`, and `check` of a design that has one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from core.errors import InputError
from experiments.commands.import_locustfile import make_locust_design
from experiments.design import load_design, locustfile
from experiments.design.design_files import copy_design_files
from experiments.paths import ROOT
from experiments.tests.called import answer, call, refusal
from experiments.tests.locust_fixture import ORDINARY


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop_users.py"
    path.write_text(ORDINARY)
    return path


def test_it_shows_users_tasks_weights_and_what_is_not_honoured(file: Path) -> None:
    report = answer("import", "locustfile", str(file))
    users = {user["name"]: user for user in report["users"]}
    assert {name: user["weight"] for name, user in users.items()} == {
        "Shopper": 2.0, "Browser": 1.0, "Quick": 1.0,
    }  # fmt: skip
    (steps,) = users["Shopper"]["tasks"]
    assert steps["sequential"]
    assert [task["name"] for task in steps["tasks"]] == ["first", "second", "third"]
    (browsing,) = users["Browser"]["tasks"]
    assert {task["name"]: task["weight"] for task in browsing["tasks"]} == {"look": 3, "Deeper": 1}
    assert users["Quick"]["tasks"][0]["tags"] == ["fast"]
    assert users["Browser"]["waits"] == ["between", "constant_pacing"]
    assert users["Quick"]["waits"] == []
    assert set(report["codes"]) == {"wait_time", "shape", "host"}
    assert not list(file.parent.glob("*/")), "nothing is written without --to"


def test_it_makes_a_design_that_the_check_passes(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "flower-shop"
    result = call("import", "locustfile", str(file), "--to", str(folder))
    assert result.exit_code == 0, result.output
    assert not (folder / "flags.csv").exists()
    assert "load.operations" not in (folder / "README.md").read_text()
    report = answer("check", str(folder))
    assert report["load"]["locustfile"] == "shop_users.py"
    assert [user["name"] for user in report["locustfile"]["users"]] == [
        "Shopper",
        "Browser",
        "Quick",
    ]
    output = call("check", str(folder)).output
    assert output.count("not honoured") == 3, "each once"
    assert "not by the native worker" in " ".join(output.split())


def test_a_run_keeps_the_file_and_what_lies_beside_it_in_a_folder_of_its_own(
    file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "flower-shop"
    make_locust_design(file, folder)
    load = load_design(folder).experiment.load
    copy_design_files(folder, load, tmp_path / "alone")
    assert (tmp_path / "alone" / "shop_users.py").is_file()
    assert not (tmp_path / "alone" / "README.md").exists()
    (folder / "users").mkdir()
    (folder / "shop_users.py").rename(folder / "users" / "shop_users.py")
    (folder / "users" / "words.csv").write_text("a,b\n")
    moved = load.model_copy(update={"locustfile": "users/shop_users.py"})
    copy_design_files(folder, moved, tmp_path / "kept")
    assert sorted(path.name for path in (tmp_path / "kept" / "users").iterdir()) == [
        "shop_users.py", "words.csv",
    ]  # fmt: skip


HEAD = "import time\nimport requests\nfrom locust import HttpUser, task\n"
USER = "class One(HttpUser):\n    @task\n    def one(self):\n"


# The text of a file, the line that is named, and a word of the refusal.
REFUSED = {
    "raises": (HEAD + "1 / 0\n", 4, "ZeroDivisionError"),
    "syntax": (HEAD + "def f(:\n", 4, "SyntaxError"),
    "module": (HEAD + "import no_such_module_at_all\n", 4, "ModuleNotFoundError"),
    "old": ("from locust import HttpLocust\nclass Old(HttpLocust):\n    pass\n", 2, "ImportError"),
    "no-user": (HEAD, 0, "none"),
    "no-task": (HEAD + "class One(HttpUser):\n    pass\n", 0, "One"),
    "exit": (HEAD + "raise SystemExit(2)\n", 4, "SystemExit"),
    "network": (
        HEAD + "requests.get('http://a.example/')\n" + USER + "        pass\n", 4, "a.example",
    ),
    "url": (HEAD + USER + "        self.client.get('https://a.example/cart')\n", 7, "a.example"),
    "f-string": (
        HEAD + USER + "        requests.post(f'http://a.example/{self.host}')\n", 7, "a.example",
    ),
}  # fmt: skip
INSPECT = """
import json, os, sys
from pathlib import Path
from experiments.load.workers.locust.file_inspector import inspect_file
for path in map(Path, sys.argv[1:]):
    if not (child := os.fork()):
        path.with_suffix(".json").write_text(json.dumps(inspect_file(path)))
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of REFUSED and the inspector's answer beside each file. Importing
    Locust takes a second, so it is imported once for all files."""
    folder = tmp_path_factory.mktemp("refused")
    for name, (text, _, _) in REFUSED.items():
        (folder / f"{name}.py").write_text(text)
    files = map(str, sorted(folder.iterdir()))
    subprocess.run([sys.executable, "-c", INSPECT, *files], cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(
    inspected: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(
        locustfile, "_run_child", lambda path: (path.with_suffix(".json").read_bytes(), "")
    )
    path = inspected / f"{name}.py"
    error = refusal("import", "locustfile", str(path))
    _, line, got = REFUSED[name]
    assert error.place == (f"{path}:{line}" if line else str(path))
    assert got in error.got


def test_a_file_that_only_knows_its_host_is_not_taken_to_ask_another(tmp_path: Path) -> None:
    path = tmp_path / "locustfile.py"
    path.write_text(HEAD + USER + "        self.client.get(f'http://{self.host}/cart')\n")
    assert call("import", "locustfile", str(path)).exit_code == 0


def test_a_file_that_is_imported_for_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.design.locustfile.READ_S", 0.2)
    path = tmp_path / "locustfile.py"
    path.write_text(HEAD + "time.sleep(3600)\n")
    error = refusal("import", "locustfile", str(path))
    assert error.place == str(path)
    assert "0.2 s" in error.expected


@pytest.mark.parametrize(
    ("was", "now", "key"),
    [
        ("[load]", '[load]\nuser = "shopper"', "load.user"),
        ("[load]", "[load]\nworkers = 2", "load.workers"),
        ("[load]", '[load]\nworker = "./mine"', "load.worker"),
        ("task_timeout_s = 30.0", "task_timeout_s = 0.0", "load.task_timeout_s"),
        ('"shop_users.py"', '"none.py"', "load.locustfile"),
        ('"shop_users.py"', '"../shop_users.py"', "load.locustfile"),
    ],
)
def test_a_load_that_a_locustfile_cannot_be_is_refused(
    file: Path, tmp_path: Path, was: str, now: str, key: str
) -> None:
    folder = tmp_path / "flower-shop"
    make_locust_design(file, folder)
    toml = folder / "experiment.toml"
    assert was in toml.read_text()
    toml.write_text(toml.read_text().replace(was, now))
    error = refusal("check", str(folder))
    assert error.place.endswith(f": {key}"), error.place


def test_a_request_of_a_task_may_have_limits_by_its_name(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "flower-shop"
    make_locust_design(file, folder)
    toml = folder / "experiment.toml"
    toml.write_text(f'{toml.read_text()}\n[slo.operations."GET /page"]\np95_ms = 100.0\n')
    assert load_design(folder).experiment.slo.operations["GET /page"].p95_ms == 100.0


def test_any_name_of_the_file_may_stand_in_the_design(file: Path, tmp_path: Path) -> None:
    source = file.rename(tmp_path / 'shop "users".py')
    make_locust_design(source, tmp_path / "flower-shop")
    values = tomllib.loads((tmp_path / "flower-shop" / "experiment.toml").read_text())
    assert values["load"]["locustfile"] == source.name


@pytest.mark.parametrize("name", ["README.md", "experiment.toml"])
def test_a_file_that_would_lie_over_one_of_the_design_is_refused(
    file: Path, tmp_path: Path, name: str
) -> None:
    source = file.rename(tmp_path / name)
    with pytest.raises(InputError) as error:
        make_locust_design(source, tmp_path / "flower-shop")
    assert error.value.place == str(source)
    assert not (tmp_path / "flower-shop").exists()
