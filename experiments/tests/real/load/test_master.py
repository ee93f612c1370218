"""The native worker under a stock Locust master, which is a process of its own."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import polars as pl
import pytest
from hdrh.histogram import HdrHistogram

from core.statistics.percentiles import counted, time_out_ms
from experiments.design.workers import DEFAULT, worker_command
from experiments.load.plan import LoadPlan, write_plan
from experiments.tests.load_fixture import make_plan
from experiments.tests.servers import serving
from experiments.tests.started import LIMIT_S, free_port, until

# A Locust file as users have it, with a listener that stores the workers' histograms.
LOCUSTFILE = """
import json, os
from locust import User, constant, events, task

class Reader(User):
    wait_time = constant(1)
    @task
    def read(self): ...

@events.init.add_listener
def listen(environment, **_):
    def keep(environment, msg, **_):
        with open(os.environ["LATENCIES"], "a") as file:
            file.write(json.dumps(msg.data) + "\\n")
    environment.runner.register_message("histogram", keep)
"""


class LocustTest:
    """A master, headless or with its pages on a port, its workers and their files."""

    def __init__(
        self, folder: Path, plan: LoadPlan, workers: int, expected: int, pages: int | None
    ) -> None:
        self.folder = folder
        self.port = free_port()
        write_plan(folder / "plan.json", plan)
        (folder / "locustfile.py").write_text(LOCUSTFILE)
        self.log = folder / "master.log"
        headless = ("--headless", "--run-time", "60s", "--expect-workers", str(expected))
        web = ("--web-host", "127.0.0.1", "--web-port", str(pages))
        with self.log.open("wb") as log:
            self.master = subprocess.Popen(
                [
                    *(sys.executable, "-m", "locust", "-f", "locustfile.py", "--master"),
                    *("--users", str(workers), "--spawn-rate", "100"),
                    *(headless if pages is None else web),
                    *("--master-bind-host", "127.0.0.1", "--master-bind-port", str(self.port)),
                    *("--csv", "told", "--exit-code-on-error", "0"),
                ],
                cwd=folder,
                env={"LATENCIES": str(folder / "latencies.jsonl"), "HOME": str(folder)},
                stdout=log,
                stderr=log,
            )
        (program,) = worker_command(DEFAULT, Path())
        self.workers = [
            subprocess.Popen(
                [
                    *(program, "--plan", "plan.json", "--records", f"records-{number}.jsonl"),
                    *("--master", "127.0.0.1", "--port", str(self.port)),
                ],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(workers)
        ]

    def totals(self) -> list[dict[str, Any]]:
        """The report of each worker, once all have ended without error."""
        outputs = [worker.communicate(timeout=120) for worker in self.workers]
        assert self.master.wait(timeout=60) == 0, self.log.read_text()
        assert [worker.returncode for worker in self.workers] == [0] * len(outputs), outputs
        return [json.loads(out) for out, _ in outputs]

    def ended(self, count: int) -> list[dict[str, Any]]:
        """As `totals`; the master is told to end once so many requests were recorded."""
        until(f"{count} records", lambda: self._recorded() >= count)
        self.master.terminate()
        return self.totals()

    def _recorded(self) -> int:
        files = self.folder.glob("records-*.jsonl")
        return sum(file.read_bytes().count(b"\n") for file in files)

    def csv(self) -> dict[str, dict[str, str]]:
        """The rows of Locust's CSV, by name."""
        with (self.folder / "told_stats.csv").open() as file:
            return {row["Name"]: row for row in csv.DictReader(file)}

    def records(self) -> pl.DataFrame:
        files = sorted(self.folder.glob("records-*.jsonl"))
        return pl.concat([pl.read_ndjson(file) for file in files]).sort("index")

    def latencies(self) -> HdrHistogram:
        """The workers' histograms in one."""
        merged = HdrHistogram(1, 120_000_000, 3)
        for line in (self.folder / "latencies.jsonl").read_text().splitlines():
            record = json.loads(line)
            assert (record["unit"], record["digits"]) == ("us", 3)
            merged.add(HdrHistogram.decode(record["histogram"]))
        return merged

    def end(self) -> None:
        """Kill the processes that still run."""
        self.master.kill()
        self.master.wait()
        for worker in self.workers:
            worker.kill()
            worker.wait()


@contextmanager
def locust(
    folder: Path, plan: LoadPlan, *, workers: int, expected: int, pages: int | None = None
) -> Iterator[LocustTest]:
    test = LocustTest(folder, plan, workers, expected, pages)
    try:
        yield test
    finally:
        test.end()


PATHS = [*["good"] * 6, "fails", "wrong_title", *["good"] * 6, "reset", "chunked"] * 10


