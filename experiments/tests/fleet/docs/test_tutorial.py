"""docs/your-own-service.md, followed to the letter: its files are written and its commands are run,
in their order, in an empty folder."""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl
import pytest

from experiments.tests.fleets import nothing_stays
from experiments.tests.tutorial import (
    EXPERIMENT,
    LOCUST_EXPERIMENT,
    LOCUST_RUN,
    PAGE,
    RUN,
    Reader,
)


@pytest.fixture
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT), nothing_stays(LOCUST_EXPERIMENT):
        yield


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_nothing_stays")
def test_its_run_measures_both_arms(reader: Reader) -> None:
    assert RUN in PAGE.read_text()
    code, output = reader.do(RUN)
    assert code in (0, 1), output
    result = json.loads((reader.folder / f"results/{EXPERIMENT}/latest/result.json").read_text())
    assert result["verdicts"]["revert"]["ok"], result["verdicts"]
    arms = result["compare"]["arms"]
    assert set(arms) == {"baseline", "replicated"}
    assert all(arm["requests"] > 50 and arm["errors"] == 0 for arm in arms.values()), arms


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_nothing_stays")
def test_its_locustfile_loads_a_fleet(reader: Reader) -> None:
    assert LOCUST_RUN in PAGE.read_text()
    code, output = reader.do(LOCUST_RUN)
    assert code in (0, 1), output
    folder = reader.folder / f"results/{LOCUST_EXPERIMENT}/latest"
    result = json.loads((folder / "result.json").read_text())
    assert result["verdicts"]["revert"]["ok"], result["verdicts"]
    arms = result["compare"]["arms"]
    assert all(arm["requests"] > 300 and arm["errors"] == 0 for arm in arms.values()), arms
    requests = pl.read_parquet(folder / "requests.parquet")
    names = {"GET /flag/[code]", "GET /flag/[code], of two", "GET /flag/XX"}
    assert set(requests["name"]) == names
    tasks = [
        use["tasks"] for block in result["compare"]["load"]["blocks"] for use in block["workers"]
    ]
    assert len(tasks) == 4
    assert all(one["raised"] == one["not_started"] == 0 for one in tasks), tasks
