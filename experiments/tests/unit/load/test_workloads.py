"""Workloads and the contract with workers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from experiments.design.workers import worker_command
from experiments.design.workloads import ROLES, find_workloads, population_of
from experiments.load.plan import PLAN as PLANS
from experiments.load.plan import LocustFile
from experiments.load.record_reader import RecordReader
from experiments.paths import ROOT
from experiments.tests.load_fixture import PLAN, RECORD, waiting, written

HEAD = """\
from experiments.design.workloads import Operation, Population, Workload

def some():
    return Population((Operation("a", "/a", "a"),), 0.8)

"""
GOOD = HEAD + 'WORKLOADS = {"mine": Workload(some, ("shop",))}\n'


def test_every_built_in_workload_says_what_is_asked_of_a_role_that_exists() -> None:
    workloads = find_workloads(None)
    assert workloads
    for workload in workloads.values():
        operations = population_of(workload).operations
        assert all(
            operation.name and operation.request and operation.check for operation in operations
        )
        assert all((ROLES / role / "role.json").is_file() for role in workload.roles)


def test_a_design_brings_workloads_of_its_own_which_win(tmp_path: Path) -> None:
    built_in = find_workloads(None)
    written(tmp_path / "roles/shop/workload.py", GOOD.replace("mine", "of-the-role"))
    written(tmp_path / "workload.py", GOOD.replace("mine", "wiki-reader"))
    workloads = find_workloads(tmp_path)
    assert set(workloads) == {*built_in, "of-the-role"}
    assert workloads["wiki-reader"].roles == ("shop",)
    assert workloads["php-loop"] is built_in["php-loop"]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = (\n", 2), ("import no_such_module\n", 1), ("\n\nraise ValueError('no')\n", 3),
     ("a = 1\n", 1), (HEAD + 'WORKLOADS = ["mine"]\n', 6),
     (HEAD + 'WORKLOADS = {"mine": some}\n', 6),
     (HEAD + 'WORKLOADS = {"mine": Workload(population=some)}\n', 6)],
)  # fmt: skip
def test_a_module_that_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    path = written(tmp_path / "workload.py", text)
    with pytest.raises(InputError) as error:
        find_workloads(tmp_path)
    assert error.value.place == f"{path}:{line}"


@pytest.mark.parametrize(
    ("body", "place"),
    [("raise OSError('gone')", ":4"), ("return Population((), 0.8)", ":4"),
     ("return Population((Operation('a', 'b', 'c'),), 0.8, write_share=2.0)", ":4"),
     ("return None", "")],
)  # fmt: skip
def test_a_population_that_cannot_be_drawn_is_refused_with_its_line(
    tmp_path: Path, body: str, place: str
) -> None:
    text = GOOD.replace('return Population((Operation("a", "/a", "a"),), 0.8)', body)
    path = written(tmp_path / "workload.py", text)
    with pytest.raises(InputError) as error:
        population_of(find_workloads(tmp_path)["mine"])
    assert error.value.place == f"{path}{place}"


def test_a_worker_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a worker?")
    for worker in ("notes", "none", "../none"):
        with pytest.raises(InputError) as error:
            worker_command(worker, tmp_path)
        assert error.value.place == "load.worker"
    (tmp_path / "notes").chmod(0o755)
    with pytest.raises(InputError) as error:
        waiting(tmp_path, PLAN, worker="notes", design=tmp_path)
    assert error.value.place == "load.worker"


@pytest.mark.parametrize(
    "change",
    [{"index": 1}, {"index": -1}, {"name": "other"}, {"phase": "fault"}, {"outcome": "fine"},
     {"latency_ms": 12.0}, {"latency_ms": None}, {"done_s": None}, {"sent_s": 5.0},
     {"status": "200"}, {"intended_s": float("nan")}, {"more": 1}],
)  # fmt: skip
def test_a_record_that_is_not_of_the_plan_ends_what_is_taken(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "records"
    path.write_text(json.dumps({**RECORD, **change}) + "\n")
    reader = RecordReader(path, PLAN)
    assert reader.take() == ()
    assert reader.problem
    path.write_text((json.dumps(RECORD) + "\n") * 2)
    reader = RecordReader(path, PLAN)
    assert reader.take() == (RECORD,), "the first is good"
    assert "second time" in reader.problem


def test_a_task_of_a_locust_file_may_have_several_records_none_before_its_arrival(
    tmp_path: Path,
) -> None:
    plan = replace(PLAN, locustfile=LocustFile("locustfile.py", {"good": 1.0}, 30.0))
    late = {"intended_s": 0.5, "sent_s": 0.5, "done_s": 0.6, "latency_ms": 100.0}
    path = tmp_path / "records"
    lines = [RECORD, {**RECORD, **late, "name": "GET /second"}]
    path.write_text("".join(json.dumps(record) + "\n" for record in lines))
    reader = RecordReader(path, plan)
    reader.start_s = 0.0
    assert len(reader.take()) == 2, reader.problem
    reader = RecordReader(path, plan)
    reader.start_s = 0.2
    assert reader.take() == ()
    assert "intended_s" in reader.problem


@given(st.binary(max_size=300))
def test_no_bytes_of_a_records_file_do_more_than_end_what_is_taken(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("records") / "records"
    path.write_bytes(data)
    reader = RecordReader(path, PLAN)
    assert reader.take() == ()
    assert bool(reader.problem) == (b"\n" in data)


def test_a_plan_s_file_has_the_keys_of_its_schema() -> None:
    schema = json.loads((ROOT / "contracts/load-plan.schema.json").read_text())
    assert set(json.loads(PLANS.dump_json(PLAN))) == set(schema["properties"])
