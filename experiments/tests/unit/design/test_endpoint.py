"""Designs of kind endpoint: what they need not say, and what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.design.endpoint import as_endpoint, left_out
from experiments.tests.spec_fixture import TOML, write

LOAD = """\
[load]
arrivals = "poisson"
rate_per_s = 20.0

[[load.operations]]
name = "front"
path = "/"

[phases]
warm_up = 1
measure = 5

[slo]
p95_ms = 100.0
p99_ms = 200.0
max_error_share = 0.01
"""


def read(directory: Path, text: str = LOAD) -> Design:
    directory.mkdir(exist_ok=True)
    (directory / "experiment.toml").write_text(text)
    return load_design(directory)


def keys(directory: Path, text: str) -> list[str]:
    """The last part of each place that is refused."""
    with pytest.raises(InputError) as error_info:
        read(directory, text)
    return [error.place.rpartition(": ")[2] for error in (error_info.value, *error_info.value.also)]


def test_load_phases_and_slo_are_a_whole_design(tmp_path: Path) -> None:
    design = read(tmp_path / "My Shop 2")
    assert design.is_endpoint
    assert design.fleet.experiment == "my-shop-2"
    assert list(design.experiment.arms) == ["target"]
    assert design.experiment.design.order == "A"


def test_a_service_that_fails_ends_the_run_unless_the_design_says_otherwise(tmp_path: Path) -> None:
    assert read(tmp_path).experiment.guard.error_share_max == 0.5
    design = read(tmp_path, LOAD + "[guard]\nerror_share_max = 0.1\n")
    assert design.experiment.guard.error_share_max == 0.1


def test_a_folder_with_arms_and_no_fleet_still_lacks_its_fleet(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(TOML)
    with pytest.raises(InputError) as error:
        load_design(tmp_path)
    assert error.value.place.endswith("fleet.tfvars")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (LOAD + '[interference]\npattern = "back"\n', "interference"),
        (
            LOAD
            + '[[faults]]\nkind = "process.hang"\nat_s = 1\nfor_s = 1\nselect = { all = true }\n',
            "faults",
        ),
        ('kind = "endpoint"\n' + LOAD + "[arms.baseline]\n", "arms.baseline"),
        (LOAD.replace("20.0", "2001.0"), "load.rate_per_s"),
        (LOAD.replace("measure = 5", "measure = 3600"), "phases.measure"),
        (LOAD.replace("20.0", "1900.0").replace("measure = 5", "measure = 600"), "load.rate_per_s"),
        (LOAD.replace("20.0", "-1.0"), "load.rate_per_s"),
        (LOAD.replace("[load]", "[load]\nallow_hosts = [1]"), "load.allow_hosts.0"),
    ],
)
def test_what_nobody_may_ask_of_an_endpoint_is_refused_by_its_key(
    tmp_path: Path, text: str, key: str
) -> None:
    assert key in keys(tmp_path, text)


def test_a_target_stands_in_designs_of_kind_endpoint_only(tmp_path: Path) -> None:
    write(tmp_path, toml=TOML.replace("[load]", '[load]\ntarget = "http://localhost:1"', 1))
    with pytest.raises(InputError) as error:
        load_design(tmp_path)
    assert error.value.place.endswith("load.target")


def test_a_design_of_a_fleet_keeps_its_load_phases_slo_and_seed() -> None:
    base = load_design("mediawiki-noisy")
    design = as_endpoint(base)
    base_experiment, experiment = base.experiment, design.experiment
    assert (experiment.load, experiment.phases, experiment.slo) == (
        base_experiment.load,
        base_experiment.phases,
        base_experiment.slo,
    )
    assert experiment.design.seed == base_experiment.design.seed
    assert (
        experiment.design.repeats
        == base_experiment.design.order.count("A") * base_experiment.design.repeats
    )
    assert (list(experiment.arms), experiment.interference.pattern, experiment.faults) == (
        ["target"],
        "none",
        (),
    )
    assert left_out(base_experiment) == "arms, interference"
    assert left_out(experiment) == ""


def test_a_design_without_a_load_cannot_ask_an_endpoint() -> None:
    with pytest.raises(InputError) as error:
        as_endpoint(load_design("limplock-hdfs"))
    assert error.value.place == "--target"
