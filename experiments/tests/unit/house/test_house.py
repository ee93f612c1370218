"""Rules of the house: imports, names, docstrings, how modules are started, what callers leave."""

from __future__ import annotations

import ast
import json
import re
import runpy
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from experiments import paths
from experiments.paths import ROOT
from experiments.tests.started import disposition

# A kind that is another with something added.
SPECIAL_OF = {"endpoint": "compare", "schemes": "compare"}
EVERYWHERE = {"console", "paths", "program"}
# A folder of experiments/ and those that it may import.
MAY_IMPORT: dict[str, set[str]] = {
    "design": set(),
    "importers": {"design"},
    "record": {"design"},
    "report": {"design", "record"},
    "testbed": {"design", "record"},
    "load": {"design", "record", "testbed"},
    "run": {"design", "record", "testbed", "load"},
    "kinds": {"design", "record", "report", "testbed", "load", "run"},
    "nightly": {"design", "record", "report", "testbed", "run", "kinds"},
    "watch": {"record", "report"},
    "commands": {"design", "record", "report", "testbed", "load", "run", "kinds", "nightly",
                 "watch", "importers"},
    "cli": {"commands"},
    **{name: {"paths"} for name in sorted(EVERYWHERE)},
}  # fmt: skip
# A service's name is in its folder and in designs. A protocol may be called like a service, and
# what reproduces a paper names what the paper measured.
PROTOCOLS = {"memcached", "redis"}
OF_PAPERS = ("optimizer/reproduce/", "optimizer/commands/reproduce.py")
CODE = {".py", ".tf", ".tftpl"}


def _code(top: str) -> Iterator[Path]:
    """The files of a folder that are neither tests nor designs."""
    for path in sorted((ROOT / top).rglob("*")):
        inside = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") for part in inside)
        if path.suffix in CODE and not hidden and not {"tests", "designs"} & set(inside):
            yield path


class Told(NamedTuple):
    """The facts of a file for the rules: the modules that it imports, its docstrings by their line,
    and the lines that start a module by -m, and not by -P before."""

    imports: frozenset[str]
    docstrings: dict[int, str]
    without_p: list[int]


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def _told(path: Path) -> Told:
    """Read once for all rules."""
    imports: set[str] = set()
    docstrings: dict[int, str] = {}
    without_p: list[int] = []
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                imports |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                imports.add(node.module or "")
            case ast.List() | ast.Tuple():
                without_p += [node.lineno] * _starts_without_p(node.elts)
            case ast.Call():
                without_p += [node.lineno] * _starts_without_p(node.args)
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            docstrings[getattr(node, "lineno", 1)] = text
    return Told(frozenset(imports), docstrings, without_p)


def _starts_without_p(words: list[ast.expr]) -> bool:
    # sys.executable, and a list that begins with -m, have no word before it.
    texts = [str(word.value) if isinstance(word, ast.Constant) else "" for word in words]
    return any(
        word == "-m" and (not before or "python" in before)
        for before, word in zip(["", *texts], texts, strict=False)
    )


def _folder(module: str) -> str:
    return module.split(".")[1] if module.startswith("experiments.") else ""


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_go_one_way(folder: str) -> None:
    top = ROOT / "experiments"
    files = (
        [top / f"{folder}.py"]
        if (top / f"{folder}.py").exists()
        else _code(f"experiments/{folder}")
    )
    allowed = {"", folder, *MAY_IMPORT[folder], *(set() if folder in EVERYWHERE else EVERYWHERE)}
    violations = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in files
        for module in _told(path).imports
        if _folder(module) not in allowed
    }
    assert violations == set()


def test_every_folder_has_its_place_in_the_order() -> None:
    top = ROOT / "experiments"
    names = {path.parent.name for path in top.glob("*/__init__.py")}
    names |= {path.stem for path in top.glob("*.py")} - {"__init__"}
    assert names - {"tests", "designs"} == set(MAY_IMPORT)


@pytest.mark.parametrize("top", ["core", "experiments", "optimizer", "grafana", "infra"])
def test_no_test_imports_another(top: str) -> None:
    tests = [path for path in (ROOT / top).rglob("test_*.py") if "tests" in path.parts]
    violations = {path.name: [m for m in _told(path).imports if ".test_" in m] for path in tests}
    assert {name: modules for name, modules in violations.items() if modules} == {}


@pytest.mark.parametrize(
    ("top", "below"), [("optimizer", {"optimizer", "core"}), ("core", {"core"})]
)
def test_a_wing_imports_only_what_lies_below_it(top: str, below: set[str]) -> None:
    wings = {"experiments", "optimizer", "grafana", "bench", "core", "docs"}
    violations = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in _code(top)
        for module in _told(path).imports
        if module.split(".")[0] in wings - below
    }
    assert violations == set()


def test_no_kind_knows_another_but_the_one_it_is_a_special_case_of() -> None:
    kinds = {path.parent.name for path in (ROOT / "experiments/kinds").glob("*/__init__.py")}
    violations = {
        f"{path.relative_to(ROOT)}: {module}"
        for kind in kinds
        for path in _code(f"experiments/kinds/{kind}")
        for module in _told(path).imports
        if re.match(
            rf"experiments\.kinds\.({'|'.join(kinds - {kind, SPECIAL_OF.get(kind)})})\b", module
        )
    }
    assert violations == set()


