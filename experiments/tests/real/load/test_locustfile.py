"""Users of a Locust file, in the worker's own process, against a server on loopback."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.errors import MeasurementFailed
from experiments.load.plan import PlanTarget
from experiments.load.tls import plan_tls
from experiments.tests.certificates import Authority
from experiments.tests.load_fixture import (
    LEAD_S,
    PATIENT_S,
    RESPONSE_S,
    begun,
    ended,
    follow,
    run,
    waiting,
)
from experiments.tests.locust_fixture import ORDINARY, answering, file_plan, one_user
from experiments.tests.rest_shop import rest_shop
from experiments.tests.servers import serving

WEIGHTS = {"Shopper": 2.0, "Browser": 1.0, "Quick": 1.0}


def tasks_of(workers: list[dict[str, Any]]) -> dict[str, Any]:
    (worker,) = workers
    tasks = worker["tasks"]
    assert isinstance(tasks, dict)
    return tasks


def test_an_ordinary_file_runs_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "locustfile.py"
    path.write_text(ORDINARY)
    with answering() as server:
        plan = file_plan(path, server.url, WEIGHTS, count=60, gap_s=0.15, users=12)
        t0_s = time.monotonic()
        handle = waiting(tmp_path, plan, t0_s)
        handle.wait_ready()
        early_paths = Counter(server.paths())
        assert early_paths == {"/login": 6, "/browsing/started": 3}, "on_start, before any arrival"
        handle.go(time.monotonic() - t0_s + LEAD_S)
        records, status = ended(handle)
        requests = server.asked
    assert status.state == "done", status
    outcomes = {
        (name, outcome) for name, outcome in records.select("name", "outcome").unique().rows()
    }
    assert outcomes == {
        ("POST /first", "ok"), ("GET /second/[n]", "ok"), ("GET /third", "ok"),
        ("GET /missing", "ok"), ("GET /deep", "bad_content"),
        ("GET /page", "ok"), ("own work", "ok"),
    }  # fmt: skip
    assert set(records["index"]) == set(range(60)), "each arrival has begun a task"
    order = ["/first", "/second", "/third"]
    for number in map(str, range(6)):  # each user has its own session and position in the steps
        user_paths = [
            path.removesuffix(f"/{number}") for _, path, user in requests if user == number
        ]
        steps = [path for path in user_paths if path in order]
        assert len(steps) >= 3
        assert steps == [order[index % 3] for index in range(len(steps))]
    paths = Counter(path for _, path, _ in requests)
    assert paths["/logout"] == 6
    assert records.filter(pl.col("name") == "own work")["bytes"].unique().to_list() == [7]
    too_short = records.filter(pl.col("latency_ms") < pl.col("lag_ms"))
    assert too_short.height == 0, "the lateness of its arrival is part of each latency"
    tasks = tasks_of(handle.workers)
    assert {key: tasks[key] for key in ("users", "not_started", "raised", "timed_out")} == {
        "users": 12, "not_started": 0, "raised": 0, "timed_out": 0,
    }  # fmt: skip
    assert tasks["outside"] >= 9, "the requests of on_start"


def test_a_task_of_several_requests_has_a_record_for_each(tmp_path: Path) -> None:
    body = (
        "    @task\n    def three(self):\n"
        "        for n in range(3):\n            self.client.get(f'/{n}')\n"
    )
    with answering() as server:
        plan = one_user(tmp_path / "locustfile.py", server.url, body, count=10)
        records, status = run(tmp_path, plan)
    assert status.state == "done", status
    assert records.group_by("index").len()["len"].to_list() == [3] * 10


OTHER = "198.18.255.254:81"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (f"        requests.get('http://{OTHER}/')", [OTHER]),
        (f"        self.client.get('http://{OTHER}/')", [OTHER]),
        ("        self.client.get('https://shop.example/')", ["shop.example:443"]),
        ("        threading.Thread(target=requests.get, args=('http://shop.example/',)).start()",
         ["shop.example"]),
        ("        1 / 0", ["locustfile.py:9", "ZeroDivisionError"]),
        ("        self.environment.runner.quit()", ["quit"]),
        ("        raise SystemExit(3)", ["SystemExit"]),
    ],
    ids=["requests", "client", "name", "thread", "raises", "quit", "exit"],
)  # fmt: skip
def test_a_file_that_may_not_go_on_ends_the_block_and_is_told_why(
    tmp_path: Path, body: str, named: list[str]
) -> None:
    with answering() as server:
        text = f"    @task\n    def one(self):\n{body}\n"
        plan = one_user(tmp_path / "locustfile.py", server.url, text, count=100)
        handle = begun(tmp_path, plan)
        _, status = ended(handle)
    assert status.state == "failed", status
    assert all(word in status.problem for word in ["locustfile.py", *named]), status.problem


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("    def on_start(self):\n        {}['token']\n", "locustfile.py:8: KeyError"),
        ("    def on_start(self):\n        self.client.get('https://shop.example/')\n",
         "shop.example:443"),
        ("    def on_start(self):\n        raise StopUser()\n", "One"),
        ("    pass\n", "No tasks defined"),
    ],
    ids=["raises", "host", "stops", "no-tasks"],
)  # fmt: skip
def test_users_that_do_not_come_to_their_tasks_are_told_before_the_block(
    tmp_path: Path, text: str, named: str
) -> None:
    text = text.replace("StopUser()", "__import__('locust').exception.StopUser()")
    if "def" in text:
        text += "\n    @task\n    def one(self):\n        self.client.get('/')\n"
    with answering() as server:
        handle = waiting(tmp_path, one_user(tmp_path / "locustfile.py", server.url, text))
        with pytest.raises(MeasurementFailed) as failed:
            handle.wait_ready()
    assert named in failed.value.got


def test_a_task_beyond_its_time_out_is_ended_and_counts_as_a_time_out(tmp_path: Path) -> None:
    body = (
        "    @task\n    def one(self):\n        self.client.get('/good')\n        time.sleep(500)\n"
    )
    with answering() as server:
        plan = one_user(
            tmp_path / "locustfile.py", server.url, body, count=4, users=4, task_timeout_s=5.0
        )
        handle = begun(tmp_path, plan)
        records, status = ended(handle)
    assert status.state == "done", status
    assert Counter(records["outcome"]) == {"ok": 4, "time_out": 4}
    tasks = tasks_of(handle.workers)
    assert (tasks["timed_out"], tasks["replaced"]) == (4, 4)


def test_a_request_beyond_the_load_s_limits_is_a_time_out_at_them(tmp_path: Path) -> None:
    body = "    @task\n    def one(self):\n        self.client.get('/never')\n"
    with answering() as server:
        file = tmp_path / "locustfile.py"
        plan = one_user(file, server.url, body, count=3, response_s=RESPONSE_S)
        records, status = run(tmp_path, plan)
    assert status.state == "done", status
    assert records["outcome"].to_list() == ["time_out"] * 3
    limit_ms = 1e3 * (plan.load.connect_timeout_s + plan.load.response_timeout_s)
    assert (records["latency_ms"] - records["lag_ms"] <= limit_ms + 0.01).all()


def test_an_arrival_without_a_free_user_is_not_started(tmp_path: Path) -> None:
    body = (
        "    @task\n    def one(self):\n        self.client.get('/good')\n        time.sleep(500)\n"
    )
    with answering() as server:
        plan = one_user(tmp_path / "locustfile.py", server.url, body, count=10, users=2)
        handle = begun(tmp_path, plan)
        follow(handle, lambda status: status.recorded == 10)
        handle.stop(PATIENT_S)
    records = handle.records()
    assert Counter(records["outcome"]) == {"ok": 2, "dropped": 8}
    assert records.filter(pl.col("outcome") == "dropped")["name"].unique().to_list() == ["One"]
    assert tasks_of(handle.workers)["not_started"] == 8


def test_requests_outside_tasks_are_counted_and_not_recorded(tmp_path: Path) -> None:
    body = (
        "    def on_start(self):\n        gevent.spawn(self.in_the_background)\n\n"
        "    def in_the_background(self):\n        while True:\n"
        "            requests.get(self.host + '/background')\n"
        "            self.client.get('/mine', name='mine')\n            time.sleep(0.05)\n\n"
        "    @task\n    def one(self):\n        self.client.get('/good')\n"
    )
    with answering() as server:
        plan = one_user(tmp_path / "locustfile.py", server.url, body, count=20, users=20)
        handle = begun(tmp_path, plan)
        records, status = ended(handle)
        paths = Counter(server.paths())
    assert status.state == "done", status
    assert paths["/background"] > 0
    recorded = records.filter(pl.col("name") == "GET mine").height
    assert tasks_of(handle.workers)["outside"] + recorded <= paths["/mine"]
    assert records.filter(pl.col("name") == "GET /good").height == 20


def test_a_worker_that_is_told_to_end_keeps_what_it_has_measured(tmp_path: Path) -> None:
    body = "    @task\n    def one(self):\n        self.client.get('/good')\n"
    with answering() as server:
        plan = one_user(tmp_path / "locustfile.py", server.url, body, count=3000)
        handle = begun(tmp_path, plan)
        follow(handle, lambda status: status.recorded > 5)
        handle.stop(PATIENT_S)
        status = handle.poll()
    assert status.state == "stopped", status
    assert handle.records().height > 5


@pytest.mark.long
def test_a_file_that_keeps_the_process_to_itself_is_ended(tmp_path: Path) -> None:
    body = "    @task\n    def one(self):\n        while True:\n            pass\n"
    with answering() as server:
        plan = one_user(tmp_path / "locustfile.py", server.url, body, count=3000)
        _, status = ended(begun(tmp_path, plan))
    assert status.state == "failed", status
    assert "locustfile.py:9" in status.problem or "locustfile.py:10" in status.problem


BOTH = """\
from locust import FastHttpUser, HttpUser, task


