"""Bit flips in a service under load: every answer is checked, and a slow host makes no hang."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from core.errors import MeasurementFailed
from experiments.kinds.bitflips import inject as inject_module
from experiments.kinds.bitflips import record, service_run
from experiments.kinds.bitflips.analysis import price_rows
from experiments.kinds.bitflips.build import HARDEN, Built, compile_c
from experiments.kinds.bitflips.compared import serving_of
from experiments.kinds.bitflips.inject import Golden, Limits, inject, outcome_of, run_golden
from experiments.kinds.bitflips.measure import Price
from experiments.kinds.bitflips.section import BitflipsSection
from experiments.kinds.bitflips.service_run import RunEnd
from experiments.kinds.bitflips.services import SERVICES, Service
from experiments.tests.harden_fixture import injected, need_compiler, trouble

pytestmark = pytest.mark.long

LIMITS = Limits(cpu_s=1, wall_s=120.0, memory_bytes=1 << 30, output_bytes=8 << 20)


def _requests(rng: random.Random) -> tuple[list[bytes], list[bytes]]:
    puts = [b"put %d v%d\n" % (key, rng.randrange(1000)) for key in range(24)]
    gets = [b"get %d\n" % rng.randrange(30) for _ in range(24)]
    return puts + gets, [b"get %d\n" % key for key in range(24)]


STORE = Service(
    arguments=(), end=b"end\n", ended=b"ended\n", stop=None,
    errors=(b"error",), absent=b"none", compares=False, _requests=_requests,
)  # fmt: skip


STORE_ON_TCP = replace(STORE, arguments=("{port}",), connections=1, ends=False)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    need_compiler()
    programs = {}
    for variant in ("native", "ilr"):
        folder = tmp_path_factory.mktemp(variant)
        compile_c(trouble("store"), folder / "server", variant, sites="results")
        subprocess.run(
            ["clang-19", "-O2", "-fPIC", "-shared", HARDEN / "services" / "steady.c",
             "-o", folder / "steady.so"],
            check=True,
        )  # fmt: skip
        programs[variant] = folder / "server"
    return programs


@pytest.fixture(autouse=True)
def _store_is_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERVICES, "store", STORE)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_load_is_the_same_each_time_and_each_of_its_batches_ends(name: str) -> None:
    service = SERVICES[name]
    load = service.load()
    assert load == service.load()
    assert load.requests > 300
    assert all(batch.endswith(service.end) for batch in (*load.under_load, *load.read_back))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [(b"value 7\nended\n", "wrong"), (b"none\nended\n", "lost"), (b"error\nended\n", "error")],
)
def test_a_difference_is_told_by_the_line_it_is_in(answer: bytes, fault: str) -> None:
    process: subprocess.Popen[bytes] = subprocess.Popen(["true"])
    process.wait()
    server = service_run.Server(STORE, process, Path("socket"))
    assert server.difference(b"stored\n" + answer, b"stored\nvalue 8\nended\n") == fault


def test_flips_in_a_service_are_silent_or_crash_natively_and_are_detected_when_hardened(
    stores: dict[str, Path], tmp_path: Path
) -> None:
    answers = {}
    for variant, program in stores.items():
        built = Built("store", variant, program, program)
        golden = run_golden(built, LIMITS, tmp_path)
        answers[variant] = golden.output
        lines = list(injected(built, golden, LIMITS, tmp_path, seed=5, count=40))
        outcomes = Counter(line["outcome"] for line in lines)
        assert outcomes["missed"] == 0
        if variant == "native":
            assert outcomes["silent"] > 0
            assert outcomes["detected"] == 0
            silent = next(line for line in lines if line["outcome"] == "silent")
            assert silent["fault"] in ("wrong", "lost")
            number = silent["number"]
            assert inject(built, golden, LIMITS, tmp_path, seed=5, number=number, bits=1) == silent
        else:
            assert outcomes["detected"] > 0
            assert outcomes["silent"] == 0
    assert answers["native"] == answers["ilr"]


def test_a_service_on_tcp_that_serves_one_client_at_a_time_is_struck_too(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared_folders: list[Path] = []
    monkeypatch.setitem(SERVICES, "store", replace(STORE_ON_TCP, prepare=prepared_folders.append))
    built = Built("store", "ilr", stores["ilr"], stores["ilr"])
    golden = run_golden(built, LIMITS, tmp_path)
    lines = injected(built, golden, LIMITS, tmp_path, seed=5, count=12)
    outcomes = Counter(line["outcome"] for line in lines)
    assert outcomes["detected"] > 0
    assert outcomes["silent"] == outcomes["missed"] == 0
    assert prepared_folders == 14 * [tmp_path]


def test_results_may_differ_from_run_to_run_only_where_a_service_is_known_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(*counts: int) -> Golden:
        run_ends = [
            RunEnd(0, b"answers", record.FlipReport(count, False, 0, 0, 0, "", 0, "", ""))
            for count in counts
        ]
        monkeypatch.setattr(inject_module, "execute", lambda *_: run_ends.pop())
        return run_golden(Built("store", "native", tmp_path, tmp_path), LIMITS, tmp_path)

    assert runs(1_000_000, 1_000_000).results == 1_000_000
    with pytest.raises(MeasurementFailed, match="1000001 and 1000000 results"):
        runs(1_000_000, 1_000_001)
    monkeypatch.setitem(SERVICES, "store", replace(STORE, varies=1e-4))
    assert runs(1_000_000, 1_000_100).results == 1_000_000
    with pytest.raises(MeasurementFailed):
        runs(1_000_000, 1_000_101)


def test_a_service_that_is_stopped_for_a_while_does_not_hang_one_that_never_answers_does(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_run, "_IDLE_ROUNDS", 3)
    with service_run.serve_alone(STORE, stores["native"], tmp_path, {}) as server:
        server.process.send_signal(signal.SIGSTOP)
        timer = threading.Timer(1.0, os.kill, (server.process.pid, signal.SIGCONT))
        begin_s = time.monotonic()
        timer.start()
        assert server.ask(0, b"get 0\nend\n", b"none\nended\n") == b"none\nended\n"
        assert time.monotonic() - begin_s > 3 * 0.1
        with pytest.raises(service_run.Fault) as raised:
            server.ask(0, b"get 0", b"none\nended\n")
        assert raised.value.kind == "hang"


def test_a_service_that_does_not_start_is_told_of(tmp_path: Path) -> None:
    with (
        pytest.raises(MeasurementFailed),
        service_run.serve_alone(STORE, Path("/bin/false"), tmp_path, {}),
    ):
        pass


@contextmanager
def _compared(copies: int, folder: Path) -> Iterator[tuple[service_run.Server, bytes]]:
    """Several copies of Debian's memcached, and all answers of an undisturbed load."""
    program = Path(shutil.which("memcached") or "memcached")
    built = Built("memcached", f"compared-{copies}", program, program)
    serving = serving_of(SERVICES["memcached"], program, built, folder)
    with serving({}) as server:
        answers = server.serve(None).answers
        assert server.serve(answers) == service_run.Served(answers)
        assert not server.is_masked()
        yield server, answers