def _services() -> set[str]:
    roles = (ROOT / "infra" / "roles").glob("*/role.json")
    return {path.parent.name for path in roles if json.loads(path.read_text()).get("tier", True)}


def _policies() -> set[str]:
    contract = json.loads((ROOT / "contracts" / "policies.json").read_text())
    return {policy["name"] for policy in contract["policies"]}


def _names(path: Path, services: set[str], policies: set[str]) -> set[str]:
    """The services that a file names, and its policies if it lists more than two: a model may
    list two."""
    text = path.read_text()
    words = set(re.findall(r"(?<![A-Za-z])[a-z0-9-]+", text))  # "Slots" is no "lots"
    listed = {name for name in policies if f'"{name}"' in text}
    return (services - PROTOCOLS) & words | (listed if len(listed) > 2 else set())


@pytest.mark.parametrize("top", ["infra/stacks", "experiments", "optimizer"])
def test_no_service_is_named_and_no_policies_are_listed_outside_their_own_place(top: str) -> None:
    services, policies = _services(), _policies()
    assert {"mediawiki", "redis"} <= services
    leaks = {
        name: terms
        for path in _code(top)
        if not (name := str(path.relative_to(ROOT))).startswith(OF_PAPERS)
        if (terms := _names(path, services, policies))
    }
    assert leaks == {}


def _packages(script: str) -> set[str]:
    (line,) = re.findall(r"^packages=\((.*)\)$", (ROOT / script).read_text(), re.MULTILINE)
    return set(line.split())


def test_an_instance_has_the_packages_of_every_image() -> None:
    image_packages = _packages("ci/base-image")
    assert _packages("infra/boot/boot.sh") == image_packages | {"python3-boto3"}


_STARTS = re.compile(r"python3? -m (experiments|optimizer|grafana)")


def _without_p(path: Path) -> list[int]:
    if path.suffix == ".py":
        return _told(path).without_p
    lines = enumerate(path.read_text().splitlines(), 1)
    return [number for number, line in lines if _STARTS.search(line)]


def test_no_module_is_started_from_the_working_directory() -> None:
    tops = ("experiments", "optimizer", "grafana", "infra")
    files = [
        path for top in tops for end in ("py", "sh") for path in (ROOT / top).rglob(f"*.{end}")
    ]
    violations = {
        str(path.relative_to(ROOT)): lines
        for path in files
        if "tests" not in path.parts and (lines := _without_p(path))
    }
    assert violations == {}, "experiments.program starts our modules"


TOPS = ("bench", "ci", "core", "docs", "experiments", "grafana", "infra", "optimizer", "sparecraft")
START = re.compile(r"(What|Who|Whose|Whether|Where|How)\b")
SHARE_MAX = 0.01


def _all() -> dict[str, str]:
    return {
        f"{path.relative_to(ROOT)}:{line}": text
        for top in TOPS
        for path in sorted((ROOT / top).rglob("*.py"))
        for line, text in _told(path).docstrings.items()
    }


def test_hardly_any_docstring_begins_with_a_question_word_and_none_sends_to_the_module() -> None:
    docstrings = _all()
    violations = {
        place: text.split("\n")[0] for place, text in docstrings.items() if START.match(text)
    }
    assert len(violations) <= SHARE_MAX * len(docstrings), violations
    assert {
        place for place, text in docstrings.items() if "see the module" in text.lower()
    } == set()


@pytest.fixture
def conftest(pytestconfig: pytest.Config) -> Any:
    """The one of the whole suite, whose module's name others have too."""
    return pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))


def test_what_a_test_starts_heeds_ctrl_c_though_the_suite_runs_in_the_background(
    conftest: Any,
) -> None:
    with disposition(signal.SIGINT, signal.SIG_IGN):
        conftest.heed_ctrl_c()
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_callers_terminal_account_and_stack_are_forgotten_and_nothing_else(conftest: Any) -> None:
    remaining = {
        "PATH": "/bin",
        "TF_CLI_CONFIG_FILE": "rc",
        "SPARECRAFT_TEST_SEED": "7",
        "TERM": "dumb",
    }
    callers = dict.fromkeys(
        ("COLUMNS", "FORCE_COLOR", "AWS_PROFILE", "TF_WORKSPACE", "TF_VAR_x", "SPARECRAFT_KINDS"),
        "1",
    )
    environment = remaining | callers
    conftest.forget_caller(environment)
    assert environment == remaining


@pytest.mark.parametrize("installed", [True, False])
def test_a_checkout_in_a_folder_called_rooms_is_no_wheel(tmp_path: Path, installed: bool) -> None:
    copy = tmp_path / "rooms" / "experiments" / "paths.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(Path(paths.__file__).read_text())
    if installed:
        (tmp_path / "__init__.py").touch()
    assert runpy.run_path(str(copy))["INSTALLED"] is installed
