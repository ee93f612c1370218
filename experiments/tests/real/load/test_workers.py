"""Load that is shared by several workers, against the same load from one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from core.errors import MeasurementFailed
from experiments.load.plan import RemoteWorkers
from experiments.record.metrics.generator import generator_blocks, generator_reasons
from experiments.record.metrics.saturation import saturation
from experiments.record.records import REQUESTS
from experiments.tests.hostile import hostile
from experiments.tests.load_fixture import (
    EXPECTED,
    LONG_S,
    PATIENT_S,
    RESPONSE_S,
    alive,
    begun,
    children,
    ended,
    follow,
    make_plan,
    run,
    shared,
    waiting,
)
from experiments.tests.servers import serving
from experiments.tests.started import LIMIT_S, free_port, until

LOCUST = {1: 1, 2: 3, 3: 4}  # processes by number of workers: several have a master
NATIVE = {1: 1, 2: 1, 3: 1}  # one process with threads
PROCESSES = {"native": NATIVE, "locust": LOCUST}
of_both = pytest.mark.parametrize("kind", list(PROCESSES))
WORKER = [sys.executable, "-m", "experiments.load.workers.locust.worker"]


@of_both
@pytest.mark.parametrize("workers", [1, 3])
def test_every_misbehaviour_of_a_server_has_its_outcome_from_one_worker_and_from_several(
    tmp_path: Path, workers: int, kind: str
) -> None:
    paths = list(EXPECTED) * 6
    with serving() as server:
        plan = make_plan(server.url, paths, response_s=RESPONSE_S)
        handle = begun(tmp_path, shared(plan, workers), worker=kind)
        pids = [handle.pid, *children(handle.pid)]
        records, status = ended(handle)
        requests = sorted(server.requests)
        connections = server.connections
    assert (status.state, status.recorded, status.unfinished) == ("done", len(paths), 0)
    assert records.schema == REQUESTS
    assert records["index"].to_list() == list(range(len(paths)))
    assert records["name"].to_list() == paths
    rows = records.select("outcome", "status").rows()
    assert rows == [EXPECTED[path] for path in paths]
    assert requests == sorted(f"/{path}" for path in paths), "each was sent, and none twice"
    assert connections < len(paths), "they were kept where they could be"
    blocks = records.select("arm", "repeat", "pair").unique().rows()
    assert blocks == [("baseline", 3, 1)]
    assert records["phase"].to_list() == [plan.phase_at(offset) for offset in plan.offsets_s]
    start_s = records["intended_s"][0]
    assert (records["intended_s"] - start_s).to_list() == pytest.approx(plan.offsets_s, abs=1e-5)
    for duration, end_column in (("latency_ms", "done_s"), ("lag_ms", "sent_s")):
        took_ms = (records[end_column] - records["intended_s"]) * 1e3
        assert records[duration].to_list() == pytest.approx(took_ms.to_list(), abs=0.01)
    assert set(records.filter(name="good")["bytes"]) == {5033}
    share = len(paths) // workers
    counts = [(worker["planned"], worker["recorded"]) for worker in handle.workers]
    assert counts == [(share, share)] * workers
    assert all(0 < worker["cpu_share"] <= worker["cpu_share_max"] for worker in handle.workers)
    offset_s = None if len(pids) == 1 else 0.0  # one kernel
    assert {worker["clock_offset_s"] for worker in handle.workers} == {offset_s}
    assert len(pids) == PROCESSES[kind][workers]
    assert alive(pids) == []


def test_what_a_killed_worker_had_to_send_is_lost_and_the_measurement_fails(tmp_path: Path) -> None:
    with serving() as server:
        plan = shared(make_plan(server.url, ["good"] * 600, gap_s=0.01), 3)
        handle = begun(tmp_path, plan, worker="locust")
        follow(handle, lambda status: status.recorded >= 60)
        os.kill(children(handle.pid)[0], signal.SIGKILL)
        records, status = ended(handle)
    assert status.state == "done"
    assert records["index"].to_list() == list(range(600)), "what was lost is in the records"
    lost = records.filter(outcome="lost")
    assert 0 < lost.height < 200
    (number,) = set((lost["index"] % 3).to_list())
    assert lost.select("sent_s", "done_s", "latency_ms", "lag_ms").null_count().row(0) == (
        (lost.height,) * 4
    )
    assert records.filter(pl.col("index") % 3 != number)["outcome"].unique().to_list() == ["ok"]
    assert "lost" in saturation(records, handle.workers).limits
    result = {"load": {"blocks": [{"repeat": 3, "workers": handle.workers}]}}
    reasons = generator_reasons(generator_blocks(records, result))
    heights = [frame.filter(pl.col("phase") != "warm-up").height for frame in (lost, records)]
    sentence = f"{heights[0]} of {heights[1]} requests were lost with load worker {number}"
    assert f"block 4, baseline: {sentence}" in reasons


def test_workers_that_never_connect_end_it_in_time_with_how_many_came(tmp_path: Path) -> None:
    plan = shared(make_plan("http://127.0.0.1:1/", ["good"] * 4), 2)
    handle = waiting(tmp_path, plan, remote=RemoteWorkers("127.0.0.1", free_port(), 2.0))
    with pytest.raises(MeasurementFailed, match=r"2 workers connected within 2 s \(got 0 of 2\)"):
        handle.wait_ready()
    handle.stop()
    assert alive([handle.pid]) == []


def test_a_worker_that_ends_before_it_connects_ends_it_at_once(tmp_path: Path) -> None:
    plan = shared(make_plan("http://127.0.0.1:1/", ["good"] * 4), 2)
    handle = waiting(tmp_path, plan, worker="locust")
    until("its workers start", lambda: children(handle.pid))
    os.kill(children(handle.pid)[0], signal.SIGKILL)
    with pytest.raises(MeasurementFailed, match=r"of 2; one ended with exit code -9"):
        handle.wait_ready()
    handle.stop()
    assert alive([handle.pid]) == []


@of_both
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_or_a_kill_leaves_no_process_and_keeps_what_was_measured(
    tmp_path: Path, workers: int, killed: bool, kind: str
) -> None:
    with serving() as server:
        paths = ["never", *["good"] * 4000]
        plan = shared(make_plan(server.url, paths, gap_s=0.005, response_s=LONG_S), workers)
        handle = begun(tmp_path, plan, worker=kind)
        pids = [handle.pid, *children(handle.pid)]
        follow(handle, lambda status: status.recorded >= 100)
        if killed:
            os.kill(handle.pid, signal.SIGKILL)
            follow(handle, lambda status: status.state == "failed")
        handle.stop(PATIENT_S)
    status = handle.poll()
    assert status.state == ("failed" if killed else "stopped")
    assert handle.records().height == status.recorded
    assert 100 <= status.recorded < status.planned
    assert killed or status.unfinished >= 1, "the first is counted, too"
    assert len(pids) == PROCESSES[kind][workers]
    assert alive(pids) == []
    handle.stop()  # a second time does nothing


@of_both
@pytest.mark.parametrize("workers", [1, 2])
def test_all_processes_end_when_the_runner_is_killed(
    tmp_path: Path, workers: int, kind: str
) -> None:
    script = (
        "import sys, time, pathlib\n"
        "from experiments.tests.load_fixture import begun, children, make_plan, shared\n"
        "plan = make_plan(sys.argv[1], ['good'] * 20000, gap_s=0.005)\n"
        "workers, kind = int(sys.argv[3]), sys.argv[4]\n"
        "handle = begun(pathlib.Path(sys.argv[2]), shared(plan, workers), worker=kind)\n"
        "print(handle.pid, *children(handle.pid), flush=True)\n"
        "time.sleep(600)\n"
    )
    with serving() as server:
        command = [sys.executable, "-c", script, server.url, str(tmp_path), str(workers), kind]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
            assert runner.stdout is not None
            pids = [int(pid) for pid in runner.stdout.readline().split()]
            runner.kill()
        survivors = alive(pids)
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    assert len(pids) == PROCESSES[kind][workers]
    assert survivors == []


@of_both
def test_a_stop_before_the_start_ends_it_at_once_with_nothing_sent(
    tmp_path: Path, kind: str
) -> None:
    with serving() as server:
        plan = shared(make_plan(server.url, ["good"] * 50), 2)
        handle = waiting(tmp_path, plan, worker=kind)
        handle.wait_ready()
        pids = [handle.pid, *children(handle.pid)]
        handle.stop(PATIENT_S)
        assert server.requests == []
    assert handle.poll().state == "stopped", "it said its last word"
    assert alive(pids) == []


def test_a_worker_without_a_master_ends_in_time_and_says_where_it_looked() -> None:
    port = free_port()
    process = subprocess.run(
        [*WORKER, "--master", "127.0.0.1",
         "--port", str(port), "--connect-timeout", "1"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert process.returncode == 3, process.stderr
    assert (
        f"expected a Locust master at 127.0.0.1:{port} within 1 s (got no answer)" in process.stderr
    )


AHEAD_S = 1000


def _other_clock() -> list[str]:
    """A command's prefix that gives it another clock, as on another machine."""
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
            handle = begun(tmp_path, plan, remote=RemoteWorkers("127.0.0.1", port, 60.0))
            records, status = ended(handle)
        codes = [worker.wait(LIMIT_S) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert (status.state, codes) == ("done", [0, 0])
    assert records["outcome"].unique().to_list() == ["ok"]
    offsets = sorted((row["clock_offset_s"], row["clock_uncertainty_s"]) for row in handle.workers)
    assert offsets[0] == (0.0, 0.0)
    ahead_s, uncertainty_s = offsets[1]
    assert 0 < uncertainty_s < AHEAD_S / 10
    assert abs(ahead_s - AHEAD_S) <= uncertainty_s + 1e-3  # the namespace's offset is exact
    assert (records["lag_ms"] >= 0).all()
    assert (records["sent_s"] >= records["intended_s"]).all()
    first_s = records["intended_s"][0]
    assert (records["intended_s"] - first_s).to_list() == pytest.approx(plan.offsets_s, abs=1e-5)
    apart_s = (records["sent_s"] - records["intended_s"]).to_list()
    assert max(apart_s) < AHEAD_S / 10


@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_modules_and_locust_conf_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    (tmp_path / "mine").mkdir()
    folder = hostile(tmp_path / "mine")
    (folder / "locust.conf").write_text("run-time = 1s\n")
    monkeypatch.chdir(folder)
    with serving() as server:
        plan = shared(make_plan(server.url, ["good"] * 30, gap_s=0.1), workers)
        records, status = run(Path("out"), plan, worker="locust")
    assert status.state == "done"
    assert records["outcome"].to_list() == ["ok"] * 30
