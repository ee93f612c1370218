"""Load workers that are other programs: one that keeps the contract, and some that break it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from core.errors import MeasurementFailed
from experiments.load import generator
from experiments.paths import ROOT
from experiments.record.records import REQUESTS
from experiments.tests.load_fixture import (
    PLAN,
    RECORD,
    alive,
    begun,
    children,
    follow,
    make_plan,
    run,
    waiting,
)
from experiments.tests.servers import serving
from experiments.tests.started import executable

PATHS = ["good", "chunked", "fails", "wrong_title", "reset"] * 10
WORKERS = ROOT / "experiments" / "tests" / "workers"


def test_a_worker_of_another_s_hand_sends_the_block_with_the_same_outcomes(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, PATHS)
        toy, _ = run(tmp_path / "own", plan, worker="toy", design=WORKERS)
        native, _ = run(tmp_path / "native", plan, worker="native")
        locust, _ = run(tmp_path / "locust", plan, worker="locust")
    assert toy.schema == REQUESTS
    columns = ["arm", "repeat", "pair", "phase", "index", "user", "name", "outcome"]
    assert toy.select(columns).equals(native.select(columns))
    assert toy.select(columns).equals(locust.select(columns))
    assert native.select("status", "bytes").equals(locust.select("status", "bytes"))
    assert (toy["lag_ms"] >= 0).all()
    assert sorted(server.requests) == sorted([f"/{path}" for path in PATHS] * 3)


# The start of each worker; `told` is the control socket, `plan` and `records` are paths.
BEGIN = f"""#!{sys.executable}
import json, os, signal, socket, subprocess, sys, time
plan, records, number = sys.argv[2], sys.argv[4], int(sys.argv[6])
told = socket.socket(fileno=number)
"""
READY = 'told.send(b\'{"state": "ready"}\\n\'); told.recv(1000)\n'
WRITES = "open(records, 'w').write"
DONE = """told.send(b'{"state": "done", "launched": 1, "recorded": N}\\n')\n"""
FOREVER = "signal.pause()\n"


def program(directory: Path, body: str) -> dict[str, Any]:
    """Options of a generator whose worker runs `body`."""
    executable(directory / "worker", BEGIN + body)
    return {"worker": "worker", "design": directory}


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
    if said == "is ready":  # the other workers have the usual time
        monkeypatch.setattr(generator, "READY_TIMEOUT_S", 1.0)
    handle = waiting(tmp_path, PLAN, **program(tmp_path, body))
    with pytest.raises(MeasurementFailed) as failed:
        handle.wait_ready()
    assert failed.value.place == "load worker, block 3"
    assert said in failed.value.got
    assert alive([handle.pid]) == []


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


def test_what_a_worker_has_started_ends_with_it(tmp_path: Path) -> None:
    body = "subprocess.Popen(['sleep', '600'])\n" + READY + FOREVER
    handle = begun(tmp_path, PLAN, **program(tmp_path, body))
    pids = [handle.pid, *children(handle.pid)]
    handle.stop()
    assert len(pids) == 2
    assert alive(pids) == []
