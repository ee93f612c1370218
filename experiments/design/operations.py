"""`[[load.operations]]` and `[[load.sessions]]`: requests of a service over HTTP, as data.

`operation_set.py` makes the plan of a load worker from them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from core.config_file import Strict, refusal
from experiments.design.http_request import Method, Scalar

OPERATIONS_MAX = 1000
SESSIONS_MAX = 100
STEPS_MAX = 100
CHECKS_MAX = 20
VALUES_MAX = 50  # taken from one answer
HEADERS_MAX = 50
TEXT_MAX = 8192  # characters of a path or of a header's value
BODY_BYTES_MAX = 8 * 1024 * 1024
THINK_S_MAX = 600.0
WEIGHT_MAX = 1e6

VALUE_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RANGE = re.compile(r"([1-5])xx|([1-5]\d\d)-([1-5]\d\d)")
_PATH_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,9})\]")
_FRAMING = ("content-length", "transfer-encoding")  # the worker's own

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
ValueName = Annotated[str, Field(pattern=f"^{VALUE_NAME}$", max_length=64)]
Weight = Annotated[float, Field(ge=0, le=WEIGHT_MAX)]
Text = Annotated[str, Field(max_length=TEXT_MAX)]
Think = Annotated[float, Field(ge=0, le=THINK_S_MAX)]
Count = Annotated[int, Field(ge=0, le=BODY_BYTES_MAX * 2)]
Status = Annotated[int, Field(ge=100, le=599)] | str


class _OneOf(Strict):
    """A table with one or a few of its possible keys."""

    @property
    def stated(self) -> frozenset[str]:
        """The fields that have a value."""
        return frozenset(name for name, value in self if value is not None)


class Body(_OneOf):
    """The body of a request: one of these. `${name}` in text is replaced by a value."""

    model_config = ConfigDict(serialize_by_alias=True)

    json_: Annotated[Any, Field(alias="json")] = None
    """Value sent as JSON, with its Content-Type."""
    form: Annotated[dict[str, Text], Field(max_length=1000)] | None = None
    """Fields sent as an HTML form, with its Content-Type."""
    text: str | None = None
    """Text sent as it is, in UTF-8."""
    file: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """File in the design's folder, sent as it is; nothing in it is replaced."""

    @model_validator(mode="after")
    def _check_body(self) -> Body:
        if len(self.stated) != 1:
            got = ", ".join(sorted(name.rstrip("_") for name in self.stated)) or "none"
            raise refusal("one of json, form, text and file", got=got)
        if not _is_json(self.json_):
            raise refusal("values that JSON has", got="nan, or an infinity", key="json")
        return self


class Place(_OneOf):
    """The place of a value in an answer: one of these."""

    json_path: Annotated[str, Field(max_length=1024)] | None = None
    """Path in a JSON body, such as `user.id` or `items[0].id`; empty: the whole body."""
    header: Annotated[str, Field(max_length=256)] | None = None
    """Name of a header."""

    def _check_place(self) -> None:
        if self.json_path is not None and parse_json_path(self.json_path) is None:
            raise refusal(
                "keys and places of lists, as user.id or items[0].id",
                got=repr(self.json_path),
                key="json_path",
            )
        if self.header is not None and not _TOKEN.fullmatch(self.header):
            raise refusal("the name of a header", got=repr(self.header), key="header")


