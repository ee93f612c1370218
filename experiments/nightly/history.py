"""history.jsonl: the record of every night, appended line by line, each synced, never changed.

Five kinds of line, by `what`: a `night` begins; a run `start`s; its `run` lines follow, one per
arm; if it closed the loop, a measured `prediction`; the `end` of the night. A start without runs,
or a night without an end, was interrupted, and the next night detects it. Nights are numbered,
because a clock may go backwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core.json_object import JsonObject
from experiments.record.records import space_for

SCHEMA = 1
FILE = "history.jsonl"
ASIDE = "history.aside"


class _Record(BaseModel):
    """A part of a line. A key that is not known comes from a later version, and is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Line(_Record):
    """The fields of every line."""

    schema_: Annotated[int, Field(alias="schema")] = SCHEMA
    night: int
    at: datetime  # when it was written


class Night(_Line):
    """A night begins."""

    what: Literal["night"] = "night"
    suite: str
    budget_minutes: float
    entries: tuple[str, ...]  # in the suite's order
    gone: dict[str, str] = {}  # entries whose design cannot be read, and why
    clock_back_s: float = 0.0  # how far the clock is behind the line before


class Start(_Line):
    """A run is started."""

    what: Literal["start"] = "start"
    number: int  # of the night's runs, from 1
    entry: str
    design: str
    digest: str
    note: str = ""
    experiment: str
    seed: int
    reference_per_s: float | None = None  # `reference.py`, timed just before
    close: bool = False  # its plan is to be measured too


class Percentile(_Record):
    """A percentile of an arm with its 95 % interval and its number of requests."""

    ms: float
    low_ms: float | None = None
    high_ms: float | None = None
    samples: int = 0
    sufficient: bool = True  # at least ten requests lie beyond it


class Gain(_Record):
    """log(baseline / arm) of the same run with its 95 % interval: above 0, the arm is faster."""

    log: float
    low: float | None = None
    high: float | None = None
    sufficient: bool = True


class Run(_Line):
    """One arm of a run; a run without any arm has one line with none."""

    what: Literal["run"] = "run"
    number: int
    entry: str
    design: str
    digest: str
    note: str = ""
    seed: int
    experiment: str
    reference_per_s: float | None = None  # of the reference kernel, timed just before
    run: str | None = None
    folder: str | None = None  # below the results folder
    kind: str | None = None
    platform: str | None = None
    started: datetime | None = None
    minutes: float | None = None
    exit_code: int | None = None
    version: str | None = None
    commit: str | None = None
    host: JsonObject = {}
    valid: bool
    reasons: tuple[str, ...] = ()
    disturbed: bool = False  # others took the host: not valid, and no fleet's doing
    stopped: str = ""  # guard or halt, where one of them ended it
    found: str = ""  # in few words, of a kind without arms
    cost: dict[str, float | None] = {}  # usd, usd_per_hour, usd_per_month, usd_per_million_good
    plan: JsonObject = {}  # feasible, usd_per_month, book, prices_as_of, region
    faults: JsonObject = {}  # injected, reverted, clean
    baseline: str | None = None
    judged: str | None = None  # the arm that the SLO is asked of; None where a line has no arm
    arm: str | None = None
    requests: int = 0
    errors: int = 0
    core_speed: float | None = None  # 10^6 additions per CPU second, median of its blocks
    stolen_share: float | None = None
    others_share: float | None = None
    p50: Percentile | None = None
    p95: Percentile | None = None
    p99: Percentile | None = None
    slo: dict[str, float] = {}
    slo_set: str | None = None  # before or after the first run
    slo_met: bool | None = None
    burn: dict[str, float] = {}  # share beyond a limit over the share that may be, by limit
    gains: dict[str, Gain] = {}
    levels: dict[str, float] = {}  # of the run, what its kind says is to be watched


