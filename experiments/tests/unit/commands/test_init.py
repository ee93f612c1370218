"""`sparecraft init`: the folder that it makes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.commands.init import make_design
from experiments.tests.called import call


def test_a_new_design_has_its_own_name_and_passes_the_check(tmp_path: Path) -> None:
    folder = tmp_path / "flower-shop"
    made = call("init", str(folder))
    assert made.exit_code == 0, made.output
    assert 'experiment = "flower-shop"' in (folder / "fleet.tfvars").read_text()
    checked = call("check", str(folder))
    assert checked.exit_code == 0, checked.output


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    with pytest.raises(InputError) as refused:
        make_design(folder)
    assert refused.value.place == str(folder)
    assert [path.name for path in folder.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("name", ["My-Shop", "1shop", "shop-", "a" * 31, "shop.d", "shop_x"])
def test_a_name_that_no_fleet_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as refused:
        make_design(tmp_path / name)
    assert refused.value.got == repr(name)
    assert list(tmp_path.iterdir()) == []
