"""Workloads: where they are found, the error of a broken one, and a workload's own client."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import MeasurementFailed
from experiments.load.plan import ClientClass
from experiments.tests.load_fixture import (
    CONNECT_S,
    EXPECTED,
    RESPONSE_S,
    begun,
    follow,
    make_plan,
    run,
    shared,
    waiting,
    written,
)
from experiments.tests.servers import deaf, refusing, serving

CLIENT = """
import http.client
from experiments.load.sessions import SessionClient

class Refused(Exception):
    pass

class OwnClient(SessionClient):
    refusals = (Refused,)
    losses = (http.client.HTTPException,)
    def open(self):
        connection = http.client.HTTPConnection(*self.address)  # no limit of its own
        connection.connect()
        return connection
    def ask(self, session, request):
        session.request("GET", request)
        response = session.getresponse()
        content = response.read()
        if response.status != 200:
            raise Refused
        return content
    def shut(self, session):
        session.close()
"""

# The outcomes that the client above distinguishes as our clients do.
OUTCOMES = {
    path: outcome for path, (outcome, _) in EXPECTED.items() if path not in ("leave", "garbage")
}


def test_a_client_of_a_workload_s_own_has_the_same_outcomes_and_its_limits_hold(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "workload.py", CLIENT)
    client = ClientClass(str(path), "OwnClient")
    with serving() as server:
        plan = make_plan(server.url, list(OUTCOMES) * 3, response_s=RESPONSE_S)
        plan = replace(plan, client=client)
        records, status = run(tmp_path / "run", plan)
    assert status.state == "done"
    outcomes = {name: set(records.filter(name=name)["outcome"].to_list()) for name in OUTCOMES}
    assert outcomes == {name: {outcome} for name, outcome in OUTCOMES.items()}
    timed_out = records.filter(outcome="time_out")
    assert (timed_out["done_s"] - timed_out["sent_s"] >= RESPONSE_S - 1e-3).all()
    assert sorted(server.requests) == sorted(f"/{name}" for name in list(OUTCOMES) * 3)


def test_a_client_of_a_workload_s_own_that_finds_no_server_ends_at_its_limit(
    tmp_path: Path,
) -> None:
    client = ClientClass(str(written(tmp_path / "workload.py", CLIENT)), "OwnClient")
    for name, server, outcome in (
        ("deaf", deaf(), "aborted_connection"),
        ("refusing", refusing(), "connection_error"),
    ):
        with server as url:
            plan = replace(make_plan(url, ["good"] * 3, connect_s=CONNECT_S), client=client)
            records, _ = run(tmp_path / name, plan)
        assert records["outcome"].to_list() == [outcome] * 3


def test_entries_of_a_tier_are_asked_in_turn_and_one_that_is_down_is_an_outcome(
    tmp_path: Path,
) -> None:
    with serving() as first, serving() as second, refusing() as closed_url:
        plan = make_plan([first.url, closed_url, second.url], ["good"] * 30)
        records, _ = run(tmp_path, plan)
    assert records["outcome"].to_list() == ["ok", "connection_error", "ok"] * 10
    assert len(first.requests) == len(second.requests) == 10


def test_each_operation_goes_to_the_entry_that_it_names(tmp_path: Path) -> None:
    with serving() as web, serving() as search:
        plan = make_plan(web.url, ["good", "chunked"] * 10)
        good, chunked = plan.operations
        plan = replace(
            plan,
            entries={**plan.entries, "search": (search.url,)},
            operations=(good, replace(chunked, entry="search")),
        )
        records, _ = run(tmp_path, plan)
    assert set(records["outcome"]) == {"ok"}
    assert (set(web.requests), set(search.requests)) == ({"/good"}, {"/chunked"})


@pytest.mark.parametrize("workers", [1, 2])
def test_a_plan_that_cannot_be_asked_never_begins(tmp_path: Path, workers: int) -> None:
    plan = shared(make_plan("http://127.0.0.1:1/", ["good"] * 4), workers)
    plan = replace(plan, client=ClientClass(str(tmp_path / "workload.py"), "OwnClient"))
    handle = waiting(tmp_path / "run", plan)
    with pytest.raises(MeasurementFailed) as failed:
        handle.wait_ready()
    assert "workload.py" in failed.value.got


@pytest.mark.parametrize("workers", [1, 2])
def test_a_client_with_a_defect_ends_the_block_and_is_named(tmp_path: Path, workers: int) -> None:
    text = CLIENT.replace("content = response.read()", "content = b'' + 1")
    client = ClientClass(str(written(tmp_path / "workload.py", text)), "OwnClient")
    with serving() as server:
        plan = replace(shared(make_plan(server.url, ["good"] * 40), workers), client=client)
        handle = begun(tmp_path / "run", plan)
        status = follow(handle, lambda status: status.state == "failed")
        handle.stop()
    assert "TypeError" in status.problem
