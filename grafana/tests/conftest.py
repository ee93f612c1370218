"""One InfluxDB for all tests here, filled with a real run that was recorded."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.tests.influxdb import influxd
from grafana.tests.influxd import write
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


def _filled(url: str, database: str, recorded: Path) -> Filled:
    lines = gzip.decompress(recorded.read_bytes()).decode().splitlines()
    write(url, lines, database)
    return Filled(url, database, _tag(lines, "experiment"), _tag(lines, "run"), lines)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with influxd(tmp_path_factory.mktemp("influxd")) as server:
        yield _filled(server.url, "sparecraft", RECORDED)


@pytest.fixture(scope="session")
def tuned(filled: Filled) -> Filled:
    """A database of its own with the beginning of a tune, whose arbiters told all statistics."""
    return _filled(filled.url, "tuned", RECORDED.with_name("tune.lp.gz"))
