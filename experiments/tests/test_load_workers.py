"""Load that is shared by several workers, against the same load from one process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from experiments.errors import MeasurementFailed
from experiments.load.generator import LoadGenerator
from experiments.load.plan import RemoteWorkers
from experiments.record.metrics.generator import generator_blocks, generator_reasons
from experiments.record.metrics.saturation import saturation
from experiments.record.records import histograms
from experiments.tests.load_fixture import (
    EXPECTED,
    alive,
    begun,
    children,
    ended,
    follow,
    free_port,
    make_plan,
    run,
    shared,
)
from experiments.tests.servers import serving

pytestmark = pytest.mark.real

WORKER = [sys.executable, "-m", "experiments.load.workers.locust.worker"]


def test_workers_send_exactly_the_schedule_with_the_outcomes_of_one_process(
    tmp_path: Path,
) -> None:
    paths = list(EXPECTED) * 6
    with serving() as server:
        plan = make_plan(server.url, paths)
        alone, _ = run(tmp_path / "one", plan)
        server.requests.clear()
        handle = begun(tmp_path / "three", shared(plan, 3))
        pids = [handle.pid, *children(handle.pid)]
        together, status = ended(handle)
        asked = sorted(server.requests)
    assert (status.state, status.recorded, status.unfinished) == ("done", len(paths), 0)
    assert together["index"].to_list() == list(range(len(paths)))
    assert asked == sorted(f"/{path}" for path in paths), "each was sent, and none twice"
    same = ["index", "phase", "name", "outcome", "status"]
    assert together.select(same).equals(alone.select(same))
    start_s = together["intended_s"][0]
    assert (together["intended_s"] - start_s).to_list() == pytest.approx(plan.offsets_s, abs=1e-5)
    assert [worker["planned"] for worker in handle.workers] == [26, 26, 26]
    assert all(worker["recorded"] == 26 for worker in handle.workers)
    assert all(0 < worker["cpu_share"] <= worker["cpu_share_max"] for worker in handle.workers)
    assert [worker["clock_offset_s"] for worker in handle.workers] == [0.0] * 3, "one kernel"
    assert len(pids) == 4
    assert alive(pids) == []


def test_replayed_requests_merge_to_the_records_and_histograms_of_one_process(
    tmp_path: Path,
) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["good", "fails", "good", "cut", "chunked"] * 30)
        alone, _ = run(tmp_path / "one", plan)
    recording = tmp_path / "one" / "block-03.jsonl"
    port = free_port()
    module = [sys.executable, "-m", "experiments.tests.replay_worker", str(recording)]
    address = ["--master", "127.0.0.1", "--port", str(port), "--connect-timeout", "60"]
    workers = [subprocess.Popen([*module, *address]) for _ in range(3)]
    try:
        remote = RemoteWorkers("127.0.0.1", port, 60.0)
        together, status = ended(begun(tmp_path / "three", shared(plan, 3), remote=remote))
        codes = [worker.wait(20) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert status.state == "done"
    assert codes == [0, 0, 0]
    times = ["intended_s", "sent_s", "done_s"]
    assert together.drop(times).equals(alone.drop(times))
    apart_s = [together[time] - alone[time] for time in times]
    assert all((apart - apart_s[0][0]).abs().max() < 1e-5 for apart in apart_s)
    assert histograms(together) == histograms(alone)
    assert len(histograms(alone)["arms"]["baseline"]["3"]) > 100


def test_what_a_killed_worker_had_to_send_is_lost_and_the_measurement_fails(
    tmp_path: Path,
) -> None:
    with serving() as server:
        plan = shared(make_plan(server.url, ["good"] * 900, gap_s=0.01), 3)
        handle = begun(tmp_path, plan)
        follow(handle, lambda _, recorded: recorded >= 60)
        os.kill(children(handle.pid)[0], signal.SIGKILL)
        records, status = ended(handle)
    assert status.state == "done"
    assert records["index"].to_list() == list(range(900)), "what was lost is in the records"
    lost = records.filter(outcome="lost")
    assert 200 < lost.height < 300
    (number,) = set((lost["index"] % 3).to_list())
    assert lost.select("sent_s", "done_s", "latency_ms", "lag_ms").null_count().row(0) == (
        (lost.height,) * 4
    )
    assert records.filter(pl.col("index") % 3 != number)["outcome"].unique().to_list() == ["ok"]
    assert "lost" in saturation(records, handle.workers).limits
    kept = {"load": {"blocks": [{"repeat": 3, "workers": handle.workers}]}}
    reasons = generator_reasons(generator_blocks(records, kept))
    counted = [frame.filter(pl.col("phase") != "warm-up").height for frame in (lost, records)]
    said = f"{counted[0]} of {counted[1]} requests were lost with load worker {number}"
    assert f"block 4, baseline: {said}" in reasons


def test_workers_that_never_connect_end_it_in_time_with_how_many_came(tmp_path: Path) -> None:
    plan = shared(make_plan("http://127.0.0.1:1/", ["good"] * 4), 2)
    remote = RemoteWorkers("127.0.0.1", free_port(), 2.0)
    handle = LoadGenerator(tmp_path, t0_monotonic_s=time.monotonic(), remote=remote).start(plan)
    with pytest.raises(MeasurementFailed, match=r"2 workers connected within 2 s; came 0 of 2"):
        handle.wait_ready()
    handle.stop()
    assert alive([handle.pid]) == []


@pytest.mark.parametrize("master_first", [False, True])
def test_a_stop_leaves_no_worker_and_keeps_what_was_measured(
    tmp_path: Path, master_first: bool
) -> None:
    with serving() as server:
        plan = shared(make_plan(server.url, ["never", *["good"] * 4000], gap_s=0.005), 2)
        handle = begun(tmp_path, plan)
        pids = [handle.pid, *children(handle.pid)]
        follow(handle, lambda _, recorded: recorded >= 100)
        if master_first:
            os.kill(handle.pid, signal.SIGKILL)
            follow(handle, lambda status, _: status.state == "failed")
        handle.stop()
    status = handle.poll()
    assert status.state == ("failed" if master_first else "stopped")
    assert handle.records().height == status.recorded >= 100
    assert master_first or status.unfinished >= 1
    assert alive(pids) == []


def test_a_stop_before_the_start_ends_it_at_once_with_nothing_sent(tmp_path: Path) -> None:
    with serving() as server:
        plan = shared(make_plan(server.url, ["good"] * 50), 2)
        handle = LoadGenerator(tmp_path, t0_monotonic_s=time.monotonic()).start(plan)
        handle.wait_ready()
        pids = [handle.pid, *children(handle.pid)]
        handle.stop()
        assert server.requests == []
    assert handle.poll().state == "stopped", "the master said its last word"
    assert alive(pids) == []


def test_workers_end_when_the_runner_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib\n"
        "from experiments.tests.load_fixture import begun, children, make_plan, shared\n"
        "plan = shared(make_plan(sys.argv[1], ['good'] * 20000, gap_s=0.005), 2)\n"
        "handle = begun(pathlib.Path(sys.argv[2]), plan)\n"
        "print(handle.pid, *children(handle.pid), flush=True)\n"
        "time.sleep(600)\n"
    )
    with serving() as server:
        command = [sys.executable, "-c", script, server.url, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
            assert runner.stdout is not None
            pids = [int(pid) for pid in runner.stdout.readline().split()]
            watches = [os.pidfd_open(pid) for pid in pids]
            runner.kill()
        stay = [pid for pid, watch in zip(pids, watches, strict=True)
                if not select.select([watch], [], [], 30)[0]]  # fmt: skip
    for pid in stay:
        os.kill(pid, signal.SIGKILL)
    for watch in watches:
        os.close(watch)
    assert len(pids) == 3
    assert stay == []


def test_a_worker_without_a_master_ends_in_time_and_says_where_it_looked() -> None:
    port = free_port()
    done = subprocess.run(
        [*WORKER, "--master", "127.0.0.1",
         "--port", str(port), "--connect-timeout", "1"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert f"expected a Locust master at 127.0.0.1:{port} within 1 s; came no answer" in done.stderr


AHEAD_S = 1000


def _other_clock() -> list[str]:
    """A command's prefix: a clock of its own, as another machine's."""
    return ["unshare", "--time", "--monotonic", str(AHEAD_S)]


def test_workers_with_another_clock_begin_at_the_same_instant(tmp_path: Path) -> None:
    if subprocess.run([*_other_clock(), "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel has no time namespaces, or root is needed")
    port = free_port()
    command = [*WORKER, "--master", "127.0.0.1"]
    workers = [
        subprocess.Popen([*prefix, *command, "--port", str(port)])
        for prefix in ([], _other_clock())
    ]
    try:
        with serving() as server:
            plan = shared(make_plan(server.url, ["good"] * 100), 2)
            remote = RemoteWorkers("127.0.0.1", port, 60.0)
            handle = begun(tmp_path, plan, remote=remote)
            records, status = ended(handle)
        codes = [worker.wait(20) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert (status.state, codes) == ("done", [0, 0])
    assert records["outcome"].unique().to_list() == ["ok"]
    offsets = sorted((w["clock_offset_s"], w["clock_uncertainty_s"]) for w in handle.workers)
    assert offsets[0] == (0.0, 0.0)
    ahead_s, uncertainty_s = offsets[1]
    assert 0 < uncertainty_s < 1
    assert abs(ahead_s - AHEAD_S) <= uncertainty_s + 1e-3  # the namespace's offset is exact
    assert (records["lag_ms"] >= 0).all()
    assert (records["sent_s"] >= records["intended_s"]).all()
    first_s = records["intended_s"][0]
    assert (records["intended_s"] - first_s).to_list() == pytest.approx(plan.offsets_s, abs=1e-5)
    apart_s = (records["sent_s"] - records["intended_s"]).to_list()
    assert max(apart_s) < AHEAD_S / 10