class Check(Place):
    """A condition on an answer: text in it, a JSON value, a header, or its size."""

    text: Annotated[str, Field(min_length=1, max_length=TEXT_MAX)] | None = None
    """Text that the body must contain."""
    equals: Scalar | None = None
    """Value that `json_path` or `header` must find; without it and `contains`: any."""
    contains: Annotated[str, Field(min_length=1, max_length=TEXT_MAX)] | None = None
    """Text that the value of `json_path` or `header` must contain."""
    bytes_min: Count | None = None
    """Least size of the body."""
    bytes_max: Count | None = None
    """Largest size of the body."""

    @model_validator(mode="after")
    def _check_kind(self) -> Check:
        self._check_place()
        fields = self.stated
        kinds = [fields & {"text"}, fields & {"json_path"}, fields & {"header"}]
        kinds.append(fields & {"bytes_min", "bytes_max"})
        if sum(map(bool, kinds)) != 1:
            raise refusal(
                "one of text, json_path, header and bytes_min or bytes_max",
                got=", ".join(sorted(fields)) or "none",
            )
        comparisons = fields & {"equals", "contains"}
        sources = fields & {"json_path", "header"}
        if len(comparisons) > 1 or (comparisons and not sources):
            raise refusal(
                "at most one of equals and contains, beside json_path or header",
                got=", ".join(sorted(fields)),
            )
        if self.bytes_max is not None and (self.bytes_min or 0) > self.bytes_max:
            raise refusal(
                f"at least bytes_min, which is {self.bytes_min}",
                got=str(self.bytes_max),
                key="bytes_max",
            )
        if self.header is not None and self.equals is not None and not isinstance(self.equals, str):
            raise refusal("text, as a header has", got=repr(self.equals), key="equals")
        return self


class Take(Place):
    """A value that later steps of the session use as `${name}`."""

    @model_validator(mode="after")
    def _check_single(self) -> Take:
        self._check_place()
        if len(self.stated) != 1:
            got = ", ".join(sorted(self.stated)) or "none"
            raise refusal("one of json_path and header", got=got)
        return self


class HttpOperation(Strict):
    """A request of the service's users over HTTP. `${name}` in path, headers and body is replaced
    by the column of that name of `parameters`, or by the value that an earlier step of the session
    has taken; `$${` stands for `${` itself. Redirects are not followed."""

    name: Name
    """Name in records, tables and `[slo.operations]`."""
    weight: Weight | None = None
    """Relative frequency of the operation outside of sessions; by default 1, and 0 for a step of
    a session."""
    method: Method = "GET"
    """Method; an arbiter copies GET, HEAD and OPTIONS only."""
    path: Text
    """Path and query, beginning with `/`."""
    headers: Annotated[dict[str, Text], Field(max_length=HEADERS_MAX)] = Field(default_factory=dict)
    """Headers; they override Host, User-Agent and Accept."""
    body: Body | None = None
    """The body of the request."""
    expect: Status | Annotated[tuple[Status, ...], Field(strict=False, max_length=50)] = "2xx"
    """Status codes of a good answer: 201, "2xx", "200-204", or a list of these."""
    checks: Annotated[tuple[Check, ...], Field(strict=False, max_length=CHECKS_MAX)] = ()
    """Further conditions on a good answer."""
    take: Annotated[dict[ValueName, Take], Field(max_length=VALUES_MAX)] = Field(
        default_factory=dict
    )
    """Values that later steps of a session use; an answer without one has failed."""
    entry: Annotated[str, Field(min_length=1)] | None = None
    """Entry tier; by default the first one that speaks HTTP."""

    @model_validator(mode="after")
    def _check_operation(self) -> HttpOperation:
        for status in self._find_invalid_statuses():
            raise refusal(
                'a status (201), "2xx" or "200-204"', got=repr(status), key="expect", hint=_EXPECT
            )
        if not (self.path.startswith("/") and self.path.isascii() and self.path.isprintable()) or (
            set(" #") & set(self.path)
        ):
            raise refusal(
                "a path of visible ASCII without #, that begins with /",
                got=repr(self.path),
                key="path",
                hint="Write another character by its bytes: %20 for a space.",
            )
        for name, value in self.headers.items():
            self._check_header(name, value)
        if self.method == "HEAD" and any(not check.stated & {"header"} for check in self.checks):
            raise refusal(
                "checks of headers: an answer to HEAD has no body", got="others", key="checks"
            )
        return self

    def _check_header(self, name: str, value: str) -> None:
        key = f"headers.{name}"
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise refusal(
                "the name of a header, other than those of the body's length",
                got=repr(name),
                key="headers",
            )
        if any(ord(letter) > 255 or letter in "\r\n\0" for letter in value):
            raise refusal("one line of Latin-1", got=repr(value), key=key)

    @property
    def statuses(self) -> tuple[tuple[int, int], ...]:
        """Ranges of good status codes, both ends within."""
        return tuple(
            status_range
            for status in _as_tuple(self.expect)
            for status_range in [_status_range(status)]
            if status_range
        )

    def _find_invalid_statuses(self) -> Iterator[Any]:
        statuses = _as_tuple(self.expect)
        yield from (status for status in statuses if _status_range(status) is None)
        if not statuses:
            yield self.expect


