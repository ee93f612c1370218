"""Access logs as operations: forms, rates, popularity, broken lines, filters, bounds."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from core.errors import InputError
from experiments.design import load_design
from experiments.design.arrival_rate import read_trace
from experiments.design.operation_set import CSV_BYTES_MAX
from experiments.importers import access_log, traffic
from experiments.importers.access_log import read_access_log
from experiments.importers.compose.variables import read_variables
from experiments.importers.har import read_har
from experiments.importers.traffic import operations_of
from experiments.tests.called import answer, refusal


def combined(target: str, second: int = 0, method: str = "GET", status: int = 200) -> str:
    time = f"28/Nov/2026:12:{second // 60:02d}:{second % 60:02d} +0000"
    return f'10.0.0.1 - ada [{time}] "{method} {target} HTTP/1.1" {status} 512 "-" "agent/1"'


def saved(folder: Path, *lines: str) -> Path:
    path = folder / "access.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_operations_have_the_weights_and_values_the_frequencies_of_the_log(tmp_path: Path) -> None:
    lines = [combined(f"/items/{1 if n % 4 else n}") for n in range(400)]
    log = read_access_log(saved(tmp_path, *lines, *[combined("/")] * 100), None, None)
    result = operations_of(log.traffic)
    assert [(operation.name, operation.weight) for operation in result.operations] == [
        ("GET /items/{}", 400),
        ("GET /", 100),
    ]
    assert Counter(result.columns["items"])["1"] == 300


def test_many_words_in_one_place_of_a_path_are_values(tmp_path: Path) -> None:
    words = [f"page-{chr(97 + n)}" for n in range(25)]
    log = read_access_log(
        saved(tmp_path, *(combined(f"/wiki/{w}/view") for w in words)), None, None
    )
    result = operations_of(log.traffic)
    assert [operation.name for operation in result.operations] == ["GET /wiki/{}/view"]
    assert sorted(result.columns["wiki"]) == words


def test_the_rate_and_the_busiest_minute_are_told(tmp_path: Path) -> None:
    calm = [combined("/", second) for second in range(0, 240, 2)]
    busy = [combined("/", second) for second in range(60, 120) for _ in range(3)]
    result = operations_of(read_access_log(saved(tmp_path, *calm, *busy), None, None).traffic)
    assert result.rate_per_s == pytest.approx(300 / 239)
    assert result.busiest_per_s == pytest.approx(210 / 60)


@pytest.mark.parametrize(
    "line",
    [
        {"request_method": "GET", "request_uri": "/a?x=1", "status": "200", "msec": "1764331200.5"},
        {"request": {"method": "GET", "uri": "/a?x=1"}, "status": 200, "ts": 1764331200.5},
        {"RequestMethod": "GET", "RequestPath": "/a?x=1", "DownstreamStatus": 200,
         "time": "2025-11-28T12:00:00Z"},
        {"method": "get", "path": "/a?x=1", "response_code": 200, "@timestamp": 1764331200500},
    ],
)  # fmt: skip
def test_json_lines_of_known_servers_are_read(tmp_path: Path, line: dict[str, object]) -> None:
    log = read_access_log(saved(tmp_path, json.dumps(line)), None, None)
    (request,) = log.traffic.counts
    assert (request.method, request.target, request.status) == ("GET", "/a?x=1", 200)
    assert set(log.traffic.by_second) == {1764331200}


def test_broken_lines_are_counted_by_number_and_a_log_of_them_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, combined("/"), "nonsense", '{"method": 1}', combined("/"), combined("/"))
    log = read_access_log(path, None, None)
    assert (log.lines, log.broken, log.broken_at) == (5, 2, (2, 3))
    with pytest.raises(InputError):
        read_access_log(saved(tmp_path, combined("/"), "nonsense", "more"), None, None)


def test_writes_are_left_out_and_filters_hold(tmp_path: Path) -> None:
    path = saved(tmp_path, combined("/api/a"), combined("/api/b", method="POST", status=201),
                 combined("/static/x.css"), combined("/api/private"))  # fmt: skip
    log = read_access_log(path, "^/api", "private$")
    assert [request.target for request in log.traffic.counts] == ["/api/a"]
    assert log.traffic.left_out == {
        "POST, whose body a log does not have": 1,
        "by --matching and --without": 2,
    }
    with pytest.raises(InputError) as error:
        read_access_log(path, "(", None)
    assert error.value.place == "--matching"


def test_a_log_of_sound_lines_without_reads_is_refused_by_reason(tmp_path: Path) -> None:
    path = saved(tmp_path, combined("/a", method="POST"), combined("/b"))
    with pytest.raises(InputError) as error:
        read_access_log(path, "^/none", None)
    assert error.value.got == "no read of 2 lines"
    assert "by --matching and --without (2)" in error.value.hint


def test_a_packed_log_is_read_and_a_torn_or_damaged_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    packed = gzip.compress("\n".join(combined(f"/{n}") for n in range(999)).encode())
    path.write_bytes(packed)
    assert sum(read_access_log(path, None, None).traffic.counts.values()) == 999
    for content in (packed[: len(packed) // 2], packed[:20] + b"\xff" * 40 + packed[60:]):
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            read_access_log(path, None, None)
        assert error.value.place == str(path)


def test_lines_different_requests_operations_and_values_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "LINES_MOST", 50)
    monkeypatch.setattr(traffic, "DISTINCT_MOST", 10)
    long_line = "x" * (access_log.LINE_MOST * 3)
    lines = [combined(f"/{n}") for n in range(60)]
    log = read_access_log(saved(tmp_path, long_line, *lines), None, None)
    assert (log.lines, log.broken_at) == (50, (1,))
    left_out = {"beyond 10 different requests": 39, "lines after the first 50": 1}
    assert log.traffic.left_out == left_out
    monkeypatch.setattr(traffic, "DISTINCT_MOST", 100)
    monkeypatch.setattr(traffic, "OPERATIONS_MOST", 2)
    lines = [combined("/a")] * 3 + [combined("/b")] * 2 + [combined("/c/d")]
    result = operations_of(read_access_log(saved(tmp_path, *lines), None, None).traffic)
    assert [operation.name for operation in result.operations] == ["GET /a", "GET /b"]
    assert result.left_out == {"of rarer operations": 1}
    monkeypatch.setattr(traffic, "ROWS_MOST", 10)
    lines = [combined(f"/items/{n}") for n in range(25)]
    result = operations_of(read_access_log(saved(tmp_path, *lines), None, None).traffic)
    assert (len(result.columns["items"]), [*result.left_out.values()]) == (10, [15])


@pytest.mark.parametrize(
    "broken",
    [
        '{"method": "GET", "uri": "/a\\ud800", "status": 200}',
        '{"method": "GET", "uri": "/a", "status": 1e999}',
        f'10.0.0.1 - - [28/Nov/2026:12:00:00 +0000] "GET /{"a" * 60_000}',
    ],
)
def test_a_line_that_no_server_writes_is_broken(tmp_path: Path, broken: str) -> None:
    log = read_access_log(saved(tmp_path, combined("/"), broken), None, None)
    assert (log.broken, sum(log.traffic.counts.values())) == (1, 1)


@pytest.mark.parametrize("target", ["//[x", "//evil/path", "/a?[b=1"])
def test_a_target_is_a_path_whatever_it_looks_like(tmp_path: Path, target: str) -> None:
    log = read_access_log(saved(tmp_path, combined(target)), None, None)
    (request,) = log.traffic.counts
    assert unquote(request.target) == target


def test_parameters_are_no_larger_than_a_design_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "CSV_BYTES_MAX", CSV_BYTES_MAX // 16)
    lines = [combined(f"/i/{n:08x}?a={n}{'x' * 1900}") for n in range(200)]
    log = read_access_log(saved(tmp_path, *lines, *lines[:1] * 750), None, None)
    text = traffic.parameters_csv(operations_of(log.traffic).columns)
    assert len(text.encode()) <= CSV_BYTES_MAX // 16


def test_a_log_that_unpacks_to_more_than_its_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "BYTES_MOST", 200_000)
    path = tmp_path / "access.log.gz"
    for content in (b"x" * 900_000, (combined("/") + "\n").encode() * 9_000):
        path.write_bytes(gzip.compress(content))
        with pytest.raises(InputError) as error:
            read_access_log(path, None, None)
        assert error.value.place == str(path)


@pytest.mark.parametrize("read", [read_access_log, read_har, read_variables])
def test_a_device_is_no_file_to_read(read: Callable[..., object]) -> None:
    arguments: dict[Any, tuple[Any, ...]] = {read_access_log: (None, None), read_har: (None,)}
    with pytest.raises(InputError) as error:
        read(Path("/dev/null"), *arguments.get(read, ({},)))
    assert error.value.got == "a device or a pipe"


def test_values_of_a_long_log_keep_their_frequencies_where_it_repeats_itself(
    tmp_path: Path,
) -> None:
    lines = [combined(f"/items/{n}?page={n % 3}") for n in range(9_999)]
    log = read_access_log(saved(tmp_path, *lines), None, None)
    pages = Counter(operations_of(log.traffic).columns["page"])
    assert all(3_000 < pages[page] < 3_700 for page in "012"), pages


def test_values_of_a_rarer_operation_keep_their_frequencies(tmp_path: Path) -> None:
    lines = [combined(f"/items/{n}") for n in range(1_000)]
    rarer = [combined(f"/users/{n}") for n in (1, 2) for _ in range(300)]
    log = read_access_log(saved(tmp_path, *lines, *rarer), None, None)
    users = Counter(operations_of(log.traffic).columns["users"])
    assert users == {"1": 500, "2": 500}


def test_the_times_of_a_log_are_the_trace_of_its_design(tmp_path: Path) -> None:
    lines = [combined("/", second) for second in range(100, 160) for _ in range(second % 20 + 5)]
    log, design = saved(tmp_path, *lines), tmp_path / "shop"
    answer("import", "access-log", str(log), "--to", str(design), "--trace")
    times_s = read_trace(design / "arrivals.csv")
    seconds = Counter(int(at_s) for at_s in times_s)
    assert seconds == {second - 100: second % 20 + 5 for second in range(100, 160)}
    load = load_design(design).experiment.load
    assert (load.arrivals, load.trace) == ("trace", "arrivals.csv")
    assert load.rate_per_s == pytest.approx(len(lines) / times_s[-1])


def test_a_trace_is_asked_of_a_log_with_times_and_for_a_design_only(tmp_path: Path) -> None:
    log = saved(tmp_path, json.dumps({"method": "GET", "path": "/", "status": 200}))
    assert refusal("import", "access-log", str(log), "--trace").place == "--trace"
    to = str(tmp_path / "shop")
    error = refusal("import", "access-log", str(log), "--trace", "--to", to)
    assert error.place == str(log)
    assert not Path(to).exists()
