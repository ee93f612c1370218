"""Workers against real servers of each protocol, and plans that the native one refuses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import MeasurementFailed
from experiments.design.contracts import SPOKEN
from experiments.design.roles import Session
from experiments.design.workers import DEFAULT, worker_command
from experiments.design.workloads import Operation
from experiments.load.plan import LoadPlan, entry_url
from experiments.run.block import with_session
from experiments.tests.load_fixture import PLAN, make_plan, run, waiting
from experiments.tests.stores import (
    MEMCACHED,
    MEMCACHED_DIALOGUE,
    MYSQL_DIALOGUE,
    REDIS,
    REDIS_DIALOGUE,
    Dialogue,
    mysql,
    started,
)

GAP_S = 0.1
SESSION = Session(user="wiki", password="wiki-read", database="wiki")


def plan_of(url: str, dialogue: Dialogue) -> LoadPlan:
    """One arrival for each line of a dialogue."""
    plan = make_plan(url, [str(index) for index in range(len(dialogue))], gap_s=GAP_S)
    operations = tuple(
        Operation(str(index), request, check, "web")
        for index, (request, check, _, _) in enumerate(dialogue)
    )
    return replace(plan, operations=operations)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with mysql(tmp_path_factory.mktemp("mysql")) as port:
        yield port


@pytest.fixture
def entries(database: int) -> Iterator[dict[str, str]]:
    """URLs of real servers, the key-value stores empty, by their protocol."""
    with started(*MEMCACHED) as memcached, started(*REDIS) as redis:
        yield {
            "memcached": f"memcached://127.0.0.1:{memcached}/",
            "redis": f"redis://127.0.0.1:{redis}/",
            "mysql": with_session(f"mysql://127.0.0.1:{database}/", SESSION),
        }


@pytest.mark.parametrize(
    ("worker", "protocol", "dialogue"),
    [
        ("locust", "memcached", MEMCACHED_DIALOGUE),
        ("locust", "redis", REDIS_DIALOGUE),
        ("native", "memcached", MEMCACHED_DIALOGUE),
        ("native", "mysql", MYSQL_DIALOGUE),
        ("native", "redis", REDIS_DIALOGUE),
    ],
)
def test_a_server_s_answers_have_their_outcome_and_size(
    tmp_path: Path, entries: dict[str, str], worker: str, protocol: str, dialogue: Dialogue
) -> None:
    records, _ = run(tmp_path, plan_of(entries[protocol], dialogue), worker=worker)
    expected = [outcome for _, _, outcome, _ in dialogue]
    assert records["outcome"].to_list() == expected
    for record, (request, _, _, size) in zip(records.to_dicts(), dialogue, strict=True):
        assert size in (None, record["bytes"]), request


def test_who_is_not_let_in_is_told_by_the_outcome(tmp_path: Path, entries: dict[str, str]) -> None:
    entry = entries["mysql"].replace("wiki-read", "guessed")
    records, _ = run(tmp_path, plan_of(entry, MYSQL_DIALOGUE[:2]))
    assert records["outcome"].to_list() == ["bad_status"] * 2


def test_an_account_is_in_the_url_whatever_its_letters_are() -> None:
    session = Session(user="a@b", password="c:d/e", database="f g")
    url = with_session("mysql://127.0.0.1:3306/", session)
    parts = entry_url(url)
    assert (parts.hostname, parts.port) == ("127.0.0.1", 3306)
    assert with_session("http://127.0.0.1/x", None) == "http://127.0.0.1/x"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"operations": (Operation("a", "no path", "b", "web"),)}, "a path"),
        ({"entries": {"web": ("amqp://127.0.0.1/",)}}, "amqp"),
        ({"offsets_s": (1.0,), "operation_of": (3,)}, "3"),
        ({"offsets_s": (2.0, 1.0), "operation_of": (0, 0)}, "in order"),
        ({"entries": {"api": ("http://127.0.0.1/",)}}, "entry of api"),
    ],
)
def test_a_plan_that_cannot_be_asked_never_begins(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    handle = waiting(tmp_path, replace(PLAN, **change))  # type: ignore[arg-type]
    with pytest.raises(MeasurementFailed) as failed:
        handle.wait_ready()
    handle.stop()
    assert said in failed.value.got


def test_the_committed_protocols_are_those_that_it_speaks() -> None:
    (program,) = worker_command(DEFAULT, Path())
    process = subprocess.run([program, "--protocols"], capture_output=True, check=True)
    assert tuple(json.loads(process.stdout)["protocols"]) == SPOKEN
