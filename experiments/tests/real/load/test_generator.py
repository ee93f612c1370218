"""The load generator, as the runner drives it, against real servers that misbehave."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.errors import DiskFull, MeasurementFailed
from core.statistics.percentiles import time_out_ms
from experiments.load.plan import write_plan
from experiments.paths import ROOT
from experiments.tests.disks import fill, mounted
from experiments.tests.load_fixture import (
    CONNECT_S,
    LEAD_S,
    LONG_S,
    PATIENT_S,
    PLAN,
    RESPONSE_S,
    begun,
    follow,
    make_plan,
    run,
    waiting,
)
from experiments.tests.servers import deaf, refusing, serving

of_both = pytest.mark.parametrize("worker", ["native", "locust"])

LOCUSTFILE = ROOT / "experiments/load/workers/locust/locustfile.py"

# A plan that is ended just after a request was recorded, while the request still counts as open.
ENDED_AT_A_RECORD = """
from gevent import monkey; monkey.patch_all()
import json, pathlib, sys, time
import gevent
from experiments.load.plan import read_plan, write_plan
from experiments.load.workers.locust.open_loop import OpenLoop, RecordFile
from experiments.load.workers.locust.plan_runner import PlanRunner
ends = []
def record(_):
    if not ends:
        ends.append(gevent.spawn(runner.end))
loop = OpenLoop(read_plan(pathlib.Path(sys.argv[1])), clock=time.monotonic, record=record)
runner = PlanRunner(RecordFile(pathlib.Path("/dev/null")), loop)
runner.run(time.monotonic(), 0.1)
print(json.dumps(ends[0].get()))
"""


@of_both
def test_a_time_out_enters_at_its_limit_even_if_the_server_trickles(
    tmp_path: Path, worker: str
) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["trickle", "never"] * 5, response_s=RESPONSE_S)
        records, _ = run(tmp_path, plan, worker=worker)
    since_sent_ms = records["latency_ms"] - records["lag_ms"]
    assert records["outcome"].unique().to_list() == ["time_out"]
    # The latency exceeds the limit only by the time to connect, which has a limit of its own.
    assert (since_sent_ms >= RESPONSE_S * 1e3 - 0.01).all()
    assert (since_sent_ms <= (RESPONSE_S + PATIENT_S) * 1e3).all()


@of_both
def test_a_connection_that_is_not_made_in_time_is_aborted_at_its_limit(
    tmp_path: Path, worker: str
) -> None:
    with deaf() as url:
        plan = make_plan(url, ["good"] * 5, connect_s=CONNECT_S)
        records, _ = run(tmp_path, plan, worker=worker)
    assert records["outcome"].to_list() == ["aborted_connection"] * 5
    since_sent_ms = records["latency_ms"] - records["lag_ms"]
    assert since_sent_ms.to_list() == pytest.approx([CONNECT_S * 1e3] * 5, abs=0.01)


@of_both
def test_a_refused_connection_is_a_connection_error(tmp_path: Path, worker: str) -> None:
    with refusing() as url:
        records, _ = run(tmp_path, make_plan(url, ["good"] * 5), worker=worker)
    assert records["outcome"].to_list() == ["connection_error"] * 5


@of_both
def test_a_stalled_server_does_not_hold_up_arrivals(tmp_path: Path, worker: str) -> None:
    paths = ["never"] * 30 + ["good"] * 10
    with serving() as server:
        plan = make_plan(server.url, paths, gap_s=0.01, response_s=LONG_S)
        handle = begun(tmp_path, plan, worker=worker)
        follow(handle, lambda status: status.recorded == 10)
        handle.stop(PATIENT_S)
    assert handle.poll().unfinished == 30, "the others were answered meanwhile"
    records = handle.records()
    offsets_s = plan.offsets_s[30:]
    apart_s = records["intended_s"] - records["intended_s"][0] + offsets_s[0]
    assert apart_s.to_list() == pytest.approx(offsets_s, abs=1e-5)
    assert (records["lag_ms"] >= 0).all()
    assert records["lag_ms"].to_list() == pytest.approx(
        ((records["sent_s"] - records["intended_s"]) * 1e3).to_list(), abs=0.01
    )
    assert (records["latency_ms"] >= records["lag_ms"]).all()


@of_both
def test_beyond_max_in_flight_requests_are_dropped_and_counted(tmp_path: Path, worker: str) -> None:
    with serving() as server:
        paths = ["never"] * 20
        plan = make_plan(server.url, paths, gap_s=0.01, response_s=LONG_S, max_in_flight=6)
        handle = begun(tmp_path, plan, worker=worker)
        follow(handle, lambda status: status.recorded == 14)
        handle.stop(PATIENT_S)
    records = handle.records()
    assert records["outcome"].unique().to_list() == ["dropped"]
    assert records["index"].to_list() == list(range(6, 20))
    assert records["latency_ms"].null_count() == records["done_s"].null_count() == 14
    assert handle.poll().unfinished == 6


def test_a_request_that_ends_at_the_stop_is_counted_once(tmp_path: Path) -> None:
    with serving() as server:
        write_plan(tmp_path / "plan.json", make_plan(server.url, ["never", *["good"] * 20]))
        command = [sys.executable, "-c", ENDED_AT_A_RECORD, str(tmp_path / "plan.json")]
        process = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    counts = json.loads(process.stdout)  # on a busy host more than one good one is under way
    assert counts["recorded"] >= 1
    assert counts["launched"] == counts["recorded"] + counts["unfinished"]


def test_a_plan_can_be_repeated_with_plain_locust_which_counts_the_same(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, [*["good"] * 6, *["fails"] * 3])
        run(tmp_path, plan)
        command = [
            *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE)),
            *("--headless", "--users", "1", "--only-summary"),
            *("--plan", str(tmp_path / "block-03.plan.json")),
            *("--records", str(tmp_path / "again.jsonl")),
        ]
        process = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert process.returncode == 1  # Locust's own answer to failed requests
    summary = re.search(r"Aggregated +9 +3\(33\.33%\) \| +(\d+) +(\d+) +(\d+) ", process.stderr)
    assert summary, process.stderr
    mean_ms, least_ms, most_ms = map(int, summary.groups())
    limit_ms = time_out_ms(plan.load.connect_timeout_s, plan.load.response_timeout_s)
    assert least_ms < limit_ms
    assert mean_ms > limit_ms / 4, "what failed is in it at the time-out"
    assert most_ms == limit_ms
    assert len((tmp_path / "again.jsonl").read_text().splitlines()) == 9


@of_both
def test_a_generator_that_cannot_start_says_why(tmp_path: Path, worker: str) -> None:
    with mounted(tmp_path / "small", files=2) as directory:  # the plan, the log, no records
        handle = waiting(directory, PLAN, worker=worker)
        try:
            with pytest.raises(MeasurementFailed, match=r"block 3.*No space left on device"):
                handle.wait_ready()
        finally:
            handle.stop()


@of_both
def test_records_that_find_the_disk_full_are_missed_by_name(small_disk: Path, worker: str) -> None:
    with serving() as server:
        t0_s = time.monotonic()
        handle = waiting(small_disk, make_plan(server.url, ["good"] * 30), t0_s, worker=worker)
        handle.wait_ready()
        fill(small_disk)
        handle.go(time.monotonic() - t0_s + LEAD_S)
        status = follow(handle, lambda status: status.state != "running")
        handle.stop()
    assert status.state == "done"
    with pytest.raises(DiskFull, match="No space left on device, 30 records not written"):
        handle.records()
