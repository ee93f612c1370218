"""A Python worker that sent late says which worker would do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.load.lateness import LAG_MS_MAX, less_late
from experiments.load.plan import ClientClass, LoadPlan, LocustFile, RemoteWorkers
from experiments.tests.load_fixture import PLAN

LATE_MS = 2 * LAG_MS_MAX


@pytest.mark.parametrize(
    ("plan", "worker", "words"),
    [
        (PLAN, "locust", ["native"]),
        (replace(PLAN, locustfile=LocustFile("f.py", {}, 1.0)), "native", ["FastHttpUser"]),
        (replace(PLAN, client=ClientClass("workload.py", "C")), "native", ["load.operations"]),
    ],
    ids=["chosen", "locustfile", "client"],
)
def test_what_would_do_is_said(plan: LoadPlan, worker: str, words: list[str]) -> None:
    message = less_late(LATE_MS, plan, worker) or ""
    assert all(word in message for word in ["0.40 ms", *words])
    assert less_late(LAG_MS_MAX, plan, worker) is None
    assert less_late(None, plan, worker) is None


def test_nothing_is_said_where_no_other_worker_would_do() -> None:
    assert less_late(LATE_MS, PLAN, "native") is None
    assert less_late(LATE_MS, PLAN, "./my-worker") is None
    remote = replace(PLAN, remote=RemoteWorkers("*", 1, 1.0))
    assert less_late(LATE_MS, remote, "native") is None
