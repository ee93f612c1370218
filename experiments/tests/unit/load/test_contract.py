"""A load worker is any program: one by the contract alone, and those that do not keep to it."""

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
from experiments.load.plan import PLAN as PLANS
from experiments.load.plan import LocustFile
from experiments.load.record_reader import RecordReader
from experiments.load.schemas import SCHEMAS
from experiments.paths import ROOT
from experiments.tests.load_fixture import (
    PLAN,
    waiting,
)

RECORD = {
    "phase": "warm-up", "index": 0, "name": "good", "intended_s": 0.0, "sent_s": 0.0,
    "done_s": 0.0, "latency_ms": 0.0, "lag_ms": 0.0, "outcome": "ok", "status": 200, "bytes": 1,
}  # fmt: skip


def test_a_worker_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a worker?")
    for worker in ("notes", "none", "../none"):
        with pytest.raises(InputError) as refused:
            worker_command(worker, tmp_path)
        assert refused.value.place == "load.worker"
    (tmp_path / "notes").chmod(0o755)
    with pytest.raises(InputError) as refused:
        waiting(tmp_path, PLAN, worker="notes", design=tmp_path)
    assert refused.value.place == "load.worker"


@pytest.mark.parametrize(
    "change",
    [
        {"index": 1}, {"index": -1}, {"name": "other"}, {"phase": "fault"}, {"outcome": "fine"},
        {"latency_ms": 12.0}, {"latency_ms": None}, {"done_s": None}, {"sent_s": 5.0},
        {"status": "200"}, {"intended_s": float("nan")}, {"more": 1},
    ],
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
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
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


def test_the_committed_schemas_are_those_of_the_code() -> None:
    for name, schema in SCHEMAS.items():
        kept = json.loads((ROOT / "contracts" / f"load-{name}.schema.json").read_text())
        assert kept == schema(), f"{name}: run ci/contracts"
    plan = json.loads(PLANS.dump_json(PLAN))
    assert set(plan) == set(SCHEMAS["plan"]()["properties"])