class PredictedValue(_Record):
    """A predicted figure beside the measured one, each with its interval as far as it has one."""

    predicted: float
    low: float | None = None  # of where the plan expected the measured figure
    high: float | None = None
    measured: float
    measured_low: float | None = None
    measured_high: float | None = None
    covered: bool | None = None  # the measured figure lies in the plan's interval

    @property
    def error(self) -> float | None:
        """The measured figure over the predicted one, less 1; None of a prediction of zero."""
        return self.measured / self.predicted - 1.0 if self.predicted else None


class Prediction(_Line):
    """A plan's prediction, and the run of the planned fleet that measured it."""

    what: Literal["prediction"] = "prediction"
    number: int  # of the night's run that it was planned from
    entry: str
    run: str
    folder: str  # below the results folder
    source_run: str | None = None
    started: datetime | None = None
    commit: str | None = None
    valid: bool
    reasons: tuple[str, ...] = ()
    promise: str  # kept, broken or undecided
    services: tuple[str, ...]  # the tiers' roles, the front first
    policy: str
    utilisation: float | None = None  # of the tier that is used most, as the plan says
    confidence: float | None = None  # of the intervals
    usd_before: float | None = None  # a month
    usd_after: float | None = None
    figures: dict[str, PredictedValue] = {}  # p95_ms; beyond/p95_ms, a share of requests; cpu/web


class End(_Line):
    """A night came to its end."""

    what: Literal["end"] = "end"
    runs: int
    left_out: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()  # new tonight
    halted: str = ""  # the reason that `sparecraft halt` gave


AnyLine = Night | Start | Run | Prediction | End
_LINE: TypeAdapter[AnyLine] = TypeAdapter(Annotated[AnyLine, Field(discriminator="what")])


@dataclass(frozen=True)
class History:
    """The lines that were read, in the file's order, and those that could not be."""

    nights: tuple[Night, ...] = ()
    starts: tuple[Start, ...] = ()
    runs: tuple[Run, ...] = ()
    ends: tuple[End, ...] = ()
    notes: tuple[str, ...] = ()
    predictions: tuple[Prediction, ...] = ()

    @property
    def last_night(self) -> int:
        """The number of the newest night; 0 before the first."""
        return max((night.night for night in self.nights), default=0)

    @property
    def last_at(self) -> datetime | None:
        """The time at which the last line was written."""
        lines = [*self.nights, *self.starts, *self.runs, *self.predictions, *self.ends]
        return max(lines, key=lambda line: (line.night, line.at)).at if lines else None

    @property
    def entries(self) -> frozenset[str]:
        """Every name that was ever run or in a suite."""
        named = {name for night in self.nights for name in night.entries}
        return frozenset(named | {run.entry for run in self.runs})

    @property
    def unfinished(self) -> tuple[Start, ...]:
        """Runs that were started and left no line: the night was cut short."""
        finished = {(run.night, run.number) for run in self.runs}
        return tuple(start for start in self.starts if (start.night, start.number) not in finished)

    def end_of(self, night: int) -> End | None:
        """Return the end of a night; None if it was cut short."""
        return next((end for end in reversed(self.ends) if end.night == night), None)

    @property
    def folders(self) -> dict[str, int]:
        """The folders of all runs below the results folder, with their nights."""
        runs = {run.folder: run.night for run in self.runs if run.folder}
        return runs | {prediction.folder: prediction.night for prediction in self.predictions}

    def runs_of(self, entry: str) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.entry == entry)


def heads(runs: Sequence[Run], night: int | None = None) -> list[Run]:
    """Return one line of each run, oldest first, of one night or of all nights."""
    night_runs = [run for run in runs if night is None or run.night == night]
    return list({(run.night, run.number): run for run in reversed(night_runs)}.values())[::-1]


