"""`sparecraft adopt`: a plan becomes a design that can be run, or a message says why not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config_file import check, read_toml
from core.errors import InputError
from experiments.design import Design, designs_available, load_design
from experiments.design.cases import read_experiment
from experiments.design.design import find_design
from experiments.design.design_files import FOLDER, copy_design_files
from experiments.design.experiment import Arm, Experiment, Interference, Load, TierSettings
from experiments.design.schedule import blocks
from experiments.design.text import experiment_text, fleet_text
from experiments.kinds.compare.adopt import NAME_LENGTH_MAX, adopt
from experiments.paths import ROOT
from experiments.record.manifest import infeasible_json
from experiments.tests.adopt_fixture import RUN, source_run
from experiments.tests.called import call
from experiments.tests.planned_fixture import TFVARS, prediction
from experiments.tests.spec_fixture import TFVARS as SOURCE_TFVARS
from experiments.tests.spec_fixture import TOML, design
from experiments.tests.started import executable
from random_tests import examples


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return source_run(tmp_path / "run")


def refusal(run: Path, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        adopt(run, **options)
    assert error.value.exit_code == 2
    return str(error.value)


def test_the_design_has_the_plans_fleet_and_the_runs_conditions(run: Path, tmp_path: Path) -> None:
    source, new_design = design(tmp_path / "source"), adopt(run)
    for part in ("load", "phases", "interference", "faults", "rates"):
        assert getattr(new_design.experiment, part) == getattr(source.experiment, part)
    slo = source.experiment.slo.model_copy(update={"preregistered": True})
    assert new_design.experiment.slo == slo
    order = new_design.experiment.design
    assert (order.seed, order.order, order.looked_after) == (20260101, "A", (4, 6, 8))
    assert [(t.nodes, t.standby, t.cpus) for t in new_design.fleet.tiers.values()] == [
        (4, 0, 0.6),
        (3, 0, 0.6),
    ]
    assert new_design.experiment.arms == {
        "planned": Arm(
            settings={
                "web": TierSettings(policy="tad", replicas=2, tokens=2),
                "db": TierSettings(policy="tad", replicas=1, tokens=12),
            }
        )
    }
    assert new_design.fleet.experiment == "mediawiki-noisy-planned"
    assert new_design.directory == run.resolve() / "mediawiki-noisy-planned"
    assert new_design.prediction is not None
    assert new_design.prediction.predicted.p95_ms == 231.0
    assert load_design(new_design.directory) == new_design


def test_the_command_that_measures_the_plan_is_shown(run: Path, tmp_path: Path) -> None:
    result = call("adopt", str(run), "--to", str(tmp_path / "planned"))
    assert result.exit_code == 0, result.output
    assert f"sparecraft run {tmp_path}/planned" in result.stdout


def test_a_plan_whose_own_limits_let_copies_meet_is_allowed_and_says_so(tmp_path: Path) -> None:
    tiers = prediction()["tiers"]
    tiers["db"]["replicas"] = 2
    new_design = adopt(source_run(tmp_path / "run", tiers=tiers))
    [arm] = new_design.experiment.arms.values()
    assert arm.allow_infeasible
    assert [violation["tier"] for violation in infeasible_json(new_design)] == ["db"]


def test_its_blocks_meet_the_arrivals_of_the_runs_pairs(run: Path, tmp_path: Path) -> None:
    source, new_design = design(tmp_path / "source"), adopt(run)
    old, new = blocks(source.experiment), blocks(new_design.experiment)
    assert len(new) == len(old)
    assert [block.pair for block in new] == list(range(len(new)))
    seeds = {block.pair: block.seed for block in old}
    assert [block.seed for block in new][: len(seeds)] == list(seeds.values())


def test_arbiters_stay_as_large_as_those_that_were_measured(tmp_path: Path) -> None:
    tfvars = SOURCE_TFVARS.replace("tokens = 12 }", "tokens = 12, cpus = 2, memory_mb = 300 }")
    new_design = adopt(source_run(tmp_path / "run", tfvars))
    assert (new_design.fleet.arbiters["db"].cpus, new_design.fleet.arbiters["db"].memory_mb) == (
        2.0,
        300,
    )
    assert new_design.fleet.arbiters["db"].tokens == 12


def test_a_tier_without_an_arbiter_gets_none_and_its_image_stays(tmp_path: Path) -> None:
    tfvars = SOURCE_TFVARS.replace("  web = { tokens = 1 }\n", "")
    tfvars = tfvars.replace("nodes = 3", 'nodes = 3, image = "mariadb:11"')
    toml = TOML.replace('web = { policy = "tad", replicas = 2, tokens = 1 }\n', "")
    new_design = adopt(source_run(tmp_path / "run", tfvars, toml=toml))
    assert list(new_design.fleet.arbiters) == ["db"]
    assert list(new_design.experiment.arms["planned"].settings) == ["db"]
    assert new_design.fleet.tiers["db"].image == "mariadb:11"


def test_a_tier_that_no_plan_changes_stays_in_the_fleet(tmp_path: Path) -> None:
    tfvars, toml = (
        (ROOT / "experiments/tests/designs/promotion" / name).read_text()
        for name in ("fleet.tfvars", "experiment.toml")
    )
    tiers = {"store": prediction()["tiers"]["web"]}
    run = source_run(tmp_path / "run", tfvars, toml, tiers=tiers, tfvars=tfvars)
    fleet = adopt(run).fleet
    assert (fleet.tiers["sentinels"].nodes, list(fleet.arbiters)) == (3, ["store"])
    without = tfvars.replace('calls         = ["sentinels"]', "").split("  sentinels = {")[0] + "}"
    shutil.rmtree(run)
    run = source_run(
        run, tfvars, toml, tiers=tiers, tfvars=f"{without}\narbiters = {{ store = {{}} }}\n"
    )
    assert "tfvars" in refusal(run)


def test_addresses_are_left_to_be_chosen(tmp_path: Path) -> None:
    tfvars = SOURCE_TFVARS + 'data_cidr = "198.18.208.0/20"\nentry_port = 18081\n'
    text = (adopt(source_run(tmp_path / "run", tfvars)).directory / "fleet.tfvars").read_text()
    assert "cidr" not in text
    assert "port" not in text


@given(st.from_regex(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?", fullmatch=True))
@examples(60)
def test_every_name_is_valid_for_terraform_and_another(source: str) -> None:
    from experiments.kinds.compare.adopt import _planned_name

    names = [source]
    for _ in range(12):  # a plan of a planned fleet's run, and so on
        names.append(_planned_name(names[-1]))
        assert len(names[-1]) <= NAME_LENGTH_MAX
        assert not names[-1].endswith("-")
        assert names[-1].removesuffix("-planned") != ""
    assert len(set(names)) == len(names)


def test_a_design_made_before_is_replaced_and_another_folder_is_not(
    run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    first = adopt(run, to=folder)
    (run / "plan.json").write_text(json.dumps(prediction(usd_per_month=71.0)))
    assert adopt(run, to=folder).prediction != first.prediction
    (folder / "experiment.toml").write_text(TOML)
    assert "expected a folder that does not exist yet" in refusal(run, to=folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "--to" in refusal(run, to=empty)


def test_a_plan_that_is_given_takes_the_place_of_the_runs_own(run: Path, tmp_path: Path) -> None:
    plan_file = tmp_path / "other.json"
    plan_file.write_text(json.dumps(prediction(usd_per_month=99.0)))
    new_design = adopt(run, plan_file=plan_file)
    assert new_design.prediction is not None
    assert new_design.prediction.usd_per_month == 99.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feasible": False, "reasons": ["p99 800 ms at best"]}, "got an infeasible one: p99 800"),
        ({"inputs": {"run": "20250101T000000Z"}}, f"expected a plan made from run {RUN}"),
        ({"tfvars": TFVARS.replace('"mariadb"', '"mongo"')}, "tfvars.tiers.db.role"),
        ({"tfvars": TFVARS.replace('"db"', '"sql"').replace("  db =", "  sql =")},
         "expected the tiers web, db"),
        ({"tfvars": TFVARS.replace("cpus = 0.6", "cpus = 0")}, "tiers.web.cpus"),
        ({"tfvars": "tiers = {"}, "expected valid HCL"),
        ({"tfvars": ""}, "tfvars"),
        ({"tfvars": TFVARS.replace("nodes = 3", "nodes = 1")},
         "fault 2 (net.limp) on the planned fleet: expected one of the machines web-1,"),
        ({"tiers": {}}, "tiers"),
        ({"usd_per_month": -1.0}, "usd_per_month: expected greater than or equal to 0 (got -1.0)"),
        ({"predicted": {"p95_ms": "fast"}}, "predicted.p95_ms: expected number (got 'fast')"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_made_a_fleet_is_refused_and_nothing_is_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    run = source_run(tmp_path / "run", **changes)
    before = sorted(run.iterdir())
    assert message in refusal(run)
    assert sorted(run.iterdir()) == before


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("plan.json", "{", "plan.json: expected JSON"),
        ("plan.json", "[1]", "expected a plan: a JSON object"),
        ("plan.json", "{}", "expected a plan: a JSON object"),
        ("plan.json", None, "expected a plan.json (got No such file or directory)"),
        ("manifest.json", None, "expected a run's folder with manifest.json in it (got none)"),
        ("manifest.json", "{", "expected a run's manifest with its spec and fleet"),
        ("manifest.json", "[]", "expected a run's manifest with its spec and fleet"),
        ("manifest.json", '{"run": "r", "spec": {"fleet": {}}}', "manifest.json"),
    ],
)
def test_a_folder_that_is_not_whole_is_named(
    run: Path, file: str, text: str | None, message: str
) -> None:
    if text is None:
        (run / file).unlink()
    else:
        (run / file).write_text(text)
    assert message in refusal(run)


def test_a_place_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "expected a folder that can be written" in refusal(run, to=tmp_path / "file" / "new")


def _without_planned_arm(folder: Path) -> None:
    file = folder / "experiment.toml"
    file.write_text(file.read_text().replace("arms.planned", "arms.other"))


def _other_tiers(folder: Path) -> None:
    tiers = prediction()["tiers"]
    plan = prediction(tiers={"web": tiers["web"], "cache": tiers["db"]})
    (folder / "plan.json").write_text(json.dumps(plan))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_without_planned_arm, "arms: expected an arm planned"),
        (_other_tiers, "expected a plan of the fleet's tiers web, db"),
        (lambda folder: (folder / "plan.json").write_text("{"), "plan.json: expected JSON"),
    ],
)
def test_a_design_with_a_prediction_of_something_else_is_refused(
    run: Path, spoil: Callable[[Path], object], message: str
) -> None:
    folder = adopt(run).directory
    spoil(folder)
    with pytest.raises(InputError, match=message):
        load_design(folder)


def _with_load() -> list[str]:
    """The designs that have a [load]; without one, a run has no data for a plan."""
    values_by_name = {
        name: read_experiment(*find_design(name)).values for name in designs_available()
    }
    return [name for name, values in values_by_name.items() if "load" in values]


@pytest.mark.parametrize("name", _with_load())
def test_a_design_that_comes_with_sparecraft_survives_being_written(
    name: str, tmp_path: Path
) -> None:
    original = load_design(name)
    shutil.copytree(original.directory, tmp_path, dirs_exist_ok=True)  # roles of its own, workload
    (tmp_path / "fleet.tfvars").write_text(fleet_text(original.fleet, "again"))
    (tmp_path / "experiment.toml").write_text(experiment_text(original.experiment, "again\ntwice"))
    copy = load_design(tmp_path)
    assert (copy.fleet, copy.experiment) == (original.fleet, original.experiment)


@pytest.fixture(scope="module")
def read_design(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return design(tmp_path_factory.mktemp("design"))


@given(
    name=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1),
    interference=st.builds(Interference, pattern=st.sampled_from(["none", "front", "back", "both"]),
                           mean_gap_s=st.floats(1e-9, 3600), cpu_workers=st.integers(1, 64)),
)  # fmt: skip
@examples(60)
def test_an_experiment_is_read_back_as_it_was_written(
    read_design: Design, name: str, interference: Interference
) -> None:
    base_arms = read_design.experiment.arms
    arms = {name: base_arms["baseline"], name + "x": base_arms["replicated"]}
    experiment = read_design.experiment.model_copy(
        update={"arms": arms, "interference": interference}
    )
    file = read_design.directory / "again.toml"
    file.write_text(experiment_text(experiment, ""), encoding="utf-8")
    assert check(read_toml(file), Experiment) == experiment


def test_a_plan_from_a_run_with_fail_over_is_put_to_the_test_without_it(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["spec"] |= {"kind": "schemes", "failover": {"heartbeat_s": 1.0}, "schemes": {"a": 1}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    experiment = adopt(run).experiment
    assert (experiment.kind, experiment.failover) == ("compare", None)


def test_what_the_measured_design_brought_goes_along(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    executable(source / "bin" / "worker", "#!/bin/sh\n")
    (source / "workload.py").write_text(
        "from experiments.design.workloads import Operation, Population, Workload\n"
        "def asked():\n    return Population((Operation('a', '/a', 'a'),), 0.0)\n"
        "WORKLOADS = {'mine': Workload(asked, ('mediawiki',))}\n"
    )
    load = Load(user="mine", arrivals="constant", rate_per_s=1.0, worker="./bin/worker")
    copy_design_files(source, load, run / FOLDER)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["spec"]["load"] |= {"user": "mine", "worker": "./bin/worker"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    for _ in range(2):  # a second time over the first
        new_design = adopt(run)
        assert new_design.experiment.load.user in new_design.workloads
        assert os.access(new_design.directory / "bin" / "worker", os.X_OK)


def test_what_lies_outside_a_design_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    (tmp_path / "design").mkdir()
    load = Load(user="mine", arrivals="constant", rate_per_s=1.0, worker="../secret")
    copy_design_files(tmp_path / "design", load, tmp_path / "run" / "design")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("measurement", "reason"),
    [
        ({"ok": False, "disturbed": True, "reasons": ["others took 74 %"]}, "others took 74 %"),
        ({"ok": False, "reasons": ["sent late"]}, "measurement: sent late"),
    ],
)
def test_the_plan_of_a_run_that_is_not_valid_is_refused(
    run: Path, tmp_path: Path, measurement: dict[str, Any], reason: str
) -> None:
    result = {"valid": False, "verdicts": {"measurement": measurement}}
    (run / "result.json").write_text(json.dumps(result))
    message = refusal(run, to=tmp_path / "planned")
    assert RUN in message
    assert reason in message
    assert not (tmp_path / "planned").exists()
    (run / "result.json").write_text(json.dumps({"valid": True}))
    adopt(run, to=tmp_path / "planned")
