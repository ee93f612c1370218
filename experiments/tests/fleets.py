"""Fleets on this host's Docker, which are gone when a test ends, and runs that are watched."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from core.runfiles.events import Event, read_events
from experiments.design.roles import Roles
from experiments.testbed.fleet import connect, disconnect, wait_ready
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.tests.called import COMMAND
from experiments.tests.quiet import NOBODY

_WAIT_S = 540.0  # a row of limplock takes 300 on a busy host of two cores


def experiment_toml(measure_s: int, arm: str) -> str:
    """Return a small experiment on a tier `web`; nearly any answers meet its SLO."""
    return f"""
kind = "compare"
[load]
user = "php-loop"
arrivals = "poisson"
rate_per_s = 5.0
[phases]
warm_up = 1
measure = {measure_s}
[interference]
pattern = "front"
kinds = ["cpu"]
mean_gap_s = 2.0
mean_run_s = 2.0
cpu_workers = 1
{arm}
[slo]
availability = 0.5
p95_ms = 4000.0
p99_ms = 5000.0
max_error_share = 0.9
[design]
order = "A"
repeats = 1
"""


def assert_served(arm: Mapping[str, Any], requests: int) -> None:
    """Assert more than so many requests of an arm in result.json, an answer to three in four, as on
    a busy host some come too late, and that none has a wrong content."""
    assert arm["requests"] > requests, arm
    assert arm["outcomes"]["bad_content"] == 0, arm
    assert arm["errors"] <= arm["requests"] / 4, arm


@contextmanager
def nothing_stays(*experiments: str) -> Iterator[None]:
    """Remove fleets of these names before and after the block, and end the runs started in it."""
    for name in experiments:
        LocalPlatform(name).down(print)
    try:
        yield
    finally:
        while Started.processes:
            process = Started.processes.pop()
            process.kill()  # nothing where it has ended
            process.wait()
        for name in experiments:
            LocalPlatform(name).down(print)
    assert [leftover for name in experiments for leftover in docker.find(name)] == []


@contextmanager
def live(experiment: str, tfvars: Path, roles: Roles) -> Iterator[Fleet]:
    """A fleet whose machines are ready."""
    with nothing_stays(experiment):
        platform = LocalPlatform(experiment)
        fleet = connect(platform, platform.up(tfvars, print))
        wait_ready(fleet, roles, NOBODY)
        yield fleet
        disconnect(fleet)


class Started:
    """`sparecraft` in the background; its files are in `results`."""

    processes: ClassVar[list[subprocess.Popen[bytes]]] = []

    def __init__(self, results: Path, *arguments: str) -> None:
        results.mkdir(parents=True, exist_ok=True)
        self.results = results
        self._said = [results / name for name in ("err.txt", "out.txt")]
        command = [*COMMAND, *arguments, "--results", str(results)]
        with self._said[0].open("w") as err, self._said[1].open("w") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        self.processes.append(self.process)

    @property
    def output(self) -> str:
        """The output so far."""
        return "".join(path.read_text() for path in self._said)

    def events(self) -> list[Event]:
        """The events of its run so far."""
        files = list(self.results.glob("*/2*/events.jsonl"))
        return read_events(files[0]) if files else []

    def until(self, label: str, condition: Callable[[], bool]) -> None:
        """Wait for something that comes before its end."""
        deadline = time.monotonic() + _WAIT_S
        while not condition():
            assert self.process.poll() is None, f"ended while waiting for {label}: {self.output}"
            assert time.monotonic() < deadline, f"no {label} within {_WAIT_S} s: {self.output}"
            time.sleep(0.2)

    def until_event(self, **values: str) -> None:
        """Wait for an event with these values."""
        self.until(
            f"event {values}", lambda: any(values.items() <= e.items() for e in self.events())
        )

    def ended(self, *codes: int) -> str:
        """Wait for the end and return the output; the exit code has to be one of `codes`."""
        code = self.process.wait(timeout=_WAIT_S)
        assert "Traceback" not in self.output, self.output
        assert code in codes, self.output
        return self.output
