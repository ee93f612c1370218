"""One injection: result and bit from its number and the seed, a run, and its outcome."""

from __future__ import annotations

import dataclasses
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
from experiments.kinds.bitflips.services import SERVICES

OUTCOMES = ("correct", "corrected", "detected", "crash", "hang", "silent")
STOPPED = 97  # the exit status of runtime/runtime.h
_SILENT = ("wrong", "lost")
_ENDED_BY_LIMIT = (signal.SIGXCPU, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    """Limits of a run."""

    cpu_s: int
    wall_s: float
    memory_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class Ran:
    """The end of a run: exit status, or minus the signal; None where its time was up."""

    status: int | None
    output: bytes
    told: record.FlipReport
    fault: str = ""  # of a service's answers: see serve.Served
    phase: str = ""
    masked: bool = False  # see serve.Ended


@dataclass(frozen=True)
class Golden:
    """The undisturbed run."""

    output: bytes
    results: int
    cpu_s: float


class Injection(TypedDict):
    """A line of the journal; of a service also its answer."""

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


def run(program: Path, asked: record.FlipOrder, wall_s: float, folder: Path) -> Ran:
    """Run a program once, its output in a file of `folder`."""
    told, output = folder / "record", folder / "output"
    asked.write(told)
    environment = {"SPARECRAFT_FLIPS": str(told), "PATH": os.defpath}
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
            if process.poll() is None:
                process.kill()
                process.wait()
    return Ran(status, output.read_bytes(), record.read(told))


def execute(
    built: Built, asked: record.FlipOrder, limits: Limits, folder: Path, expected: bytes | None
) -> Ran:
    """Return a kernel, or a service under load; `expected`: the undisturbed run's output."""
    service = SERVICES.get(built.program)
    if service is None:
        return run(built.flipped, asked, limits.wall_s, folder)
    serving = serving_of(service, built.flipped, built, folder)
    ended = service_run.run(serving, built.flipped, asked, folder, expected)
    told = record.read(folder / "record")
    served = ended.served
    if asked.at == record.COUNT:
        told = dataclasses.replace(told, counted=served.counted)
    return Ran(ended.status, served.answers, told, served.fault, served.phase, ended.masked)


def golden(built: Built, limits: Limits, folder: Path) -> Golden:
    """Return the undisturbed run, twice: its output and the number of its results must be the same;
    the fewer where a service's may differ a little.

    Raises: MeasurementFailed if it fails, or is not the same twice.
    """
    asked = record.FlipOrder(record.COUNT, 0, 1, 0, limits.memory_bytes, limits.output_bytes)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = [execute(built, asked, limits, folder, None) for _ in range(2)]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    few, many = sorted(one.told.counted for one in ran)
    varies = SERVICES[built.program].varies if built.program in SERVICES else 0.0
    same = ran[0].output == ran[1].output and many - few <= varies * few
    if any(one.status != 0 for one in ran) or not same or few < 1:
        raise MeasurementFailed(
            f"{built.program}, {built.variant}",
            expected="two undisturbed runs that do the same and end with status 0",
            got=f"status {ran[0].status} and {ran[1].status}, "
            f"{ran[0].told.counted} and {ran[1].told.counted} results",
            hint="A program whose course is left to chance cannot be compared with itself.",
        )
    cpu_s = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 2
    return Golden(ran[0].output, few, cpu_s)


def drawn(seed: int, program: str, variant: str, number: int, results: int) -> tuple[int, int]:
    """Return the flipped result, uniform over the run's results, and the draw for its bits."""
    rng = random.Random(f"{seed}/{program}/{variant}/{number}")
    return rng.randrange(results), rng.getrandbits(64)


def outcome_of(ran: Ran, whole: Golden) -> str:
    """One of OUTCOMES, or `missed` where the run never came to the result."""
    if not ran.told.fired:
        return "missed"
    if ran.fault in _SILENT:  # whatever became of the service after such an answer
        return "silent"
    if ran.fault == "refused":
        return "detected"
    if ran.masked:  # whatever became of the one that was struck
        return "corrected"
    if ran.status is None or -ran.status in _ENDED_BY_LIMIT:
        return "hang"
    if ran.status == STOPPED:
        return "detected"
    if ran.status != 0 or ran.fault:
        return "crash"
    if ran.output != whole.output:
        return "silent"
    return "corrected" if ran.told.corrected else "correct"


def inject(
    built: Built, whole: Golden, limits: Limits, folder: Path, *, seed: int, number: int, bits: int
) -> Injection:
    """Injection `number`."""
    at, draw = drawn(seed, built.program, built.variant, number, whole.results)
    asked = record.FlipOrder(at, draw, bits, limits.cpu_s, limits.memory_bytes, limits.output_bytes)
    ran = execute(built, asked, limits, folder, whole.output)
    told = ran.told
    line: Injection = {
        "program": built.program, "variant": built.variant, "number": number,
        "outcome": outcome_of(ran, whole), "at": at, "bit": told.bit, "width": told.width,
        "stream": told.stream, "function": told.function, "line": told.line,
        "opcode": told.opcode, "status": ran.status, "corrected": told.corrected,
    }  # fmt: skip
    if built.program in SERVICES:
        line["fault"], line["phase"] = ran.fault, ran.phase
    return line
