"""The designs that bring a service of their own, and the one that `sparecraft init` makes, on real
machines; shorter than they are."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.commands.init import make_design
from experiments.design.design import DESIGNS
from experiments.tests.called import sparecraft
from experiments.tests.engine import docker
from experiments.tests.fleets import assert_served, nothing_stays

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

EXPERIMENT = "tst-own"
_UNGUARDED = re.compile(r"^(\[guard\]\n)(?:[^\[\n].*\n)*\n*", re.MULTILINE)
SPILLED = "SELECT temp_files FROM pg_stat_database WHERE datname = 'dictionary'"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT):
        yield


def _shorter(folder: Path, order: str) -> Path:
    """The design in a folder, for the test's own fleet, with seconds of a load that a busy host
    carries too, and without the guard, which may end a run there."""
    for name, changes in (
        ("fleet.tfvars", {"experiment": f'experiment = "{EXPERIMENT}"'}),
        (
            "experiment.toml",
            {
                "rate_per_s|utilisation": "rate_per_s = 5.0",
                "connect_timeout_s": "connect_timeout_s = 5.0",
                "response_timeout_s": "response_timeout_s = 20.0",
                "settle": "settle = 0",
                "warm_up": "warm_up = 2",
                "measure": "measure = 15",
                "order": f'order = "{order}"',
                "repeats": "repeats = 1",
            },
        ),
    ):
        text = (folder / name).read_text()
        for key, line in changes.items():
            text = re.sub(rf"^({key}) *= [^#\n]*", f"{line} ", text, flags=re.MULTILINE)
        (folder / name).write_text(_UNGUARDED.sub(r"\1unguarded = 'a busy host'\n\n", text))
    return folder


def _copy(name: str, target: Path, order: str) -> Path:
    shutil.copytree(DESIGNS / name, target)
    return _shorter(target, order)


def _run(folder: Path, results: Path) -> tuple[dict[str, Any], Path]:
    """result.json of a run whose fleet stays up, and the run's folder."""
    process = sparecraft("run", str(folder), "--keep", "--results", str(results))
    assert process.returncode in (0, 1), process.stdout + process.stderr
    run = results / EXPERIMENT / "latest"
    result = json.loads((run / "result.json").read_text())
    assert result.get("stopped") is None, result["stopped"]
    assert result["verdicts"]["injection"]["ok"], result["verdicts"]
    assert result["verdicts"]["revert"]["ok"], result["verdicts"]
    return dict(result["compare"]), run


def _served(run: Path) -> set[tuple[str, int]]:
    """Each server that answered, with the replication factors of its arbiter meanwhile."""
    rows = pl.read_parquet(run / "arbiters.parquet").filter(pl.col("requests") > 0)
    return set(rows.select("server", "replicas").iter_rows())


def _sql(machine: str, statement: str) -> str:
    container = f"sc-{EXPERIMENT}-{machine}"
    client = ["psql", "-qtA", "-h", "/run/postgresql", "-U", "reader", "-d", "dictionary"]
    return docker("exec", container, *client, "-c", statement).strip()


def test_nginx_and_a_python_service_answer_each_search_and_are_asked_twice(tmp_path: Path) -> None:
    summary, run = _run(_copy("nginx-python", tmp_path / "design", "AB"), tmp_path / "results")
    for arm in ("baseline", "replicated"):
        assert_served(summary["arms"][arm], requests=40)
    answers = _served(run)
    assert {server for server, _ in answers} == {
        *("web-1", "web-2"),
        *("service-1", "service-2", "service-3"),
    }
    assert {replicas for server, replicas in answers if server == "service-1"} == {1, 2}


def test_postgresql_serves_from_primary_and_replicas_and_takes_an_arms_settings(
    tmp_path: Path,
) -> None:
    summary, run = _run(_copy("postgresql", tmp_path / "design", "ABC"), tmp_path / "results")
    for arm in ("baseline", "chosen", "spilling"):
        assert_served(summary["arms"][arm], requests=40)
    assert {server for server, _ in _served(run)} == {"db-1", "db-2", "db-3"}
    places = {name: _sql(name, "SELECT pg_is_in_recovery()") for name in ("db-1", "db-2", "db-3")}
    assert places == {"db-1": "f", "db-2": "t", "db-3": "t"}
    # A reader sees no more of a replica than that it has a receiver of the log.
    assert _sql("db-2", "SELECT pid IS NOT NULL FROM pg_stat_wal_receiver") == "t"
    assert int(_sql("db-1", SPILLED)) > 0, "the arm with 64 kB wrote temporary files"
    assert {_sql(name, "SHOW work_mem") for name in places} == {"4MB"}, "and the setting is gone"


def test_what_init_makes_runs_as_it_is(tmp_path: Path) -> None:
    make_design(tmp_path / "my-shop")
    summary, _ = _run(_shorter(tmp_path / "my-shop", "AB"), tmp_path / "results")
    for arm in ("baseline", "replicated"):
        assert_served(summary["arms"][arm], requests=40)
