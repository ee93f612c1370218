"""Outcomes of requests of Locust's two HTTP clients, against a server that misbehaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.tests.load_fixture import run
from experiments.tests.locust_fixture import file_plan
from experiments.tests.servers import serving

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
