"""The writer and the queries on a real InfluxDB, which is killed, frozen and started again."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing
from experiments.record.records import HOSTS
from experiments.record.telemetry import InfluxQuery, InfluxWriter, Point, TelemetryStats
from experiments.tests.disks import fill
from experiments.tests.influxdb import Influx

T0_NS = 1_800_000_000_000_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influx]:
    database = Influx(tmp_path_factory.mktemp("influx"))
    yield database
    database.kill()


@pytest.fixture
def influx(server: Influx) -> Influx:
    """The module's server, which an earlier test may have killed, with an empty database."""
    server.start()
    server.create_database()
    return server


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "telemetry.lp"


@pytest.fixture
def writer(influx: Influx, spool: Path) -> InfluxWriter:
    return InfluxWriter(influx.url, spool)


@pytest.fixture
def query(influx: Influx) -> Iterator[InfluxQuery]:
    client = InfluxQuery(influx.url)
    yield client
    client.close()


def points(first: int, count: int, run: str = "r1") -> list[Point]:
    return [
        Point("request", {"run": run}, {"number": number, "latency_ms": number / 2}, T0_NS + number)
        for number in range(first, first + count)
    ]


def wait_for(writer: InfluxWriter, condition: Callable[[TelemetryStats], bool]) -> TelemetryStats:
    end_s = time.monotonic() + 60
    while not condition(writer.stats):
        assert time.monotonic() < end_s, writer.stats
        select.select([], [], [], 0.02)
    return writer.stats


def numbers(query: InfluxQuery) -> list[int]:
    return [row["number"] for row in query.rows("SELECT number FROM request")]


def test_points_arrive_as_they_were_written(
    writer: InfluxWriter, query: InfluxQuery, spool: Path
) -> None:
    special_text = "a b,c=d\\e\"f'g é"
    writer.write(
        [
            Point(
                "odd m,=",
                {"t g": special_text, "end": "c:\\"},
                {"f=,": special_text, "n": 3, "b": False},
                T0_NS,
            ),
            Point("odd m,=", {"t g": special_text}, {"f=,": "two\nlines", "x": 0.1}, T0_NS + 1),
        ]
    )
    stats = writer.close(30)
    assert (stats.written, stats.rejected, stats.lost) == (2, 0, 0)
    first, second = query.rows('SELECT * FROM "odd m,="')
    assert first["t g"] == first["f=,"] == second["t g"] == special_text
    assert (first["n"], first["b"], first["end"]) == (3, False, "c:/")
    assert (second["f=,"], second["x"], second["time"]) == ("two lines", 0.1, T0_NS + 1)
    assert not spool.exists()


def test_no_point_is_lost_when_influxdb_is_killed_and_comes_back(
    influx: Influx, writer: InfluxWriter, query: InfluxQuery, spool: Path
) -> None:
    writer.write(points(0, 500))
    wait_for(writer, lambda stats: stats.written == 500)
    influx.kill()
    writer.write(points(500, 7000))  # more than a batch
    stats = wait_for(writer, lambda stats: stats.spooled == 7000)
    assert "refused" in stats.last_error
    assert spool.read_bytes().count(b"\n") == 7000
    influx.start()
    writer.write(points(7500, 500))
    wait_for(writer, lambda stats: stats.written == 8000)
    stats = writer.close(30)
    assert (stats.accepted, stats.written, stats.waiting) == (8000, 8000, 0)
    assert numbers(query) == list(range(8000))
    assert not spool.exists()


def test_a_frozen_influxdb_holds_up_nobody_and_loses_nothing(
    influx: Influx, writer: InfluxWriter, query: InfluxQuery
) -> None:
    influx.freeze()
    writer.write(points(0, 300))
    wait_for(writer, lambda stats: stats.spooled == 300)
    influx.thaw()
    wait_for(writer, lambda stats: stats.written == 300)
    writer.close(30)
    assert numbers(query) == list(range(300))