class Slow(HttpUser):
    @task
    def one(self):
        self.client.put("/echo", "hello", verify=False)


class Fast(FastHttpUser):
    insecure = True

    @task
    def one(self):
        self.client.put("/echo", "hello")
"""


@pytest.mark.parametrize(
    ("name", "trusted", "insecure", "outcome"),
    [
        ("DNS:shop.test", True, False, "ok"),
        ("DNS:shop.test", False, False, "connection_error"),
        ("DNS:other.test", True, False, "connection_error"),
        ("DNS:other.test", False, True, "ok"),
    ],
)
def test_certificates_are_checked_as_the_load_says_and_not_as_the_file(
    tmp_path: Path, name: str, trusted: bool, insecure: bool, outcome: str
) -> None:
    authority, other_authority = Authority(tmp_path), Authority(tmp_path, "other")
    path = tmp_path / "locustfile.py"
    path.write_text(BOTH)
    with rest_shop(authority.server(name)) as shop:
        port = shop.url.rstrip("/").rpartition(":")[2]
        plan = file_plan(path, shop.url, {"Slow": 1.0, "Fast": 1.0}, count=20, users=20)
        patient = {"connect_timeout_s": 30.0, "response_timeout_s": 30.0}  # for a busy host
        ca = None if insecure else (authority if trusted else other_authority).file
        tls = plan_tls("shop.test", ca, insecure)
        target = PlanTarget("127.0.0.1", f"shop.test:{port}")
        plan = replace(plan, load=plan.load.model_copy(update=patient), tls=tls, target=target)
        records, status = run(tmp_path, plan)
    assert status.state == "done", status
    assert Counter(records["outcome"]) == {outcome: 20}
    assert {request.headers["Host"] for request in shop.asked} <= {f"shop.test:{port}"}


def test_users_may_wait_in_on_start_until_all_are_there(tmp_path: Path) -> None:
    body = (
        "    def on_start(self):\n        all_there.wait()\n\n"
        "    @task\n    def one(self):\n        self.client.get('/good')\n\n\n"
        "all_there = gevent.event.Event()\n"
        "events.spawning_complete.add_listener(lambda **_: all_there.set())\n"
    )
    with answering() as server:
        plan = one_user(tmp_path / "locustfile.py", server.url, body, count=10, users=30)
        _, status = run(tmp_path, plan)
    assert status.state == "done", status


OUTCOMES = {
    "good": "ok",
    "fails": "bad_status",
    "garbage": "bad_content",
    "reset": "aborted_connection",
    "never": "time_out",
}
USER = """
class {name}({base}):
    @task
    def ask(self):
        self.client.get("/{path}")
"""


@pytest.mark.parametrize("base", ["HttpUser", "FastHttpUser"])
def test_a_misbehaving_server_has_the_same_outcomes_from_both_clients(
    tmp_path: Path, base: str
) -> None:
    """geventhttpclient wraps an error of a request that it may not repeat."""
    file = tmp_path / "locustfile.py"
    users = {path.title(): path for path in OUTCOMES}
    classes = [USER.format(name=name, base=base, path=path) for name, path in users.items()]
    file.write_text("\n\n".join(["from locust import *\n", *classes]))
    with serving() as server:
        plan = file_plan(file, server.url, dict.fromkeys(users, 1.0), count=10, users=10)
        patient = {"connect_timeout_s": 5.0, "response_timeout_s": 10.0}  # for a busy host
        load = plan.load.model_copy(update=patient)
        records, status = run(tmp_path, replace(plan, load=load))
    assert status.state == "done", status
    outcomes = {
        (name.rpartition("/")[2], outcome)
        for name, outcome in records.select("name", "outcome").iter_rows()
    }
    assert outcomes == set(OUTCOMES.items())
