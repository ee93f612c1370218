"""One InfluxDB for all tests here, filled with a real run that was recorded."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from grafana.tests.influxd import DATABASE, influxd, write
from grafana.tests.record import RECORDED


@dataclass(frozen=True)
class Filled:
    """An InfluxDB that holds one run, and the points written to it."""

    url: str
    database: str
    experiment: str
    run: str
    lines: list[str]


def _tag(lines: list[str], key: str) -> str:
    request = next(line for line in lines if line.startswith("request,"))
    [value] = re.findall(rf",{key}=([^, ]+)", request)
    return str(value)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    lines = gzip.decompress(RECORDED.read_bytes()).decode().splitlines()
    with influxd(Path(tmp_path_factory.mktemp("influxd"))) as url:
        write(url, lines)
        yield Filled(url, DATABASE, _tag(lines, "experiment"), _tag(lines, "run"), lines)


@pytest.fixture(scope="session")
def tuned(filled: Filled) -> Filled:
    """A database of its own with the beginning of a tune, whose arbiters told all statistics."""
    path = RECORDED.with_name("tune.lp.gz")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    database = "tuned"
    httpx.post(f"{filled.url}/query", params={"q": f"CREATE DATABASE {database}"})
    write(filled.url, lines, database)
    return Filled(filled.url, database, _tag(lines, "experiment"), _tag(lines, "run"), lines)