def test_what_is_left_at_the_end_stays_on_disk_and_the_next_writer_delivers_it(
    influx: Influx, writer: InfluxWriter, query: InfluxQuery, spool: Path
) -> None:
    influx.kill()
    writer.write(points(0, 100))
    stats = writer.close(0.1)
    assert (stats.accepted, stats.written, stats.spooled, stats.waiting) == (100, 0, 100, 0)
    assert spool.exists()
    influx.start()
    stats = InfluxWriter(influx.url, spool).close(60)
    assert (stats.accepted, stats.written) == (100, 100)
    assert numbers(query) == list(range(100))
    assert not spool.exists()


def test_a_refused_point_is_counted_and_kept_and_its_neighbours_arrive(
    writer: InfluxWriter, query: InfluxQuery
) -> None:
    mistyped = Point("request", {"run": "r1"}, {"number": "three"}, T0_NS + 3)
    writer.write([*points(0, 3), mistyped, *points(4, 6)])
    stats = writer.close(30)
    assert (stats.written, stats.rejected, stats.lost) == (9, 1, 0)
    assert "field type conflict" in stats.last_error
    assert writer.rejected_path.read_bytes() == mistyped.line() + b"\n"
    assert numbers(query) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_points_that_find_the_disk_full_are_counted_as_lost(
    influx: Influx, small_disk: Path
) -> None:
    influx.kill()
    fill(small_disk)
    writer = InfluxWriter(influx.url, small_disk / "telemetry.lp")
    writer.write(points(0, 200))
    stats = writer.close(0.1)
    assert (stats.lost, stats.spooled, stats.waiting) == (200, 0, 0)
    assert "No space left on device" in stats.last_error


def test_a_closed_writer_refuses_points(writer: InfluxWriter) -> None:
    writer.close(30)
    with pytest.raises(RuntimeError, match="closed"):
        writer.write(points(0, 1))


def test_points_are_counted_by_run_and_measurement(
    writer: InfluxWriter, query: InfluxQuery
) -> None:
    writer.write([*points(0, 5), *points(5, 2, run="it's")])
    writer.write(
        [Point("event", {"run": "r1"}, {"title": "a"}, T0_NS + number) for number in range(3)]
    )
    writer.close(30)
    assert query.points("r1") == {"request": 5, "event": 3}
    assert query.points("it's") == {"request": 2}
    assert query.points("none") == {}


def test_host_samples_of_the_run_become_the_hosts_table(
    writer: InfluxWriter, query: InfluxQuery
) -> None:
    def sample(experiment: str, machine: str, second: int, **fields: float | int) -> Point:
        tags = {"experiment": experiment, "machine": machine, "tier": "web", "role": "mediawiki"}
        return Point("host", tags, fields, T0_NS + second * 10**9)

    writer.write(
        [
            sample("e", "web-2", 1, cpu_percent=50.0, faults_active=1),
            sample("e", "web-1", 1, cpu_percent=40.0, memory_mb=100.0),
            sample("e", "web-1", 9, cpu_percent=1.0),
            sample("e", "web-1", -1, cpu_percent=1.0),
            sample("f", "web-1", 1, cpu_percent=1.0),
        ]
    )
    writer.close(30)
    table = query.hosts("e", t0_ns=T0_NS, end_ns=T0_NS + 5 * 10**9)
    assert table.schema == HOSTS
    assert table.select("time_s", "machine", "tier", "cpu_percent", "faults_active").rows() == [
        (1.0, "web-1", "web", 40.0, None),
        (1.0, "web-2", "web", 50.0, 1),
    ]
    assert query.hosts("nothing", t0_ns=0, end_ns=1).schema == HOSTS


def test_a_query_that_fails_says_so(influx: Influx, query: InfluxQuery) -> None:
    with pytest.raises(EnvironmentMissing, match="error parsing query"):
        query.rows("SELEKT")
    influx.kill()
    with pytest.raises(EnvironmentMissing, match="ConnectError"):
        query.rows("SHOW DATABASES")
