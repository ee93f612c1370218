"""Workloads: where they are found, what a broken one says, and a client of a workload's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design.workloads import ROLES, find_workloads, population_of

HEAD = """\
from experiments.design.workloads import Operation, Population, Workload

def some():
    return Population((Operation("a", "/a", "a"),), 0.8)

"""
GOOD = HEAD + 'WORKLOADS = {"mine": Workload(some, ("shop",))}\n'


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_built_in_workload_says_what_is_asked_of_a_role_that_exists() -> None:
    found = find_workloads(None)
    assert found
    for workload in found.values():
        operations = population_of(workload).operations
        assert all(one.name and one.request and one.check for one in operations)
        assert all((ROLES / role / "role.json").is_file() for role in workload.roles)


def test_a_design_brings_workloads_of_its_own_which_win(tmp_path: Path) -> None:
    built_in = find_workloads(None)
    written(tmp_path / "roles/shop/workload.py", GOOD.replace("mine", "of-the-role"))
    written(tmp_path / "workload.py", GOOD.replace("mine", "wiki-reader"))
    found = find_workloads(tmp_path)
    assert set(found) == {*built_in, "of-the-role"}
    assert found["wiki-reader"].roles == ("shop",)
    assert found["php-loop"] is built_in["php-loop"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = (\n", 2),
        ("import no_such_module\n", 1),
        ("\n\nraise ValueError('no')\n", 3),
        ("a = 1\n", 1),
        (HEAD + 'WORKLOADS = ["mine"]\n', 6),
        (HEAD + 'WORKLOADS = {"mine": some}\n', 6),
        (HEAD + 'WORKLOADS = {"mine": Workload(population=some)}\n', 6),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    path = written(tmp_path / "workload.py", text)
    with pytest.raises(InputError) as refused:
        find_workloads(tmp_path)
    assert refused.value.place == f"{path}:{line}"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("raise OSError('gone')", ":4"),
        ("return Population((), 0.8)", ":4"),
        ("return Population((Operation('a', 'b', 'c'),), 0.8, write_share=2.0)", ":4"),
        ("return None", ""),
    ],
)
def test_a_population_that_cannot_be_drawn_is_refused_with_its_line(
    tmp_path: Path, body: str, place: str
) -> None:
    text = GOOD.replace('return Population((Operation("a", "/a", "a"),), 0.8)', body)
    path = written(tmp_path / "workload.py", text)
    with pytest.raises(InputError) as refused:
        population_of(find_workloads(tmp_path)["mine"])
    assert refused.value.place == f"{path}{place}"
