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
from experiments.record.manifest import infeasible_json
from experiments.tests.adopt_fixture import RUN, source_run
from experiments.tests.called import call
from experiments.tests.planned_fixture import TFVARS, prediction
from experiments.tests.spec_fixture import TFVARS as SOURCE_TFVARS
from experiments.tests.spec_fixture import TOML, design
from random_tests import examples


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return source_run(tmp_path / "run")


def refusal(run: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        adopt(run, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_the_design_has_the_plans_fleet_and_the_runs_conditions(run: Path, tmp_path: Path) -> None:
    source, made = design(tmp_path / "source"), adopt(run)
    for part in ("load", "phases", "interference", "faults", "rates"):
        assert getattr(made.experiment, part) == getattr(source.experiment, part)
    promised = source.experiment.slo.model_copy(update={"preregistered": True})
    assert made.experiment.slo == promised
    order = made.experiment.design
    assert (order.seed, order.order, order.looked_after) == (20260101, "A", (4, 6, 8))
    assert [(t.nodes, t.standby, t.cpus) for t in made.fleet.tiers.values()] == [
        (4, 0, 0.6),
        (3, 0, 0.6),
    ]
    assert made.experiment.arms == {
        "planned": Arm(
            settings={
                "web": TierSettings(policy="tad", replicas=2, tokens=2),
                "db": TierSettings(policy="tad", replicas=1, tokens=12),
            }
        )
    }
    assert made.fleet.experiment == "mediawiki-noisy-planned"
    assert made.directory == run.resolve() / "mediawiki-noisy-planned"
    assert made.prediction is not None
    assert made.prediction.predicted.p95_ms == 231.0
    assert load_design(made.directory) == made


def test_the_command_that_measures_the_plan_is_shown(run: Path, tmp_path: Path) -> None:
    done = call("adopt", str(run), "--to", str(tmp_path / "planned"))
    assert done.exit_code == 0, done.output
    assert f"sparecraft run {tmp_path}/planned" in done.stdout


def test_an_slo_without_a_p99_stays_one(tmp_path: Path) -> None:
    made = adopt(source_run(tmp_path / "run", toml=TOML.replace("p99_ms = 1000.0\n", "")))
    assert made.experiment.slo.p99_ms is None
    limits = made.experiment.slo.model_dump(exclude_none=True)
    assert (limits["p95_ms"], "p99_ms" in limits) == (500.0, False)


def test_a_plan_whose_own_limits_let_copies_meet_is_allowed_and_says_so(tmp_path: Path) -> None:
    tiers = prediction()["tiers"]
    tiers["db"]["replicas"] = 2
    made = adopt(source_run(tmp_path / "run", tiers=tiers))
    [arm] = made.experiment.arms.values()
    assert arm.allow_infeasible
    assert [one["tier"] for one in infeasible_json(made)] == ["db"]


def test_its_blocks_meet_the_arrivals_of_the_runs_pairs(run: Path, tmp_path: Path) -> None:
    source, made = design(tmp_path / "source"), adopt(run)
    old, new = blocks(source.experiment), blocks(made.experiment)
    assert len(new) == len(old)
    assert [block.pair for block in new] == list(range(len(new)))
    seeds = {block.pair: block.seed for block in old}
    assert [block.seed for block in new][: len(seeds)] == list(seeds.values())


def test_arbiters_stay_as_large_as_those_that_were_measured(tmp_path: Path) -> None:
    wide = SOURCE_TFVARS.replace("tokens = 12 }", "tokens = 12, cpus = 2, memory_mb = 300 }")
    made = adopt(source_run(tmp_path / "run", wide))
    assert (made.fleet.arbiters["db"].cpus, made.fleet.arbiters["db"].memory_mb) == (2.0, 300)
    assert made.fleet.arbiters["db"].tokens == 12


def test_a_tier_without_an_arbiter_gets_none_and_its_image_stays(tmp_path: Path) -> None:
    bare = SOURCE_TFVARS.replace("  web = { tokens = 1 }\n", "")
    bare = bare.replace("nodes = 3", 'nodes = 3, image = "mariadb:11"')
    toml = TOML.replace('web = { policy = "tad", replicas = 2, tokens = 1 }\n', "")
    made = adopt(source_run(tmp_path / "run", bare, toml=toml))
    assert list(made.fleet.arbiters) == ["db"]
    assert list(made.experiment.arms["planned"].settings) == ["db"]
    assert made.fleet.tiers["db"].image == "mariadb:11"


def test_addresses_are_left_to_be_chosen(tmp_path: Path) -> None:
    stated = SOURCE_TFVARS + 'data_cidr = "198.18.208.0/20"\nentry_port = 18081\n'
    text = (adopt(source_run(tmp_path / "run", stated)).directory / "fleet.tfvars").read_text()
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
    mine = tmp_path / "mine"
    first = adopt(run, to=mine)
    (run / "plan.json").write_text(json.dumps(prediction(usd_per_month=71.0)))
    assert adopt(run, to=mine).prediction != first.prediction
    (mine / "experiment.toml").write_text(TOML)
    assert "expected a folder that does not exist yet" in refusal(run, to=mine)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "--to" in refusal(run, to=empty)


def test_a_plan_that_is_given_takes_the_place_of_the_runs_own(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(prediction(usd_per_month=99.0)))
    made = adopt(run, plan_file=other)
    assert made.prediction is not None
    assert made.prediction.usd_per_month == 99.0


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
    """Those that a plan can be made of: who sends no [load] learns nothing for one."""
    stated = {name: read_experiment(*find_design(name)).values for name in designs_available()}
    return [name for name, values in stated.items() if "load" in values]


@pytest.mark.parametrize("name", _with_load())
def test_a_design_that_comes_with_sparecraft_survives_being_written(
    name: str, tmp_path: Path
) -> None:
    given = load_design(name)
    shutil.copytree(given.directory, tmp_path, dirs_exist_ok=True)  # roles of its own, workload
    (tmp_path / "fleet.tfvars").write_text(fleet_text(given.fleet, "again"))
    (tmp_path / "experiment.toml").write_text(experiment_text(given.experiment, "again\ntwice"))
    again = load_design(tmp_path)
    assert (again.fleet, again.experiment) == (given.fleet, given.experiment)


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
    known = read_design.experiment.arms
    arms = {name: known["baseline"], name + "x": known["replicated"]}
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
    made = adopt(run).experiment
    assert (made.kind, made.failover) == ("compare", None)


def test_what_the_measured_design_brought_goes_along(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "worker").write_text("#!/bin/sh\n")
    (source / "bin" / "worker").chmod(0o755)
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
        made = adopt(run)
        assert made.experiment.load.user in made.workloads
        assert os.access(made.directory / "bin" / "worker", os.X_OK)


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
