"""The campaign: every injection into every program and variant, then the price in speed.

Each injection is drawn from the seed and its own number, and is written to the journal when it is
over. The next run of the same design, programs and seed continues an interrupted one. Any injection
can be repeated (`replay.py`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import polars as pl

from core.errors import MeasurementFailed
from core.runfiles.events import json_lines
from core.runfiles.manifest import Manifest
from experiments.kinds.bitflips.build import Built, build
from experiments.kinds.bitflips.compared import serving_of
from experiments.kinds.bitflips.inject import Golden, Injection, Limits, inject, run_golden
from experiments.kinds.bitflips.section import BitflipsSection
from experiments.kinds.bitflips.service_run import cpu_time
from experiments.kinds.bitflips.services import SERVICES
from experiments.record.records import space_for, write_json, write_table
from experiments.testbed.testbed import Testbed

INJECTIONS_FILE = "injections.parquet"
PRICES_FILE = "prices.json"
ANSWERS_FILE = "answers.parquet"
INJECTIONS = pl.Schema(
    {
        "program": pl.String, "variant": pl.String, "number": pl.Int64, "outcome": pl.String,
        "at": pl.Int64, "bit": pl.Int64, "width": pl.Int64, "stream": pl.String,
        "function": pl.String, "line": pl.Int64, "opcode": pl.String, "status": pl.Int64,
        "corrected": pl.Int64,
    }
)  # fmt: skip
ANSWERS = pl.Schema(
    {
        "program": pl.String, "variant": pl.String, "number": pl.Int64,
        "fault": pl.String,  # of a service's answers, as in service_run.Served
        "phase": pl.String,
    }
)  # fmt: skip


class Program(TypedDict):
    """A compiled program and its undisturbed run."""

    program: str
    variant: str
    results: int
    cpu_s: float
    digest: str
    limit_cpu_s: int


class BitflipsManifest(Manifest, total=False):
    programs: list[Program]


class Cost(TypedDict):
    """CPU time of a run. A service also has its requests and their time. A program with hardware
    transactions has the numbers that were begun, and aborted by reason (runtime/rtm.c)."""

    cpu_s: float
    took_s: NotRequired[float]
    requests: NotRequired[int]
    transactions: NotRequired[dict[str, int]]


class Price(Cost):
    program: str
    variant: str
    repeat: int


class Campaign:
    """The measurement; `testbed.keep` makes sure that results are written, whatever happens."""

    def __init__(self, testbed: Testbed, section: BitflipsSection) -> None:
        self._testbed = testbed
        self._section = section
        self._seed = testbed.design.experiment.design.seed
        self._programs: list[Program] = []
        self._outputs: dict[str, bytes] = {}
        self._injections: list[Injection] = []
        self._prices: list[Price] = []
        testbed.keep(self._write)

    def measure(self) -> None:
        with tempfile.TemporaryDirectory(prefix="sparecraft-bitflips-") as name:
            work = Path(name)
            for program in self._section.programs:
                with self._testbed.narrator.step(f"{program}: compiling its variants"):
                    variants = [
                        build(program, variant, work, self._section.sites)
                        for variant in self._section.variants
                    ]
                for built in variants:
                    self._inject_all(built, work)
                self._price(variants, work)

    def _inject_all(self, built: Built, work: Path) -> None:
        section = self._section
        with self._testbed.narrator.step(f"{built.program}, {built.variant}"):
            reference, limits = self._run_undisturbed(built, work)
            self._compare(built, reference)
            self._programs.append({
                "program": built.program, "variant": built.variant, "results": reference.results,
                "cpu_s": reference.cpu_s, "digest": built.digest, "limit_cpu_s": limits.cpu_s,
            })  # fmt: skip
            folder = self._testbed.folder.parent / "journals"
            folder.mkdir(exist_ok=True)
            journal = Journal(folder / journal_name(built, reference, self._seed, section))
            done = {line["number"]: line for line in journal.lines()}
            numbers = [number for number in range(section.injections) if number not in done]
            try:
                for line in self._run_injections(built, reference, limits, numbers, work):
                    journal.append(line)
                    done[line["number"]] = line
            finally:
                journal.close()
                self._injections += [done[n] for n in sorted(done) if n < section.injections]

    def _run_undisturbed(self, built: Built, work: Path) -> tuple[Golden, Limits]:
        section = self._section
        sizes = (section.memory_mb << 20, section.output_mb << 20)
        reference = run_golden(built, Limits(0, section.wall_s, *sizes), work)
        cpu_s = max(section.cpu_s, math.ceil(10 * reference.cpu_s))
        return reference, Limits(cpu_s, section.wall_s, *sizes)

    def _compare(self, built: Built, reference: Golden) -> None:
        """Check that an undisturbed variant has the first variant's output."""
        if self._outputs.setdefault(built.program, reference.output) != reference.output:
            raise MeasurementFailed(
                f"{built.program}, {built.variant}",
                expected="the output of the first variant", got="another",
                hint="It is a defect of the pass: compile it with -O0, then function by function.",
            )  # fmt: skip

    def _run_injections(
        self, built: Built, reference: Golden, limits: Limits, numbers: Sequence[int], work: Path
    ) -> Iterator[Injection]:
        """Yield each injection when it is over, `workers` at a time, each worker in its
        own folder.
        """
        worker = threading.local()

        def inject_one(number: int) -> Injection:
            if not hasattr(worker, "folder"):
                worker.folder = Path(tempfile.mkdtemp(dir=work))
            return inject(
                built, reference, limits, worker.folder,
                seed=self._seed, number=number, bits=self._section.bits,
            )  # fmt: skip

        with ThreadPoolExecutor(self._section.workers) as pool:
            try:
                yield from pool.map(inject_one, numbers)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _price(self, variants: Sequence[Built], work: Path) -> None:
        """CPU time of each variant in normal use, in turn, so that a busy host affects all."""
        section = self._section
        with self._testbed.narrator.step(f"{variants[0].program}: the price"):
            for repeat in range(section.price_repeats):
                for built in variants:
                    self._prices.append({
                        "program": built.program, "variant": built.variant, "repeat": repeat,
                        **price_of(built, section.price_rounds, section.wall_s, work),
                    })  # fmt: skip

    def _write(self, folder: Path) -> Mapping[str, object] | None:
        if not self._injections:
            return None
        _write_rows(folder / INJECTIONS_FILE, self._injections, INJECTIONS)
        answers = [injection for injection in self._injections if injection["program"] in SERVICES]
        if answers:
            _write_rows(folder / ANSWERS_FILE, answers, ANSWERS)
        write_json(folder / PRICES_FILE, self._prices)
        return {"programs": self._programs}


