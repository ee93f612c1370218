"""Cases: further designs of one folder, each with values of its own over the folder's."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.commands.list import _designs
from experiments.design import load_design
from experiments.design.cases import merge, names_in
from experiments.design.design import find_design
from experiments.nightly.suite import Entry, digest_of, variant
from experiments.tests.spec_fixture import TOML, write

NIGHT = """
[[cases]]
name = "day"
load.rate_per_s = 7

[[cases]]
name = "night"
without = ["faults", "interference"]
arms.alone.settings.web = { policy = "round-robin" }
[cases.load]
rate_per_s = 3
[cases.design]
order = "A"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path / "shop", toml=TOML + NIGHT)


def test_a_case_is_its_folder_s_design_with_other_values_and_a_name_of_its_own(shop: Path) -> None:
    base, night = load_design(shop), load_design(shop.parent / "night")
    assert (night.name, night.fleet.experiment, night.directory) == ("night", "night", shop)
    assert night.path == shop.with_name("night")
    assert night.fleet.model_copy(update={"experiment": base.fleet.experiment}) == base.fleet
    assert list(night.experiment.arms) == ["alone"], "its arms take the place of all others"
    assert (night.experiment.load.rate_per_s, base.experiment.load.rate_per_s) == (3, 5)
    assert (night.experiment.faults, night.experiment.interference.pattern) == ((), "none")
    assert night.experiment.load.user == base.experiment.load.user
    assert night.experiment.design.seed == base.experiment.design.seed
    assert load_design(shop.parent / "day").experiment.arms == base.experiment.arms


def test_a_case_is_found_and_listed_as_if_it_had_a_folder(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names_in(shop.parent) == ("day", "night", "shop")
    assert find_design("night", shop.parent) == (shop, "night")
    monkeypatch.chdir(shop.parent)
    assert find_design("night") == find_design("./night") == (shop, "night")
    assert [row["name"] for row in _designs([], Path())] == ["./day", "./night", "./shop"]
    with pytest.raises(InputError, match=r"\./evening"):
        find_design("./evening")
    (shop / "experiment.toml").write_text("[[cases]\n")
    assert names_in(shop.parent) == ("shop",)


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("rate_per_s = 3", "rate_per_s = -3", 11, "load.rate_per_s"),
        ('order = "A"', 'order = "AB"', 13, "design.order"),
        ('policy = "round-robin"', 'policy = "fastest"', 9, "arms.alone.settings.web.policy"),
        ('name = "night"', 'name = "Night"', 7, "cases.1.name"),
        ('"faults"', '"fault"', 8, "cases.1.without"),
    ],
)
def test_what_is_wrong_in_a_case_is_told_with_its_own_line(
    tmp_path: Path, old: str, new: str, line: int, key: str
) -> None:
    shop = write(tmp_path / "shop", toml=TOML + NIGHT.replace(old, new))
    name = "Night" if "Night" in new else "night"
    with pytest.raises(InputError) as error:
        load_design(shop.parent / name)
    assert error.value.place == f"{shop}/experiment.toml:{TOML.count(chr(10)) + line}: {key}"


def test_a_night_runs_a_case_by_its_name_and_has_a_digest_of_its_own(shop: Path) -> None:
    night = shop.parent / "night"
    assert variant(Entry(design="night"), night, shop.parent / "nights") == night
    entry = Entry(design="night", override={"load": {"rate_per_s": 4}})
    experiment = load_design(variant(entry, night, shop.parent / "nights")).experiment
    assert (experiment.load.rate_per_s, list(experiment.arms)) == (4, ["alone"])
    assert len({digest_of(folder, {}) for folder in (shop, night, shop.parent / "day")}) == 3


def test_tables_are_merged_and_all_else_is_replaced() -> None:
    below = {"a": {"b": 1, "c": [1, 2]}, "d": 2}
    assert merge(below, {"a": {"c": [3]}, "d": {"e": 4}}) == {
        "a": {"b": 1, "c": [3]},
        "d": {"e": 4},
    }
    assert below["a"] == {"b": 1, "c": [1, 2]}
