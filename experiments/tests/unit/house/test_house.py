"""The house's own rules: imports go one way, and a service is named in its own folder only."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.paths import ROOT

SPECIAL_OF = {
    "endpoint": "compare",
    "schemes": "compare",
}  # a kind that is another with something added
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
    "commands": {
        "design",
        "record",
        "report",
        "testbed",
        "load",
        "run",
        "kinds",
        "nightly",
        "watch",
        "importers",
    },
    "cli": {"commands"},
    **{name: {"paths"} for name in sorted(EVERYWHERE)},
}
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


def _imports(path: Path) -> set[str]:
    """The modules that a file imports, at its top or in a function."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


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
    against = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in files
        for module in _imports(path)
        if _folder(module) not in allowed
    }
    assert against == set()


def test_every_folder_has_its_place_in_the_order() -> None:
    top = ROOT / "experiments"
    found = {path.parent.name for path in top.glob("*/__init__.py")}
    found |= {path.stem for path in top.glob("*.py")} - {"__init__"}
    assert found - {"tests", "designs"} == set(MAY_IMPORT)


@pytest.mark.parametrize("top", ["core", "experiments", "optimizer", "grafana", "infra"])
def test_no_test_imports_another(top: str) -> None:
    tests = [path for path in (ROOT / top).rglob("test_*.py") if "tests" in path.parts]
    against = {path.name: [m for m in _imports(path) if ".test_" in m] for path in tests}
    assert {name: modules for name, modules in against.items() if modules} == {}


@pytest.mark.parametrize(
    ("top", "below"),
    [("optimizer", {"optimizer", "core"}), ("core", {"core"})],
)
def test_a_wing_imports_only_what_lies_below_it(top: str, below: set[str]) -> None:
    wings = {"experiments", "optimizer", "grafana", "bench", "core", "docs"}
    against = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in _code(top)
        for module in _imports(path)
        if module.split(".")[0] in wings - below
    }
    assert against == set()


def test_no_kind_knows_another_but_the_one_it_is_a_special_case_of() -> None:
    kinds = {path.parent.name for path in (ROOT / "experiments/kinds").glob("*/__init__.py")}
    against = {
        f"{path.relative_to(ROOT)}: {module}"
        for kind in kinds
        for path in _code(f"experiments/kinds/{kind}")
        for module in _imports(path)
        if re.match(
            rf"experiments\.kinds\.({'|'.join(kinds - {kind, SPECIAL_OF.get(kind)})})\b", module
        )
    }
    assert against == set()


def _services() -> set[str]:
    roles = (ROOT / "infra" / "roles").glob("*/role.json")
    return {path.parent.name for path in roles if json.loads(path.read_text()).get("tier", True)}


def _policies() -> set[str]:
    stated = json.loads((ROOT / "contracts" / "policies.json").read_text())
    return {policy["name"] for policy in stated["policies"]}


def _names(path: Path, services: set[str], policies: set[str]) -> set[str]:
    """The services that a file names, and its policies where it lists more than two: a
    model may be of two."""
    text = path.read_text()
    words = set(re.findall(r"(?<![A-Za-z])[a-z0-9-]+", text))  # "Slots" is no "lots"
    listed = {name for name in policies if f'"{name}"' in text}
    return (services - PROTOCOLS) & words | (listed if len(listed) > 2 else set())


@pytest.mark.parametrize("top", ["infra/stacks", "experiments", "optimizer"])
def test_no_service_is_named_and_no_policies_are_listed_outside_their_own_place(top: str) -> None:
    services, policies = _services(), _policies()
    assert {"mediawiki", "redis"} <= services
    found = {
        name: named
        for path in _code(top)
        if not (name := str(path.relative_to(ROOT))).startswith(OF_PAPERS)
        if (named := _names(path, services, policies))
    }
    assert found == {}


def _packages(script: str) -> set[str]:
    (found,) = re.findall(r"^packages=\((.*)\)$", (ROOT / script).read_text(), re.MULTILINE)
    return set(found.split())


def test_an_instance_has_the_packages_of_every_image() -> None:
    of_images = _packages("ci/base-image")
    assert _packages("infra/boot/boot.sh") == of_images | {"python3-boto3"}