def _write_rows(file: Path, rows: Sequence[Mapping[str, object]], schema: pl.Schema) -> None:
    table = pl.DataFrame([{name: row[name] for name in schema} for row in rows])
    write_table(file, table.cast(schema), schema)


def journal_name(built: Built, reference: Golden, seed: int, section: BitflipsSection) -> str:
    """Return a name of its own for each compiled program, its output, seed, bits and limits. Limits
    decide what crashes and hangs, so lines under other limits cannot be used. The limit of CPU time
    is the design's, because the time of an undisturbed run differs from run to run."""
    output_digest = hashlib.sha256(reference.output).hexdigest()
    limits = [section.cpu_s, section.wall_s, section.memory_mb, section.output_mb]
    facts = json.dumps([built.digest, output_digest, seed, section.bits, *limits])
    name = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return f"{built.program}-{built.variant}-{name}.jsonl"


class Journal:
    """A line for each injection that is over. A line that was cut short is removed, and its
    injection is done again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        parts = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
        with space_for(path):
            self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
            self._file.truncate(len(parts[0]) + len(parts[1]))
            self._file.seek(0, 2)

    def lines(self) -> list[Injection]:
        return [cast(Injection, line) for _, line in json_lines(self._path)]

    def append(self, line: Injection) -> None:
        with space_for(self._path):
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


def price_of(built: Built, rounds: int, wall_s: float, work: Path) -> Cost:
    counts = work / "transactions"
    counts.unlink(missing_ok=True)
    environment = {"SPARECRAFT_TX_COUNTS": str(counts)}
    service = SERVICES.get(built.program)
    if service is None:
        price: Cost = {"cpu_s": cpu_time_s(built.plain, rounds, wall_s, environment)}
    else:
        if service.clock_s is not None:
            environment["LD_PRELOAD"] = str(built.flipped.with_name("steady.so"))
        serving = serving_of(service, built.plain, built, work)
        cpu_s, took_s, requests = cpu_time(service, serving, rounds, environment)
        price = {"cpu_s": cpu_s, "took_s": took_s, "requests": requests}
    if counts.exists():
        price["transactions"] = json.loads(counts.read_text(encoding="utf-8"))
    return price


def cpu_time_s(program: Path, rounds: int, wall_s: float, environment: dict[str, str]) -> float:
    """CPU time of a run [s]. Raises MeasurementFailed if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [program, str(rounds)], stdin=subprocess.DEVNULL, capture_output=True, timeout=wall_s,
        env={"PATH": os.defpath, **environment},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode != 0:
        raise MeasurementFailed(
            program.name, expected="status 0", got=str(ended.returncode), hint="Run it by hand."
        )
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