def _is_json(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_json, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


_EXPECT = "Several stand in a list: [200, 404]."


class Step(Strict):
    """A step of a session."""

    operation: Name
    """Name of the operation."""
    think_s: Think | Annotated[tuple[Think, Think], Field(strict=False)] = 0.0
    """Seconds between the previous answer and this step; [1.0, 5.0]: drawn ahead, uniformly."""

    @model_validator(mode="after")
    def _check_order(self) -> Step:
        if self.think_range[0] > self.think_range[1]:
            raise refusal("the lesser one first", got=repr(list(self.think_range)), key="think_s")
        return self

    @property
    def think_range(self) -> tuple[float, float]:
        """The shortest and the longest wait [s]."""
        think = self.think_s
        return think if isinstance(think, tuple) else (think, think)


class Session(Strict):
    """Steps of one user, one after the other, with the user's own values and cookies. Sessions
    begin in an open loop: none waits for another. A step that fails ends its session; the steps
    after it count as failed, by the outcome `unreached`."""

    name: Name
    """Name in records, tables and `[slo.sessions]`."""
    weight: Weight = 1.0
    """Relative frequency of the session among sessions and single operations."""
    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1, max_length=STEPS_MAX)]
    """The steps, in order."""


Operations = Annotated[tuple[HttpOperation, ...], Field(strict=False, max_length=OPERATIONS_MAX)]
Sessions = Annotated[tuple[Session, ...], Field(strict=False, max_length=SESSIONS_MAX)]


def check_names(operations: tuple[HttpOperation, ...], sessions: tuple[Session, ...]) -> None:
    """Raise a refusal for two equal names, a step without an operation, or weights all of 0."""
    names = [operation.name for operation in operations]
    for table, names_of_table in (
        ("operations", names),
        ("sessions", [session.name for session in sessions]),
    ):
        for index, name in enumerate(names_of_table):
            if name in names_of_table[:index]:
                raise refusal("another name for each", got=repr(name), key=f"{table}.{index}.name")
    for number, session in enumerate(sessions):
        for index, step in enumerate(session.steps):
            if step.operation not in names:
                key = f"sessions.{number}.steps.{index}.operation"
                raise refusal(
                    f"one of the operations {', '.join(names)}", got=repr(step.operation), key=key
                )
    if not any([*weights_alone(operations, sessions), *(session.weight for session in sessions)]):
        raise refusal("an operation or a session of a weight above 0", got="none", key="operations")


def weights_alone(
    operations: tuple[HttpOperation, ...], sessions: tuple[Session, ...]
) -> tuple[float, ...]:
    """Return the frequency of each operation outside of sessions."""
    steps = {step.operation for session in sessions for step in session.steps}
    return tuple(
        (0.0 if operation.name in steps else 1.0) if operation.weight is None else operation.weight
        for operation in operations
    )


def parse_json_path(text: str) -> tuple[str | int, ...] | None:
    """Return the steps of a JSON path such as `items[0].id`, with or without `$.` before it; None
    for invalid syntax.
    """
    if text.startswith("$"):
        text = text[1:].removeprefix(".")
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        step = _PATH_STEP.match(text, position)
        if step is None or (position == 0 and text[0] == "."):
            return None
        steps.append(step[1] if step[1] is not None else int(step[2]))
        position = step.end()
    return tuple(steps)


def _as_tuple(expect: Any) -> tuple[int | str, ...]:
    return expect if isinstance(expect, tuple) else (expect,)


def _status_range(status: int | str) -> tuple[int, int] | None:
    if isinstance(status, int):
        return status, status
    match = _RANGE.fullmatch(status)
    if match is None:
        return None
    if match[1]:
        return int(match[1]) * 100, int(match[1]) * 100 + 99
    low, high = int(match[2]), int(match[3])
    return (low, high) if low <= high else None
