"""Python and Terraform say the same of any fleet: one table of changes, one verdict from each.

Terraform's comes from `terraform test` over the stacks' own spec.tf and roles.tf, without a
provider: a file with one plan for each spec, all in one call.
"""

from __future__ import annotations

import copy
import itertools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.config_file import ConfigFile, check
from core.errors import InputError
from experiments.design.fleet import Fleet, fleet_problems
from experiments.design.roles import Roles, find_roles
from experiments.paths import ROOT
from experiments.tests.spec_fixture import role
from random_tests import share

Spec = dict[str, Any]
Change = Callable[[Spec], None]

SIZE = {"nodes": 1, "cpus": 1.0, "memory_mb": 64, "nic_mbps": 1.0, "disk_mbps": 1.0}
BASE: Spec = {
    "experiment": "tst-parity",
    "scheme": "on-prem",
    "tiers": {
        "web": {**SIZE, "role": "mediawiki", "calls": ["db"]},
        "db": {**SIZE, "role": "mariadb"},
        "shop": {**SIZE, "role": "any-caller"},
    },
    "arbiters": {"web": {"tokens": 2}},
}
# The roles that a spec below names; no others, because Terraform reads all of them in each plan.
OUR_ROLES = (
    *("mediawiki", "mariadb", "redis", "redis-sentinel"),
    *("arbiter", "load", "influxdb", "grafana"),
)
OWN_ROLES: Spec = {
    "any-caller": {"calls": [{}], "arbiter": False},
    "two-caller": {"calls": [{"roles": ["mariadb", "redis"], "required": True}, {}]},
}


def _set(*path: Any) -> Change:
    """The change that sets the last of `path` as the value at the keys before it."""

    def change(spec: Spec) -> None:
        *parents, key, value = path
        for parent in parents:
            spec = spec[parent]
        spec[key] = value

    return change


def _all(*path: Any, values: tuple[Any, ...]) -> dict[str, Change]:
    return {f"{'.'.join(path)} = {value!r}": _set(*path, value) for value in values}


def _tier(name: str) -> Change:
    return _set("tiers", name, {**SIZE, "role": "redis"})


def _tiers(count: int) -> Change:
    return lambda spec: spec["tiers"].update(
        {f"t{number}": {**SIZE, "role": "redis"} for number in range(count - len(spec["tiers"]))}
    )


def _circle(spec: Spec) -> None:
    spec["tiers"]["shop"]["calls"] = ["far"]
    spec["tiers"]["far"] = {**SIZE, "role": "any-caller", "calls": ["shop"]}


def _circle_behind_an_entry(spec: Spec) -> None:
    _circle(spec)
    spec["entries"] = ["web", "shop"]


def _chain(spec: Spec) -> None:
    spec["tiers"]["shop"]["calls"] = ["far"]
    spec["tiers"]["far"] = {**SIZE, "role": "any-caller", "calls": ["db"]}


def _shop_as(role: str, *calls: str) -> Change:
    return lambda spec: spec["tiers"]["shop"].update(role=role, calls=list(calls))


EXPERIMENTS = ("abc-", "a" * 30, "a" * 31, "a-b", "A", "", "1a", "a_b")
NAMES = ("grafana", "my-db", "abcdefghijklmnop", "a" * 20, "a" * 21, "load", "arbiter", "influxdb",
         "a-", "-a", "Web", "w")  # fmt: skip
CHANGES: dict[str, Change] = {
    "nothing": lambda _: None,
    **_all("experiment", values=EXPERIMENTS),
    **_all("scheme", values=("cloud", "hybrid")),
    **{f"tier {name}": _tier(name) for name in NAMES},
    "no tiers": _set("tiers", {}),
    "ten tiers": _tiers(10),
    "eleven tiers": _tiers(11),
    **_all("tiers", "web", "nodes", values=(0, -1, 2, 99, 100, 101, 150, 1.5)),
    **_all("tiers", "web", "standby", values=(-1, 0, 1, 99, 100, 0.5)),
    **_all("tiers", "db", "cpus", values=(0.05, 0.1, 256.0, 257.0)),
    **_all("tiers", "db", "memory_mb", values=(63, 64.5, 4096)),
    **_all("tiers", "db", "nic_mbps", values=(0.5, 10.5)),
    **_all("tiers", "db", "disk_mbps", values=(0.5, 10.5)),
    **_all("tiers", "db", "instance_type", values=(None, "", "t3.small")),
    **_all("tiers", "db", "image", values=("", "mariadb:11")),
    **_all("tiers", "db", "role", values=("postgres", "arbiter", "load", "redis")),
    **_all("tiers", "web", "calls", values=([], ["sql"], ["db", "db"], ["db", "web"], ["shop"])),
    **_all("tiers", "db", "calls", values=([], ["shop"])),
    **_all("tiers", "shop", "calls", values=(["db"], ["shop"], ["web"], ["db", "web"])),
    "a call in a circle": _circle,
    "a call in a circle behind an entry": _circle_behind_an_entry,
    "a call in a chain": _chain,
    "both calls": _shop_as("two-caller", "db", "web"),
    "the required call is missing": _shop_as("two-caller", "web"),
    "the optional call is missing": _shop_as("two-caller", "db"),
    **_all("entries", values=(
        None, [], ["web"], ["web", "shop"], ["shop", "web"], ["web", "web", "shop"], ["sql"],
        ["web", "db", "shop"],
    )),
    **_all("arbiters", values=({}, {"db": {}}, {"shop": {}}, {"sql": {}}, {"web": {}, "db": {}})),
    **_all("arbiters", "web", "tokens", values=(0, 1, 1000, 1001, 1.5)),
    **_all("arbiters", "web", "cpus", values=(0.05, 256.0, 257.0)),
    **_all("arbiters", "web", "memory_mb", values=(63, 64, 64.5)),
}  # fmt: skip
PAIRS_STEP = 37  # every 37th pair of changes; fewer where random tests draw fewer


