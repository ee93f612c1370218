"""The campaign: every injection into every program and variant, then the price in speed.

Each injection is drawn from the seed and its own number, and journalled when it is over: a run that
is cut short is gone on with by the next of the same design, programs and seed, and any one can be
done again (`replay.py`).
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from core.errors import MeasurementFailed
from core.runfiles.events import json_lines
from experiments.kinds.bitflips.build import Built, build
from experiments.kinds.bitflips.compared import serving_of
from experiments.kinds.bitflips.inject import Golden, Limits, golden, inject
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
        "fault": pl.String,  # of a service's answers, as serve.Served has them
        "phase": pl.String,
    }
)  # fmt: skip


class Campaign:
    """Measures; `testbed.keep` makes sure that what was found is written, whatever happens."""

    def __init__(self, testbed: Testbed, section: BitflipsSection) -> None:
        self._testbed = testbed
        self._section = section
        self._seed = testbed.design.experiment.design.seed
        self._programs: list[dict[str, Any]] = []
        self._outputs: dict[str, bytes] = {}
        self._injections: list[dict[str, Any]] = []
        self._prices: list[dict[str, Any]] = []
        testbed.keep(self._write)

    def measure(self) -> None:
        """All of it, in a folder of its own that is removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="sparecraft-bitflips-") as name:
            work = Path(name)
            for program in self._section.programs:
                with self._testbed.narrator.step(f"{program}: compiling its variants"):
                    built = [
                        build(program, variant, work, self._section.sites)
                        for variant in self._section.variants
                    ]
                for one in built:
                    self._inject_all(one, work)
                self._price(built, work)

    def _inject_all(self, built: Built, work: Path) -> None:
        section = self._section
        with self._testbed.narrator.step(f"{built.program}, {built.variant}"):
            whole, limits = self._undisturbed(built, work)
            self._compare(built, whole)
            self._programs.append({
                "program": built.program, "variant": built.variant, "results": whole.results,
                "cpu_s": whole.cpu_s, "digest": built.digest, "limit_cpu_s": limits.cpu_s,
            })  # fmt: skip
            folder = self._testbed.folder.parent / "journals"
            folder.mkdir(exist_ok=True)
            journal = Journal(folder / journal_name(built, whole, self._seed, section))
            done = {line["number"]: line for line in journal.lines()}
            left = [number for number in range(section.injections) if number not in done]
            try:
                for line in self._injected(built, whole, limits, left, work):
                    journal.append(line)
                    done[line["number"]] = line
            finally:
                journal.close()
                self._injections += [done[n] for n in sorted(done) if n < section.injections]

    def _undisturbed(self, built: Built, work: Path) -> tuple[Golden, Limits]:
        section = self._section
        sizes = (section.memory_mb << 20, section.output_mb << 20)
        whole = golden(built, Limits(0, section.wall_s, *sizes), work)
        cpu_s = max(section.cpu_s, math.ceil(10 * whole.cpu_s))
        return whole, Limits(cpu_s, section.wall_s, *sizes)

    def _compare(self, built: Built, whole: Golden) -> None:
        """Undisturbed, a variant says what the first one said."""
        if self._outputs.setdefault(built.program, whole.output) != whole.output:
            raise MeasurementFailed(
                f"{built.program}, {built.variant}",
                expected="the output of the first variant", got="another",
                hint="It is a defect of the pass: compile it with -O0, then function by function.",
            )  # fmt: skip

    def _injected(
        self, built: Built, whole: Golden, limits: Limits, numbers: Sequence[int], work: Path
    ) -> Iterator[dict[str, Any]]:
        """Each injection when it is over, `workers` at a time, each worker in its own folder."""
        own = threading.local()

        def one(number: int) -> dict[str, Any]:
            if not hasattr(own, "folder"):
                own.folder = Path(tempfile.mkdtemp(dir=work))
            return inject(
                built, whole, limits, own.folder,
                seed=self._seed, number=number, bits=self._section.bits,
            )  # fmt: skip

        with ThreadPoolExecutor(self._section.workers) as pool:
            try:
                yield from pool.map(one, numbers)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _price(self, variants: Sequence[Built], work: Path) -> None:
        """CPU time of each variant as it is used, in turn, so that a busy host strikes all."""
        section = self._section
        with self._testbed.narrator.step(f"{variants[0].program}: the price"):
            for repeat in range(section.price_repeats):
                for built in variants:
                    self._prices.append({
                        "program": built.program, "variant": built.variant, "repeat": repeat,
                        **price_of(built, section.price_rounds, section.wall_s, work),
                    })  # fmt: skip

    def _write(self, folder: Path) -> dict[str, Any] | None:
        if not self._injections:
            return None
        table = pl.DataFrame([{name: one[name] for name in INJECTIONS} for one in self._injections])
        write_table(folder / INJECTIONS_FILE, table.cast(INJECTIONS), INJECTIONS)
        answers = [one for one in self._injections if one["program"] in SERVICES]
        if answers:
            table = pl.DataFrame([{name: one[name] for name in ANSWERS} for one in answers])
            write_table(folder / ANSWERS_FILE, table.cast(ANSWERS), ANSWERS)
        write_json(folder / PRICES_FILE, self._prices)
        return {"programs": self._programs}


def journal_name(built: Built, whole: Golden, seed: int, section: BitflipsSection) -> str:
    """One for each program as it was compiled, what it says, seed, bits and limits, which decide
    what crashes and hangs: another's lines are not ours. The limit of CPU time is the design's, as
    an undisturbed run's time is never twice the same."""
    said = hashlib.sha256(whole.output).hexdigest()
    limits = [section.cpu_s, section.wall_s, section.memory_mb, section.output_mb]
    facts = json.dumps([built.digest, said, seed, section.bits, *limits])
    name = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return f"{built.program}-{built.variant}-{name}.jsonl"


class Journal:
    """A line for each injection that is over; one that was cut short is left out and done again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        whole = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
        with space_for(path):
            self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
            self._file.truncate(len(whole[0]) + len(whole[1]))
            self._file.seek(0, 2)

    def lines(self) -> list[dict[str, Any]]:
        """Those there are."""
        return [line for _, line in json_lines(self._path)]

    def append(self, line: dict[str, Any]) -> None:
        """One more."""
        with space_for(self._path):
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def price_of(built: Built, rounds: int, wall_s: float, work: Path) -> dict[str, Any]:
    """CPU time of a run; of a service also its requests, and how long they took; of one that had
    hardware transactions, how many were begun and aborted, by reason (runtime/rtm.c)."""
    counts = work / "transactions"
    counts.unlink(missing_ok=True)
    environment = {"SPARECRAFT_TX_COUNTS": str(counts)}
    service = SERVICES.get(built.program)
    price: dict[str, Any]
    if service is None:
        price = {"cpu_s": cpu_time_s(built.plain, rounds, wall_s, environment)}
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
    """CPU time of a run [s]. Raises MeasurementFailed where it fails."""
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
