"""One injection: its result and bit (from its number and the seed), its run, its outcome."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from core.errors import MeasurementFailed
from experiments.kinds.bitflips import record, service_run
from experiments.kinds.bitflips.build import Built
from experiments.kinds.bitflips.compared import serving_of
from experiments.kinds.bitflips.service_run import RunEnd
from experiments.kinds.bitflips.services import SERVICES

OUTCOMES = ("correct", "corrected", "detected", "crash", "hang", "silent")
STOPPED = 97  # the exit status of runtime/runtime.h
_SILENT = ("wrong", "lost")
_ENDED_BY_LIMIT = (signal.SIGXCPU, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    cpu_s: int
    wall_s: float
    memory_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class Golden:
    """The undisturbed run."""

    output: bytes
    results: int
    cpu_s: float


class Injection(TypedDict):
    """A line of the journal. That of a service also has its wrong answer."""

    program: str
    variant: str
    number: int
    outcome: str
    at: int
    bit: int
    width: int
    stream: str
    function: str
    line: int
    opcode: str
    status: int | None
    corrected: int
    fault: NotRequired[str]
    phase: NotRequired[str]


def run(program: Path, order: record.FlipOrder, wall_s: float, folder: Path) -> RunEnd:
    """Run a program once, its output in a file of `folder`."""
    record_file, output = folder / "record", folder / "output"
    order.write(record_file)
    environment = {"SPARECRAFT_FLIPS": str(record_file), "PATH": os.defpath}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [program], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL,
            env=environment, cwd=folder,
        )  # fmt: skip
        try:
            status: int | None = process.wait(wall_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            service_run.end(process)
    return RunEnd(status, output.read_bytes(), record.read(record_file))


def execute(
    built: Built, order: record.FlipOrder, limits: Limits, folder: Path, expected: bytes | None
) -> RunEnd:
    """Run a kernel, or a service under load; `expected`: the undisturbed run's output."""
    service = SERVICES.get(built.program)
    if service is None:
        return run(built.flipped, order, limits.wall_s, folder)
    serving = serving_of(service, built.flipped, built, folder)
    return service_run.run(serving, built.flipped, order, folder, expected)


def run_golden(built: Built, limits: Limits, folder: Path) -> Golden:
    """Return the undisturbed run. It is made twice: both must have the same output and the same
    number of results. If a service's number may differ a little, the smaller one counts.

    Raises: MeasurementFailed if a run fails, or the two differ.
    """
    order = record.FlipOrder(record.COUNT, 0, 1, 0, limits.memory_bytes, limits.output_bytes)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    endings = [execute(built, order, limits, folder, None) for _ in range(2)]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    fewest, most = sorted(ending.report.counted for ending in endings)
    varies = SERVICES[built.program].varies if built.program in SERVICES else 0.0
    same = endings[0].output == endings[1].output and most - fewest <= varies * fewest
    if any(ending.status != 0 for ending in endings) or not same or fewest < 1:
        raise MeasurementFailed(
            f"{built.program}, {built.variant}",
            expected="two undisturbed runs that do the same and end with status 0",
            got=f"status {endings[0].status} and {endings[1].status}, "
            f"{endings[0].report.counted} and {endings[1].report.counted} results",
            hint="A program whose course is left to chance cannot be compared with itself.",
        )
    cpu_s = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 2
    return Golden(endings[0].output, fewest, cpu_s)


def draw_flip(seed: int, program: str, variant: str, number: int, results: int) -> tuple[int, int]:
    """Return the flipped result, uniform over the run's results, and the draw for its bits."""
    rng = random.Random(f"{seed}/{program}/{variant}/{number}")
    return rng.randrange(results), rng.getrandbits(64)


def outcome_of(ran: RunEnd, reference: Golden) -> str:
    """One of OUTCOMES, or `missed` if the run never came to the result."""
    if not ran.report.fired:
        return "missed"
    if ran.fault in _SILENT:  # whatever happened to the service after such an answer
        return "silent"
    if ran.fault == "refused":
        return "detected"
    if ran.masked:  # whatever happened to the struck copy
        return "corrected"
    if ran.status is None or -ran.status in _ENDED_BY_LIMIT:
        return "hang"
    if ran.status == STOPPED:
        return "detected"
    if ran.status != 0 or ran.fault:
        return "crash"
    if ran.output != reference.output:
        return "silent"
    return "corrected" if ran.report.corrected else "correct"


def inject(
    built: Built,
    reference: Golden,
    limits: Limits,
    folder: Path,
    *,
    seed: int,
    number: int,
    bits: int,
) -> Injection:
    at, draw = draw_flip(seed, built.program, built.variant, number, reference.results)
    order = record.FlipOrder(at, draw, bits, limits.cpu_s, limits.memory_bytes, limits.output_bytes)
    ran = execute(built, order, limits, folder, reference.output)
    report = ran.report
    line: Injection = {
        "program": built.program, "variant": built.variant, "number": number,
        "outcome": outcome_of(ran, reference), "at": at, "bit": report.bit, "width": report.width,
        "stream": report.stream, "function": report.function, "line": report.line,
        "opcode": report.opcode, "status": ran.status, "corrected": report.corrected,
    }  # fmt: skip
    if built.program in SERVICES:
        line["fault"], line["phase"] = ran.fault, ran.phase
    return line
