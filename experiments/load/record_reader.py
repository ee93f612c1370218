"""Checks of a load worker's records and messages against its plan.

A worker is any program. It has failed if it writes an invalid record, a record that is not of the
plan or a record twice, or if it sends an invalid message; earlier records are kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from experiments.load.plan import LoadPlan
from experiments.record.records import OUTCOMES, RequestRecord

LINE_BYTES_MAX = 64 * 1024
_READ_BYTES = 1 << 20
_APART_S = 1e-3  # between a time that follows from the plan and the record's
_UNSENT = ("dropped", "lost", "unreached")
_TIMES = ("sent_s", "done_s", "latency_ms", "lag_ms")

Count = Annotated[int, Field(ge=0)]


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class TaskUse(_Message):
    """Tasks of a Locust file's users, warm-up included: what became of arrivals beyond their
    requests.

    users: of the pool; not_started: no user was free; no_request: it ended without any; raised:
    outside a request; timed_out: ended at its limit; replaced: users; outside: requests of
    on_start, on_stop and the file's own greenlets, of which none is recorded; errors: with how
    often each.
    """

    users: Count
    not_started: Count
    no_request: Count
    raised: Count
    timed_out: Count
    replaced: Count
    outside: Count
    errors: list[str]


class WorkerUse(_Message):
    """One process of the load: its part of the plan, and what it took of a core."""

    worker: Count
    planned: Count
    recorded: Count
    host: str | None = None
    priority: str | None = None
    cpu_share: float | None = None
    cpu_share_max: float | None = None
    clock_offset_s: float | None = None
    clock_uncertainty_s: float | None = None
    clock_drift_s: float | None = None
    tasks: TaskUse | None = None


class Ready(_Message):
    """Message of a worker that has read its plan and waits for `go`."""

    state: Literal["ready"]


class Done(_Message):
    """It has ended, and every record that it could write is in the file.

    launched: arrivals that it came to; recorded: records; ended: arrivals that are over, where
    these are not as many (a task of a Locust file makes any number of requests); unfinished: in
    flight when it was told to stop; unwritten: records that the disk did not take, with its
    `error`, which without them is why the worker failed.
    """

    state: Literal["done"]
    launched: Count
    recorded: Count
    ended: Count | None = None
    unfinished: Count = 0
    unwritten: Count = 0
    error: str | None = None
    workers: list[WorkerUse] = Field(default_factory=list)

    @property
    def arrivals_ended(self) -> int:
        """Arrivals that are over, with all their records."""
        return self.recorded if self.ended is None else self.ended


Message = Ready | Done
MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="state")])
RECORD: TypeAdapter[RequestRecord] = TypeAdapter(RequestRecord)


class ContractViolation(Exception):
    """The worker does not keep to its contract; the text says how."""


def message_of(line: bytes) -> Message:
    """Return a line of the control socket. Raises: ContractViolation."""
    try:
        return MESSAGE.validate_json(line)
    except ValidationError as error:
        problem = f"on its control socket {_first_error(error)}: {_quote(line)}"
        raise ContractViolation(problem) from error


class RecordReader:
    """Reads records from a growing file."""

    def __init__(self, path: Path, plan: LoadPlan) -> None:
        self._path = path
        self._plan = plan
        self._read_to = 0
        self._rest = b""
        self._recorded = bytearray(len(plan.offsets_s))
        self.count = 0
        self.problem = ""  # the reason why it reads no further
        self.start_s: float | None = None  # the block's, once it is known

    def take(self) -> tuple[RequestRecord, ...]:
        """Return the valid records since the last call."""
        records: list[RequestRecord] = []
        try:
            self._take_into(records)
        except ContractViolation as error:
            self.problem = str(error)
        return tuple(records)

    def _take_into(self, records: list[RequestRecord]) -> None:
        while not self.problem and (data := self._read()):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                records.append(self._parse(line))
                self.count += 1
            if len(self._rest) > LINE_BYTES_MAX:
                raise ContractViolation(f"a record longer than {LINE_BYTES_MAX} bytes")

    def _read(self) -> bytes:
        if not self._path.is_file():
            return b""
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            data = file.read(_READ_BYTES)
        self._read_to += len(data)
        return data

    def _parse(self, line: bytes) -> RequestRecord:
        try:
            record = RECORD.validate_json(line)
        except ValidationError as error:
            raise ContractViolation(
                f"record {self.count + 1} {_first_error(error)}: {_quote(line)}"
            ) from error
        deviation = self._deviation(record)
        if deviation:
            raise ContractViolation(f"record {self.count + 1}: {deviation}")
        self._recorded[record["index"]] = 1
        return record

    def _deviation(self, record: RequestRecord) -> str:
        """Return the first deviation from the plan; empty if there is none."""
        index, plan = record["index"], self._plan
        if not 0 <= index < len(self._recorded):
            return f"index {index} of {len(self._recorded)} arrivals"
        offset_s = plan.offsets_s[index]
        expected = {"phase": plan.phase_at(offset_s)}
        if plan.locustfile is None:
            expected["name"] = plan.operations[plan.operation_of[index]].name
            if self._recorded[index]:
                return f"index {index} a second time"
        for key, value in expected.items():
            if record[key] != value:  # type: ignore[literal-required]
                return f"{key} {record[key]!r} of index {index}, which has {value!r}"  # type: ignore[literal-required]
        if record["outcome"] not in OUTCOMES:
            return f"outcome {record['outcome']!r}, none of {', '.join(OUTCOMES)}"
        if self.start_s is not None:
            planned_s = self.start_s + offset_s
            apart_s = record["intended_s"] - planned_s
            # for the previous answer, or for the task's work before its request
            waits = plan.locustfile is not None or (bool(plan.after) and plan.after[index] >= 0)
            if apart_s < -_APART_S or (apart_s > _APART_S and not waits):
                return f"intended_s {record['intended_s']}, where the plan has {planned_s:.6f}"
        return _time_deviation(record)


def _time_deviation(record: RequestRecord) -> str:
    if record["outcome"] in _UNSENT:
        return ""
    sent_s, done_s = record["sent_s"], record["done_s"]
    latency_ms, lag_ms = record["latency_ms"], record["lag_ms"]
    if sent_s is None or done_s is None or latency_ms is None or lag_ms is None:
        return f"{', '.join(_TIMES)} of a request that was sent, one of them null"
    apart_s = abs(latency_ms / 1e3 - (done_s - record["intended_s"]))
    if done_s < sent_s - _APART_S or apart_s > _APART_S:
        return f"latency_ms {latency_ms}, which is not from intended_s to done_s"
    return ""


def _first_error(error: ValidationError) -> str:
    detail = error.errors()[0]
    where = ".".join(map(str, detail["loc"]))
    return f"{where}: {detail['msg']}" if where else str(detail["msg"])


def _quote(line: bytes) -> str:
    return json.dumps(line[:200].decode(errors="replace"))