def specs() -> Iterator[tuple[str, Spec]]:
    """Each change alone, and some pairs of changes."""
    pairs = list(itertools.combinations(CHANGES, 2))[:: round(PAIRS_STEP / share())]
    for names in (*((name,) for name in CHANGES), *pairs):
        spec = copy.deepcopy(BASE)
        try:
            for name in names:
                CHANGES[name](spec)
        except KeyError:  # the first one took away what the second one changes
            continue
        yield " and ".join(names), spec


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A design's folder with two roles of a form that no built-in role has."""
    for name, fields in OWN_ROLES.items():
        definition = {"summary": name, "protocol": "http", "port": 80, **fields}
        role(tmp_path / "design", name, definition)
    return tmp_path / "design"


def _python_says(spec: Spec, roles: Roles) -> str:
    """The keys of all problems; empty for a fleet that can be made."""
    source = ConfigFile(Path("spec"), spec)
    try:
        source.refuse_all(fleet_problems(check(source, Fleet), roles))
    except InputError as error:
        return ", ".join(problem.place for problem in (error, *error.also))
    return ""


def _terraform_says(stack: Path, cases: list[tuple[str, Spec]], own: Path) -> list[str]:
    """The summary of each plan's errors; empty for one that went well."""
    tests = stack / "tests"
    tests.mkdir(parents=True)
    for name in ("spec.tf", "roles.tf"):
        (stack / name).symlink_to(ROOT / "infra" / "stacks" / "shared" / name)
    for folder in ("contracts", "infra"):
        (stack.parents[2] / folder).symlink_to(ROOT / folder)
    our_roles = stack.parents[2] / "ours"
    for name in OUR_ROLES:
        shutil.copytree(ROOT / "infra" / "roles" / name, our_roles / name)
    dirs = [str(our_roles), str(own / "roles")]
    for number, (_, spec) in enumerate(cases):
        run = {"command": "plan", "variables": {**spec, "roles_dirs": dirs}}
        (tests / f"{number:04d}.tftest.json").write_text(json.dumps({"run": {"plan": run}}))
    process = subprocess.run(
        ["terraform", "test", "-json"],
        cwd=stack, capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = {f"{number:04d}": "?" for number in range(len(cases))}
    for line in process.stdout.splitlines():
        message = json.loads(line)
        file = Path(message.get("@testfile", "")).name.split(".")[0]
        if message["type"] == "test_run" and message["test_run"]["progress"] == "complete":
            errors[file] = "" if message["test_run"]["status"] == "pass" else "refused:"
        elif message["type"] == "diagnostic" and file in errors:
            errors[file] += f" {message['diagnostic']['detail']}"
    assert "?" not in errors.values(), process.stderr
    return list(errors.values())


def test_both_accept_and_refuse_the_same_fleets(tmp_path: Path, own: Path) -> None:
    cases, roles = list(specs()), find_roles(own)
    python = [_python_says(spec, roles) for _, spec in cases]
    terraform = _terraform_says(tmp_path / "root" / "a" / "b" / "c", cases, own)
    assert 30 < python.count("") < len(cases) - 30, "both verdicts are often enough among them"
    differences = [
        f"{name}: Python {python_error or 'accepts'}; Terraform {terraform_error or 'accepts'}"
        for (name, _), python_error, terraform_error in zip(cases, python, terraform, strict=True)
        if bool(python_error) != bool(terraform_error)
    ]
    assert differences == []
