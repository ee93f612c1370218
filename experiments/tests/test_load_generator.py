"""The load generator, as the runner drives it, against real servers that misbehave."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.errors import DiskFull, MeasurementFailed
from experiments.load.generator import LoadGenerator
from experiments.load.plan import read_plan, write_plan
from experiments.paths import ROOT
from experiments.record.records import REQUESTS
from experiments.tests.disks import fill
from experiments.tests.load_fixture import (
    CONNECT_S,
    EXPECTED,
    LEAD_S,
    RESPONSE_S,
    follow,
    make_plan,
    run,
)
from experiments.tests.servers import deaf, refusing, serving

pytestmark = pytest.mark.real

LOCUSTFILE = ROOT / "experiments/load/workers/locust/locustfile.py"

# A walk that is ended while the request whose record has just been made is not gone yet.
ENDED_AT_A_RECORD = """
from gevent import monkey; monkey.patch_all()
import json, pathlib, sys, time
import gevent
from experiments.load.plan import read_plan, write_plan
from experiments.load.workers.locust.open_loop import RecordFile
from experiments.load.workers.locust.walk import Walk
ends = []
def record(_):
    if not ends:
        ends.append(gevent.spawn(walk.end))
walk = Walk(read_plan(pathlib.Path(sys.argv[1])), RecordFile(pathlib.Path("/dev/null")), record)
walk.run(time.monotonic(), 0.1)
print(json.dumps(ends[0].get()))
"""


def test_every_misbehaviour_of_a_server_has_its_outcome(tmp_path: Path) -> None:
    paths = list(EXPECTED) * 4
    with serving() as server:
        plan = make_plan(server.url, paths)
        records, status = run(tmp_path, plan)
    assert status.state == "done"
    assert records.schema == REQUESTS
    assert records["index"].to_list() == list(range(len(paths)))
    came = {
        name: set(records.filter(name=name).select("outcome", "status").rows()) for name in EXPECTED
    }
    assert came == {name: {expected} for name, expected in EXPECTED.items()}
    # No request was sent a second time, and connections were kept where they could be.
    assert sorted(server.requests) == sorted(f"/{path}" for path in paths)
    assert server.connections < len(paths)
    assert records["arm"].unique().to_list() == ["baseline"]
    assert (records["repeat"].unique().item(), records["pair"].unique().item()) == (3, 1)
    assert records["phase"].to_list() == [plan.phase_at(offset) for offset in plan.offsets_s]
    assert read_plan(tmp_path / "block-03.plan.json") == plan


def test_a_time_out_enters_at_its_limit_even_if_the_server_trickles(tmp_path: Path) -> None:
    with serving() as server:
        records, _ = run(tmp_path, make_plan(server.url, ["trickle", "never"] * 5))
    since_sent_ms = records["latency_ms"] - records["lag_ms"]
    assert records["outcome"].unique().to_list() == ["time_out"]
    # Beyond its limit is only the time to connect, which has a limit of its own.
    assert (since_sent_ms >= RESPONSE_S * 1e3 - 0.01).all()
    assert (since_sent_ms <= (RESPONSE_S + CONNECT_S) * 1e3).all()


def test_a_connection_that_is_not_made_in_time_is_aborted_at_its_limit(tmp_path: Path) -> None:
    with deaf() as url:
        records, _ = run(tmp_path, make_plan(url, ["good"] * 5))
    assert records["outcome"].to_list() == ["aborted_connection"] * 5
    since_sent_ms = records["latency_ms"] - records["lag_ms"]
    assert since_sent_ms.to_list() == pytest.approx([CONNECT_S * 1e3] * 5, abs=0.01)


def test_a_refused_connection_is_a_connection_error(tmp_path: Path) -> None:
    with refusing() as url:
        records, _ = run(tmp_path, make_plan(url, ["good"] * 5))
    assert records["outcome"].to_list() == ["connection_error"] * 5


def test_a_stalled_server_does_not_hold_up_arrivals(tmp_path: Path) -> None:
    paths = ["never"] * 30 + ["good"] * 10
    with serving() as server:
        plan = make_plan(server.url, paths, gap_s=0.01)
        records, _ = run(tmp_path, plan)
    assert records.height == len(paths)
    start_s = records["intended_s"][0]
    assert (records["intended_s"] - start_s).to_list() == pytest.approx(plan.offsets_s, abs=1e-5)
    # All were sent while the first was still waiting for its answer: nobody waited for it.
    assert (records["sent_s"] < records["done_s"][0]).all()
    assert (records["lag_ms"] >= 0).all()
    assert records["lag_ms"].to_list() == pytest.approx(
        ((records["sent_s"] - records["intended_s"]) * 1e3).to_list(), abs=0.01
    )
    counted = records.filter(outcome="ok")
    assert (counted["latency_ms"] >= counted["lag_ms"]).all()


def test_beyond_max_in_flight_requests_are_dropped_and_counted(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["never"] * 20, gap_s=0.01, max_in_flight=6)
        records, status = run(tmp_path, plan)
        sent = len(server.requests)
    assert status.recorded == 20
    dropped = records.filter(outcome="dropped")
    assert dropped["index"].to_list() == list(range(6, 20))
    assert dropped["latency_ms"].null_count() == dropped["done_s"].null_count() == 14
    assert sent == 6


def test_sigterm_keeps_what_was_measured_and_counts_what_was_in_flight(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["never", *["good"] * 2000], gap_s=0.005)
        t0_s = time.monotonic()
        handle = LoadGenerator(tmp_path, t0_monotonic_s=t0_s).start(plan)
        handle.wait_ready()
        handle.go(LEAD_S + time.monotonic() - t0_s)
        follow(handle, lambda _, recorded: recorded >= 20)
        handle.stop()
    status = handle.poll()
    assert status.state == "stopped"
    assert 20 <= status.recorded < status.planned
    assert status.unfinished >= 1
    assert handle.records().height == status.recorded
    handle.stop()  # a second time does nothing


def test_a_request_that_ends_at_the_stop_is_counted_once(tmp_path: Path) -> None:
    with serving() as server:
        write_plan(tmp_path / "plan.json", make_plan(server.url, ["never", *["good"] * 20]))
        command = [sys.executable, "-c", ENDED_AT_A_RECORD, str(tmp_path / "plan.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout) == {"launched": 2, "recorded": 1, "unfinished": 1}


def test_a_killed_generator_leaves_whole_records(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["good"] * 2000, gap_s=0.005)
        t0_s = time.monotonic()
        handle = LoadGenerator(tmp_path, t0_monotonic_s=t0_s).start(plan)
        handle.wait_ready()
        handle.go(LEAD_S + time.monotonic() - t0_s)
        follow(handle, lambda _, recorded: recorded >= 20)
        os.kill(handle.pid, signal.SIGKILL)
        status = follow(handle, lambda status, _: status.state == "failed")
        handle.stop()
    assert handle.records().height >= status.recorded >= 20


def test_the_generator_ends_when_the_runner_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib\n"
        "from experiments.tests.load_fixture import make_plan\n"
        "from experiments.load.generator import LoadGenerator\n"
        "plan = make_plan(sys.argv[1], ['good'] * 20000, gap_s=0.005)\n"
        "t0 = time.monotonic()\n"
        "handle = LoadGenerator(pathlib.Path(sys.argv[2]), t0_monotonic_s=t0).start(plan)\n"
        "handle.wait_ready()\n"
        "handle.go(time.monotonic() - t0)\n"
        "print(handle.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with serving() as server:
        command = [sys.executable, "-c", script, server.url, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
            assert runner.stdout is not None
            generator = int(runner.stdout.readline())
            watch = os.pidfd_open(generator)
            runner.kill()
        ended, _, _ = select.select([watch], [], [], 30)
        os.close(watch)
        if not ended:
            os.kill(generator, signal.SIGKILL)
    assert ended


def test_a_plan_can_be_repeated_with_plain_locust_which_counts_the_same(tmp_path: Path) -> None:
    with serving() as server:
        run(tmp_path, make_plan(server.url, [*["good"] * 6, *["fails"] * 3]))
        command = [
            *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE)),
            *("--headless", "--users", "1", "--only-summary"),
            *("--plan", str(tmp_path / "block-03.plan.json")),
            *("--records", str(tmp_path / "again.jsonl")),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert ended.returncode == 1  # Locust's own answer to failed requests
    assert re.search(r"Aggregated +9 +3\(33\.33%\)", ended.stderr), ended.stderr
    assert len((tmp_path / "again.jsonl").read_text().splitlines()) == 9


def test_a_generator_that_cannot_start_says_why(tmp_path: Path) -> None:
    plan = make_plan("http://127.0.0.1:1/", ["good"])
    handle = LoadGenerator(tmp_path, t0_monotonic_s=time.monotonic()).start(plan)
    handle.records_path.mkdir()
    with pytest.raises(MeasurementFailed, match=r"block 3.*Is a directory"):
        handle.wait_ready()
    handle.stop()


def test_records_that_find_the_disk_full_are_missed_by_name(small_disk: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["good"] * 30)
        t0_s = time.monotonic()
        handle = LoadGenerator(small_disk, t0_monotonic_s=t0_s).start(plan)
        handle.wait_ready()
        fill(small_disk)
        handle.go(time.monotonic() - t0_s + LEAD_S)
        status = follow(handle, lambda status, _: status.state != "running")
        handle.stop()
    assert status.state == "done"
    with pytest.raises(DiskFull, match="No space left on device, 30 records not written"):
        handle.records()
