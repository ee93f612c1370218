"""A load worker is any program: one by the contract alone, and those that do not keep to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.design.workers import worker_command
from experiments.errors import InputError, MeasurementFailed
from experiments.load import generator
from experiments.load.plan import PLAN as PLANS
from experiments.load.received import RecordReader
from experiments.load.schemas import SCHEMAS
from experiments.paths import ROOT
from experiments.record.records import REQUESTS
from experiments.tests.load_fixture import (
    PLAN,
    alive,
    begun,
    children,
    follow,
    make_plan,
    run,
    waiting,
)
from experiments.tests.servers import serving

PATHS = ["good", "chunked", "fails", "wrong_title", "reset"] * 10
WORKERS = Path(__file__).with_name("workers")


@pytest.mark.real
def test_a_worker_of_another_s_hand_sends_the_block_with_the_same_outcomes(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, PATHS)
        own, _ = run(tmp_path / "own", plan, worker="toy", design=WORKERS)
        native, _ = run(tmp_path / "native", plan, worker="native")
        locust, _ = run(tmp_path / "locust", plan, worker="locust")
    assert own.schema == REQUESTS
    same = ["arm", "repeat", "pair", "phase", "index", "user", "name", "outcome"]
    assert own.select(same).equals(native.select(same))
    assert own.select(same).equals(locust.select(same))
    assert native.select("status", "bytes").equals(locust.select("status", "bytes"))
    assert (own["lag_ms"] >= 0).all()
    assert sorted(server.requests) == sorted([f"/{path}" for path in PATHS] * 3)


# What a worker does after its imports; `told` is the socket, `plan` and `records` are paths.
BEGIN = f"""#!{sys.executable}
import json, os, signal, socket, subprocess, sys, time
plan, records, number = sys.argv[2], sys.argv[4], int(sys.argv[6])
told = socket.socket(fileno=number)
"""
READY = 'told.send(b\'{"state": "ready"}\\n\'); told.recv(1000)\n'
WRITES = "open(records, 'w').write"
DONE = """told.send(b'{"state": "done", "launched": 1, "recorded": N}\\n')\n"""
FOREVER = "signal.pause()\n"

RECORD = {
    "phase": "warm-up", "index": 0, "name": "good", "intended_s": 0.0, "sent_s": 0.0,
    "done_s": 0.0, "latency_ms": 0.0, "lag_ms": 0.0, "outcome": "ok", "status": 200, "bytes": 1,
}  # fmt: skip


def program(directory: Path, body: str) -> dict[str, Any]:
    """A worker that does as `body` says, as a generator takes it."""
    path = directory / "worker"
    path.write_text(BEGIN + body, encoding="utf-8")
    path.chmod(0o755)
    return {"worker": "worker", "design": directory}


@pytest.mark.real
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit('no such server')\n", "no such server"),
        ("told.send(b'hello\\n')\n" + FOREVER, "hello"),
        ('told.send(b\'{"state": "steady"}\\n\')\n' + FOREVER, "steady"),
        ("told.sendall(b'x' * (1 << 22))\n", "without end"),
        ("told.close()\n" + FOREVER, "control socket"),
        ("while True: print('x' * 100_000)\n", "a log of more than"),
        (FOREVER, "is ready"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(9)\n", "is ready"),
    ],
)
def test_a_worker_that_does_not_come_to_be_ready_is_ended_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    if said == "is ready":  # what another says may take as long as it likes
        monkeypatch.setattr(generator, "READY_TIMEOUT_S", 1.0)
    handle = waiting(tmp_path, PLAN, **program(tmp_path, body))
    with pytest.raises(MeasurementFailed) as failed:
        handle.wait_ready()
    assert failed.value.place == "load worker, block 3"
    assert said in failed.value.came
    assert alive([handle.pid]) == []


@pytest.mark.real
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (WRITES + "('rubbish\\n')\n" + FOREVER, "rubbish"),
        (WRITES + f"('{json.dumps({**RECORD, 'index': 7})}\\n')\n" + FOREVER, "index 7"),
        (WRITES + f"('{json.dumps(RECORD)}\\n')\n" + FOREVER, "intended_s"),
        (WRITES + "('x' * (1 << 20))\n" + FOREVER, "longer than"),
        (DONE.replace("N", "1"), "0 records"),
        (DONE.replace("N", "0"), "1 requests"),
        ("os.kill(os.getpid(), signal.SIGKILL)\n", "9"),
    ],
)  # fmt: skip
def test_a_worker_that_fails_at_its_block_is_noticed_and_says_why(
    tmp_path: Path, body: str, said: str
) -> None:
    handle = begun(tmp_path, PLAN, **program(tmp_path, READY + body))
    try:
        status = follow(handle, lambda status: status.state == "failed")
    finally:
        handle.stop()
    assert said in status.problem
    assert alive([handle.pid]) == []
    assert handle.records().height == 0


@pytest.mark.real
def test_what_a_worker_has_started_ends_with_it(tmp_path: Path) -> None:
    body = "subprocess.Popen(['sleep', '600'])\n" + READY + FOREVER
    handle = begun(tmp_path, PLAN, **program(tmp_path, body))
    pids = [handle.pid, *children(handle.pid)]
    handle.stop()
    assert len(pids) == 2
    assert alive(pids) == []


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