def limit_ms(plan: LoadPlan) -> float:
    return time_out_ms(plan.load.connect_timeout_s, plan.load.response_timeout_s)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stock_master_s_totals_and_histogram_are_the_workers_own(
    tmp_path: Path, workers: int
) -> None:
    with serving() as server:
        plan = make_plan(server.url, PATHS)
        with locust(tmp_path, plan, workers=workers, expected=workers) as test:
            totals = test.ended(len(PATHS))
        assert sorted(server.requests) == sorted(f"/{path}" for path in PATHS)
    records, rows = test.records(), test.csv()
    assert records["index"].to_list() == list(range(len(PATHS)))
    failed = records.filter(pl.col("outcome") != "ok")
    assert sum(worker["requests"] for worker in totals) == len(PATHS)
    assert sum(worker["failures"] for worker in totals) == failed.height == 30
    records = records.with_columns(counted(limit_ms(plan)).alias("latency_ms"))
    aggregated = rows["Aggregated"]
    assert int(aggregated["Request Count"]) == len(PATHS)
    assert int(aggregated["Failure Count"]) == failed.height
    mean_ms = records["latency_ms"].mean()
    assert float(aggregated["Average Response Time"]) == pytest.approx(mean_ms, abs=0.01)
    for key, value in (("Min", records["latency_ms"].min()), ("Max", records["latency_ms"].max())):
        assert float(aggregated[f"{key} Response Time"]) == pytest.approx(value, abs=0.01)
    for name in set(PATHS):
        of_name = records.filter(name=name)
        assert int(rows[name]["Request Count"]) == of_name.height
        assert rows[name]["Type"] == "http"
    with (tmp_path / "told_failures.csv").open() as file:
        failures = {row["Name"]: int(row["Occurrences"]) for row in csv.DictReader(file)}
    assert failures == {"fails": 10, "wrong_title": 10, "reset": 10}
    latencies_us = records["latency_ms"].sort() * 1e3
    merged = test.latencies()
    assert merged.get_total_count() == len(PATHS)
    for percentile in (50.0, 90.0, 99.0):
        rank = round(len(PATHS) * percentile / 100) - 1
        merged_us = merged.get_value_at_percentile(percentile)
        assert merged_us == pytest.approx(latencies_us[rank], rel=2e-3)


def test_a_worker_that_the_master_does_not_expect_says_so_and_ends(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["good"] * 40)
        with locust(tmp_path, plan, workers=2, expected=1) as test:
            until("the worker too many", lambda: 1 in (worker.poll() for worker in test.workers))
            test.master.terminate()
            outputs = [worker.communicate(timeout=120) for worker in test.workers]
            test.master.wait(timeout=60)
    codes = sorted(worker.returncode for worker in test.workers)
    assert codes == [0, 1]
    assert any("--expect-workers" in err for _, err in outputs)
    assert "--expect-workers" in (tmp_path / "told_exceptions.csv").read_text()


def test_a_worker_that_is_told_to_end_keeps_what_it_measured_and_tells_it(tmp_path: Path) -> None:
    with serving() as server:
        plan = make_plan(server.url, ["good"] * 5000)
        with locust(tmp_path, plan, workers=1, expected=1) as test:
            records = tmp_path / "records-0.jsonl"
            until("record", lambda: records.is_file() and records.stat().st_size > 0)
            test.workers[0].send_signal(signal.SIGTERM)
            test.workers[0].wait(LIMIT_S)
            test.master.terminate()
            (totals,) = test.totals()
    assert 0 < totals["requests"] < 5000
    assert test.records().height == totals["requests"]
    assert int(test.csv()["Aggregated"]["Request Count"]) == totals["requests"]


@pytest.mark.long
def test_locust_s_pages_start_stop_and_start_it_again(tmp_path: Path) -> None:
    pages = free_port()

    def of(path: str, **form: str) -> Any:
        encoded = urlencode(form).encode() if form else None
        with urlopen(f"http://127.0.0.1:{pages}{path}", encoded, timeout=60) as reply:
            text = reply.read().decode()
        return json.loads(text) if text.startswith("{") else text

    def asked_until(condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        page_stats: dict[str, Any] = {}

        def is_so() -> bool:
            with suppress(OSError):
                page_stats.update(of("/stats/requests"))
                return condition(page_stats)
            return False

        until("such pages", is_so)
        return page_stats

    with serving() as server:
        plan = make_plan(server.url, ["good"] * 5000)
        with locust(tmp_path, plan, workers=1, expected=1, pages=pages) as test:
            for _ in range(2):
                asked_until(
                    lambda page_stats: (
                        [worker["state"] for worker in page_stats["workers"]] == ["ready"]
                    )
                )
                assert of("/swarm", user_count="1", spawn_rate="1")["success"] is True
                page_stats = asked_until(
                    lambda page_stats: (
                        page_stats["stats"][-1]["num_requests"] >= 50
                        and page_stats["user_count"] == 1
                    )
                )
                assert page_stats["stats"][0]["name"] == "good"
                assert of("/stop", by="a test")["success"] is True
            assert "Locust" in of("/")
            asked_until(lambda page_stats: page_stats["state"] == "stopped")
            test.workers[0].send_signal(signal.SIGTERM)
            out, err = test.workers[0].communicate(timeout=60)
    block_sizes = [json.loads(line)["requests"] for line in out.splitlines()]
    assert len(block_sizes) == 2, err
    assert all(50 <= requests < 5000 for requests in block_sizes)


def test_a_worker_without_a_master_ends_in_time_and_says_where_it_looked(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    write_plan(plan, make_plan("http://127.0.0.1:1/", ["good"]))
    (program,) = worker_command(DEFAULT, Path())
    port = free_port()
    process = subprocess.run(
        [program, "--plan", plan, "--master", "127.0.0.1", "--port", str(port),
         "--connect-timeout", "0.5"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert process.returncode == 3
    assert f"--master 127.0.0.1:{port}: expected a Locust master within 0.5 s" in process.stderr