def _altered(server: service_run.Server) -> None:
    """Give the struck copy another value than the others for a key that is read back."""
    with service_run.connect_to(server.process, server.path) as connection:
        connection.sendall(b"set key:0 0 0 5\r\nwrong\r\n")
        assert connection.recv(100) == b"STORED\r\n"


def test_of_two_copies_that_differ_the_arbiter_refuses_reads_and_a_third_tells_who_is_right(
    tmp_path: Path,
) -> None:
    get = b"get key:0\r\nmn\r\n"
    for copies in (2, 3):
        folder = tmp_path / str(copies)
        folder.mkdir()
        with _compared(copies, folder) as (server, _):
            answer = server.ask(0, get, None)
            _altered(server)
            if copies == 3:
                assert [server.ask(0, get, answer) for _ in range(6)] == 6 * [answer]
                assert server.is_masked()
                continue
            with pytest.raises(service_run.Fault) as raised:
                server.ask(0, get, answer)
            assert raised.value.kind == "refused"


def test_where_a_copy_dies_two_are_too_few_and_three_are_not(tmp_path: Path) -> None:
    for copies, fault in ((2, "error"), (3, "")):
        folder = tmp_path / str(copies)
        folder.mkdir()
        with _compared(copies, folder) as (server, answers):
            server.process.kill()
            server.process.wait()
            served = server.serve(answers)
            assert served.fault == fault
            assert server.is_masked()


def test_what_is_behind_the_arbiter_is_memcached_only() -> None:
    for program in ("redis", "kmeans"):
        with pytest.raises(ValidationError, match="compared, memcached has"):
            BitflipsSection.model_validate({"programs": [program], "variants": ["compared-2"]})


@pytest.mark.parametrize(
    ("fault", "masked", "status", "outcome"),
    [("wrong", False, 0, "silent"), ("refused", False, 0, "detected"), ("", True, -11, "corrected"),
     ("error", False, -11, "crash"), ("", False, 0, "correct")],
)  # fmt: skip
def test_outcomes_behind_the_arbiter_are_what_the_client_saw(
    fault: str, masked: bool, status: int, outcome: str
) -> None:
    report = record.FlipReport(0, True, 0, 3, 1, "master", 32, "process_get", "load")
    run_end = RunEnd(status, b"answers", report, fault, "load", masked)
    assert outcome_of(run_end, Golden(b"answers", 100, 0.1)) == outcome


def test_the_rates_of_a_service_are_its_requests_over_both_times() -> None:
    prices: list[Price] = [
        {"program": "redis", "variant": "native", "repeat": n, "cpu_s": 2.0, "took_s": 4.0 + n,
         "requests": 800}
        for n in range(3)
    ]  # fmt: skip
    (row,) = price_rows(prices)
    assert row["requests_per_cpu_s"] == [400.0, 400.0, 400.0]
    assert row["requests_per_s"] == [800 / 6, 800 / 5, 800 / 4]