def incomplete(history: History, night: int) -> dict[str, str]:
    """Return the designs of a night without a complete result, with the reason."""
    night_line = next((line for line in reversed(history.nights) if line.night == night), None)
    end = history.end_of(night)
    reasons = dict.fromkeys(night_line.gone, "it cannot be read") if night_line else {}
    reasons |= dict.fromkeys(end.left_out if end else (), "left out")
    for run in history.runs:
        if run.night == night and not run.valid:
            reasons[run.entry] = "disturbed" if run.disturbed else "not valid"
    for start in history.unfinished:
        if start.night == night:
            reasons[start.entry] = "cut short"
    measured = {
        (prediction.night, prediction.number)
        for prediction in history.predictions
        if prediction.valid
    }
    for start in history.starts:
        if start.night == night and start.close and (night, start.number) not in measured:
            reasons.setdefault(start.entry, "its plan was not measured")
    return reasons


def missed(runs: Iterable[Run]) -> list[str]:
    """Return the entries whose SLO was not met in a valid run, by the arm to which it applies."""
    missed_runs = [
        run for run in runs if run.valid and run.arm == run.judged and run.slo_met is False
    ]
    return list(dict.fromkeys(run.entry for run in missed_runs))


def broken(history: History, night: int) -> list[str]:
    """Return the entries whose plan did not keep its promise in a valid run of its fleet."""
    broken_predictions = [
        prediction
        for prediction in history.predictions
        if prediction.night == night and prediction.promise == "broken"
    ]
    return list(
        dict.fromkeys(prediction.entry for prediction in broken_predictions if prediction.valid)
    )


def read_history(folder: Path) -> History:
    """Read every line that this version understands; name the others, which stay in the file."""
    lines_by_type: dict[type[Any], list[Any]] = {}
    path = folder / FILE
    text = path.read_bytes() if path.is_file() else b""
    for number, line in enumerate(text.split(b"\n"), start=1):
        if line.strip():
            parsed = _read_line(line)
            kept_line = f"{path}:{number}: {parsed}; skipped" if isinstance(parsed, str) else parsed
            lines_by_type.setdefault(type(parsed), []).append(kept_line)
    kinds: tuple[type[Any], ...] = (Night, Start, Run, End, str, Prediction)
    return History(*(tuple(lines_by_type.get(kind, ())) for kind in kinds))


def _read_line(line: bytes) -> AnyLine | str:
    """Return a line, or the reason in words that it is not understood."""
    try:
        values = json.loads(line)
        schema = int(values["schema"])
    except (ValueError, KeyError, TypeError):
        return "no line of a history"
    if schema > SCHEMA:
        return f"written by a later version (schema {schema})"
    try:
        return _LINE.validate_python(values)
    except ValidationError as error:
        problem = error.errors()[0]
        return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


class Writer:
    """Appends lines. Its owner must hold the night's lock."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self.notes = tuple(_repair_last_line(self._path, folder / ASIDE))

    def append(self, *lines: AnyLine) -> None:
        """Write and sync all lines; if the disk is full, write none. Raises DiskFull."""
        data = b"".join(line.model_dump_json(by_alias=True).encode() + b"\n" for line in lines)
        with space_for(self._path), self._path.open("ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            try:
                written = 0
                while written < len(data):
                    written += file.write(data[written:])
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise


def _repair_last_line(path: Path, aside: Path) -> Iterator[str]:
    """Move a last line that a crash cut short into `aside`, so that the next line is complete.

    Yield a note if there was one.
    """
    data = path.read_bytes() if path.is_file() else b""
    complete, end, torn = data.rpartition(b"\n")
    if not torn:
        return
    if _is_json(torn):  # only its end is missing
        _append(path, b"\n")
        return
    _append(aside, torn + b"\n")
    with path.open("r+b") as file:
        file.truncate(len(complete + end))
        os.fsync(file.fileno())
    yield f"{path}: the last line was cut short; its {len(torn)} bytes are in {aside}"


def _is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), Mapping)
    except ValueError:
        return False


def _append(path: Path, data: bytes) -> None:
    with space_for(path), path.open("ab", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
