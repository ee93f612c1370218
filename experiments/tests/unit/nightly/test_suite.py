"""nightly.toml: what is wrong is named with file and key; what is right is what is run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design import load_design
from experiments.design.design import DESIGNS
from experiments.kinds import kind_of, section_of
from experiments.kinds.limplock.row import rows
from experiments.nightly.suite import digest_of, load_suite, variant
from experiments.paths import ROOT
from experiments.tests.nightly_fixture import made_up_run, suite_file, write_nights

ROWS_IN_TURN = ROOT / "ci" / "nightly" / "limplock.toml"


def test_a_suite_has_its_designs_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = suite_file(tmp_path, "mediawiki-noisy", 'memcached-noisy: name = "cache"; repeats = 2')
    suite = load_suite(path)
    assert [member.name for member in suite.members] == ["mediawiki-noisy", "cache"]
    assert suite.results == tmp_path.resolve() / "results"
    assert suite.file.keep_parquet_nights == 30
    assert 6 < suite.members[0].expected_minutes < 15


@pytest.mark.parametrize(
    ("designs", "keys", "key", "said"),
    [
        (["mediawiki-noisy"], {"budget_minutes": 0}, "budget_minutes", "greater than 0"),
        (["mediawiki-noisy"], {"buget": 1}, "buget", "unknown key"),
        (["mediawiki-noisy", "mediawiki-noisy"], {}, "designs.1.design", "a second time"),
        (["mediawiki-noisy: seed = 1; seeds = [2]"], {}, "designs.0.seed", "both"),
        (["mediawiki-noisy: repeats = 0"], {}, "designs.0.repeats", "greater than or equal to 1"),
        (["mediawiki-nosy"], {}, "designs.0.design", "no such design"),
        (["mediawiki-noisy: override = { load = { rate_per_s = -1.0 } }"], {},
         "designs.0.design", "rate_per_s"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_file_and_key(
    tmp_path: Path, designs: list[str], keys: dict[str, float], key: str, said: str
) -> None:
    path = suite_file(tmp_path, *designs, **keys)
    with pytest.raises(InputError) as caught:
        load_suite(path)
    assert str(path) in caught.value.place
    assert key in caught.value.place
    assert said in str(caught.value)
    assert caught.value.hint


def test_all_that_is_wrong_with_a_suite_s_designs_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_suite(suite_file(tmp_path, "mediawiki-nosy", "memcached-nosy"))
    assert len(caught.value.also) == 1


def test_a_design_that_the_history_knows_may_be_gone(tmp_path: Path) -> None:
    path = suite_file(tmp_path, "mediawiki-noisy", "given-up")
    write_nights(tmp_path / "nightly", [made_up_run(1, "given-up")], ["given-up"])
    suite = load_suite(path)
    assert [member.name for member in suite.members] == ["mediawiki-noisy"]
    assert set(suite.gone) == {"given-up"}
    with pytest.raises(InputError, match="given-up"):
        load_suite(suite_file(tmp_path, "given-up"))


def test_the_override_is_all_that_differs_from_the_design(tmp_path: Path) -> None:
    more = 'override = { interference = { pattern = "none" } }'
    member = load_suite(suite_file(tmp_path, f"mediawiki-noisy: {more}")).members[0]
    folder = variant(member.entry, member.directory, tmp_path / "designs")
    experiment, design = (
        load_design(folder, seed=9).experiment,
        load_design("mediawiki-noisy", seed=9),
    )
    assert experiment.interference.pattern == "none"
    back = {"interference": design.experiment.interference}
    assert experiment.model_copy(update=back) == design.experiment
    member = load_suite(suite_file(tmp_path, "mediawiki-noisy")).members[0]
    same_folder = variant(member.entry, member.directory, tmp_path / "designs")
    assert same_folder == (DESIGNS / "mediawiki-noisy").resolve(), "nothing is put over it"


def test_a_design_s_own_roles_and_workloads_come_along(tmp_path: Path) -> None:
    more = 'override = { interference = { pattern = "none" } }'
    member = load_suite(suite_file(tmp_path, f"nginx-python: {more}")).members[0]
    folder = variant(member.entry, member.directory, tmp_path / "designs")
    assert load_design(folder).roles["dictionary"].directory.is_relative_to(folder)


def _copy(name: str, into: Path) -> Path:
    return Path(shutil.copytree(DESIGNS / name, into / name))


def test_a_digest_is_of_values_and_not_of_how_they_are_written(tmp_path: Path) -> None:
    folder = _copy("mediawiki-noisy", tmp_path)
    digest = digest_of(folder, {})
    toml, tfvars = folder / "experiment.toml", folder / "fleet.tfvars"
    toml.write_text("# words\n" + toml.read_text())
    tfvars.write_text("# words\n" + tfvars.read_text())
    for name in ("README.md", "experiment.toml~", ".experiment.toml.swp", "notes.txt", "photo.png"):
        (folder / name).write_text("left by an editor")
    assert digest_of(folder, {}) == digest
    assert digest_of(folder, {"load": {"utilisation": 0.12}}) == digest  # as the design has it
    assert digest_of(folder, {"load": {"utilisation": 0.13}}) != digest
    tfvars.write_text(tfvars.read_text().replace("= 512", "= 640", 1))
    assert digest_of(folder, {}) != digest


def test_a_digest_is_of_every_byte_of_roles_and_programs(tmp_path: Path) -> None:
    folder = _copy("nginx-python", tmp_path)
    role = folder / "roles" / "dictionary" / "role.json"
    digests = {digest_of(folder, {})}
    role.write_text(json.dumps(json.loads(role.read_text()), indent=7))
    assert {digest_of(folder, {})} == digests
    names = ("roles/dictionary/start.sh", "roles/dictionary/new.conf", "worker.py")
    for number, name in enumerate(names, start=2):
        with (folder / name).open("a") as file:
            file.write("\n# more\n")
        digests.add(digest_of(folder, {}))
        assert len(digests) == number, name


def test_a_digest_is_of_every_file_that_the_design_names(tmp_path: Path) -> None:
    folder = _copy("mediawiki-noisy", tmp_path)
    values = {"load": {"worker": "./sends"}}
    digests = set()
    for text in ("one", "other"):
        (folder / "sends").write_text(text)
        digests.add(digest_of(folder, values))
    assert len(digests) == 2


def test_a_design_without_a_seed_has_one_digest_and_a_new_seed_each_night(tmp_path: Path) -> None:
    path = suite_file(tmp_path, "mediawiki-noisy")
    nights = [load_suite(path).members[0] for _ in range(3)]
    assert len({night.digest for night in nights}) == 1
    assert len({night.design.experiment.design.seed for night in nights}) > 1


@pytest.mark.parametrize("path", sorted((ROOT / "ci" / "nightly").glob("*.toml")))
def test_the_suites_that_come_along_are_in_order(path: Path) -> None:
    suite = load_suite(path)
    minutes = [member.expected_minutes * member.entry.repeats for member in suite.members]
    in_turn = path == ROWS_IN_TURN  # a night takes some of it
    assert (max(minutes) if in_turn else sum(minutes)) <= suite.file.budget_minutes
    assert suite.results == ROOT / "results"


def test_nights_take_every_row_of_limpbench_in_turn() -> None:
    designs = [member.design for member in load_suite(ROWS_IN_TURN).members]
    rows_of_designs = [section_of(kind_of(design), design).rows for design in designs]
    assert sorted(rows_of_designs) == sorted((name,) for name in rows())
