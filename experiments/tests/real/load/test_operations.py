"""`[[load.operations]]` and sessions, sent to a real server on loopback by each worker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from experiments.load.plan import LoadPlan
from experiments.tests.load_fixture import run
from experiments.tests.operations_fixture import USERS, planned, read
from experiments.tests.rest_shop import Shop, rest_shop

of_each_worker = pytest.mark.parametrize("worker", ["native", "locust"])

LOG_IN = """\
[[load.operations]]
name = "log in"
method = "POST"
path = "/login"
body = { json = { user = "${user}" } }
checks = [{ json_path = "user.id", equals = 7 }]
take = { token = { json_path = "token" } }
[[load.operations]]
name = "buy"
method = "POST"
path = "/cart"
headers = { Authorization = "Bearer ${token}" }
body = { form = { item = "a b" } }
expect = 201
checks = [{ header = "Location", contains = "/cart/" }]
[[load.sessions]]
name = "shopper"
steps = [{ operation = "log in" }, { operation = "buy", think_s = 0.02 }, { operation = "buy" }]
"""
ALONE = """\
[[load.operations]]
name = "echo"
method = "PUT"
path = "/echo"
body = { text = "hello ${user}" }
checks = [{ text = "hello " }, { bytes_min = 9, bytes_max = 9 }]
[[load.operations]]
name = "head"
method = "HEAD"
path = "/echo"
[[load.operations]]
name = "empty"
method = "DELETE"
path = "/empty"
expect = [204]
[[load.operations]]
name = "gone"
path = "/gone"
[[load.operations]]
name = "wrong"
method = "POST"
path = "/echo"
body = { text = "x" }
checks = [{ text = "y" }]
"""


def sent(
    directory: Path, tables: str, worker: str, gives_tokens: bool = True, keep_alive: bool = True
) -> tuple[Shop, LoadPlan, pl.DataFrame]:
    design = read(directory, tables, keys=USERS)
    with rest_shop() as shop:
        shop.gives_tokens = gives_tokens
        plan = planned(design, shop.url, 1.0, 2.0, keep_alive=keep_alive)
        records, status = run(directory, plan, worker=worker)
    assert status.state == "done", status
    return shop, plan, records


@of_each_worker
@pytest.mark.parametrize("keep_alive", [True, False])
def test_connections_are_used_again_unless_the_load_says_no(
    tmp_path: Path, worker: str, keep_alive: bool
) -> None:
    shop, _, records = sent(tmp_path, ALONE, worker, keep_alive=keep_alive)
    assert len(shop.asked) == records.height
    closing = [request.headers.get("Connection") == "close" for request in shop.asked]
    if keep_alive:
        assert shop.connections < records.height
        assert not any(closing)
    else:
        assert shop.connections == records.height
        assert all(closing)


def outcomes(records: pl.DataFrame) -> dict[tuple[str, str], int]:
    return dict(Counter(zip(records["name"], records["outcome"], strict=True)))


@of_each_worker
def test_each_operation_is_asked_as_it_says_and_judged_by_its_checks(
    tmp_path: Path, worker: str
) -> None:
    shop, _, records = sent(tmp_path, ALONE, worker)
    assert set(outcomes(records)) == {
        ("echo", "ok"),
        ("head", "ok"),
        ("empty", "ok"),
        ("gone", "bad_status"),
        ("wrong", "bad_content"),
    }
    by_name = {record["name"]: record for record in records.iter_rows(named=True)}
    assert (by_name["gone"]["status"], by_name["gone"]["reason"]) == (404, "status 404")
    assert (by_name["wrong"]["status"], by_name["wrong"]["reason"]) == (200, "check 1")
    assert (by_name["echo"]["bytes"], by_name["head"]["bytes"]) == (9, 0)
    assert {request.body for request in shop.asked if request.method == "PUT"} == {
        b"hello ann",
        b"hello bob",
    }


@of_each_worker
def test_a_session_keeps_its_token_and_its_cookie(tmp_path: Path, worker: str) -> None:
    _, plan, records = sent(tmp_path, LOG_IN, worker)
    assert records.height == len(plan.offsets_s)
    assert set(outcomes(records)) == {("log in", "ok"), ("buy", "ok")}
    assert records["session"].unique().to_list() == ["shopper"]
    for _, steps in records.group_by("session_number"):
        session = steps.sort("index")
        assert session["name"].to_list() == ["log in", "buy", "buy"][: steps.height]
        done_s, begun_s = session["done_s"].to_list(), session["intended_s"].to_list()
        for end_s, begin_s, think_s in zip(done_s, begun_s[1:], (0.02, 0.0), strict=False):
            assert begin_s - end_s == pytest.approx(think_s, abs=1e-5)
    assert (records["lag_ms"] >= 0).all()
    assert (records["latency_ms"] > 0).all()


@of_each_worker
def test_a_token_that_never_comes_fails_its_step_by_name_and_the_rest_is_not_reached(
    tmp_path: Path, worker: str
) -> None:
    shop, plan, records = sent(tmp_path, LOG_IN, worker, gives_tokens=False)
    assert records.height == len(plan.offsets_s)
    assert set(outcomes(records)) == {("log in", "bad_content"), ("buy", "unreached")}
    log_in = records.filter(pl.col("name") == "log in")
    assert log_in["reason"].unique().to_list() == ["no token"]
    unreached = records.filter(pl.col("name") == "buy")
    for column in ("sent_s", "done_s", "latency_ms", "lag_ms"):
        assert unreached[column].null_count() == unreached.height
    assert {request.path for request in shop.asked} == {"/login"}
