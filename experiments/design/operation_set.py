"""From `[[load.operations]]`, `[[load.sessions]]` and `parameters` to a workload."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from core.config_file import Key, Problem
from experiments.design.experiment import OPERATIONS, Load
from experiments.design.fleet import Fleet
from experiments.design.http_request import AnswerCheck, Encoding, HttpRequest, Part, TakenValue
from experiments.design.operations import (
    BODY_BYTES_MAX,
    VALUE_NAME,
    Body,
    Check,
    HttpOperation,
    parsed_path,
    weights_alone,
)
from experiments.design.roles import Roles
from experiments.design.workloads import (
    Operation,
    Population,
    Session,
    SessionStep,
    Table,
    Workload,
)

HTTP, TCP = "http", "tcp"
BODIES_BYTES_MAX = 32 * 1024 * 1024  # of all operations together
CSV_BYTES_MAX = 16 * 1024 * 1024
ROWS_MAX = 100_000
COLUMNS_MAX = 100

_VALUE = re.compile(r"\$\$\{|\$\{(" + VALUE_NAME + r")\}")
_OPEN = re.compile(r"\$\{")
_LOAD: Key = ("load",)


def operation_problems(load: Load, directory: Path, fleet: Fleet, roles: Roles) -> list[Problem]:
    """Return all that is wrong with operations and sessions beyond what each says by itself: files,
    values that nothing gives, entries.
    """
    if not load.operations:
        return []
    columns, problems = _columns(load, directory)
    problems += _entry_problems(load, fleet, roles)
    for number, one in enumerate(load.operations):
        key: Key = (*_LOAD, "operations", number)
        problems += [Problem((*key, *p.key), p.expected, p.got, p.hint) for p in _texts(one)]
        problems += _file_problems(key, one, directory)
    if problems:
        return problems
    sizes = [_body_bytes(one, directory) for one in load.operations]
    if sum(sizes) > BODIES_BYTES_MAX:
        expected = f"bodies of at most {BODIES_BYTES_MAX} bytes together"
        return [Problem((*_LOAD, "operations"), expected, f"{sum(sizes)}", "Send shorter ones.")]
    return list(_value_problems(load, columns))


def workload_of(load: Load, directory: Path, fleet: Fleet, roles: Roles) -> dict[str, Workload]:
    """Return the workload of a load with operations, by its name; none of another.

    `operation_problems` has found nothing wrong.
    """
    if not load.operations:
        return {}
    entries = _entries(load, fleet, roles)
    asked = tuple(dict.fromkeys(fleet.tiers[tier].role for tier in entries))
    return {OPERATIONS: Workload(lambda: _population(load, directory), asked)}


def files_of(load: Load) -> tuple[str, ...]:
    """Files that it reads, as it names them."""
    bodies = (one.body.file for one in load.operations if one.body is not None)
    named = (load.parameters, load.trace, load.ca, *bodies)
    return tuple(dict.fromkeys(name for name in named if name is not None))


def protocol_of(load: Load) -> str:
    """Return the protocol of a role whose machines operations can ask: what is private passes as
    tcp.
    """
    return HTTP if load.tls_name is None else TCP


def _entries(load: Load, fleet: Fleet, roles: Roles) -> list[str]:
    protocol = protocol_of(load)
    return [
        tier for tier in fleet.entry_tiers if roles[fleet.tiers[tier].role].protocol == protocol
    ]


def _entry_problems(load: Load, fleet: Fleet, roles: Roles) -> list[Problem]:
    fitting = _entries(load, fleet, roles)
    if not fitting:
        expected = f"an entry tier whose role speaks {protocol_of(load)}"
        return [Problem((*_LOAD, "operations"), expected, ", ".join(fleet.entry_tiers))]
    return [
        Problem((*_LOAD, "operations", number, "entry"), f"one of {', '.join(fitting)}", one.entry)
        for number, one in enumerate(load.operations)
        if one.entry is not None and one.entry not in fitting
    ]


def _texts(one: HttpOperation) -> Iterator[Problem]:
    """Text with a `${` that begins no name."""
    for key, text in _stated(one):
        for found in _OPEN.finditer(text):
            at = found.start()
            escaped = at > 0 and text[at - 1] == "$"
            if not escaped and _VALUE.match(text, at) is None:
                hint = "Write $${ for the characters themselves."
                yield Problem(key, "${name}, of letters, digits and _", repr(text[at:][:40]), hint)


def _stated(one: HttpOperation) -> Iterator[tuple[Key, str]]:
    """Yield each text in which values are replaced, with its key."""
    yield ("path",), one.path
    for name, value in one.headers.items():
        yield ("headers", name), value
    if one.body is not None and one.body.file is None:
        kind = next(iter(one.body.stated)).rstrip("_")
        yield ("body", kind), _text(one.body)


def _text(body: Body) -> str:
    if body.form is not None:
        return "&".join(f"{key}={value}" for key, value in body.form.items())
    return body.text if body.text is not None else _json(body.json_)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _file_problems(key: Key, one: HttpOperation, directory: Path) -> list[Problem]:
    if one.body is None:
        return []
    if one.body.file is not None:
        return _unreadable((*key, "body", "file"), directory, one.body.file, BODY_BYTES_MAX)
    size = _body_bytes(one, directory)
    if size <= BODY_BYTES_MAX:
        return []
    return [Problem((*key, "body"), f"at most {BODY_BYTES_MAX} bytes", str(size))]


def _unreadable(key: Key, directory: Path, name: str, most: int) -> list[Problem]:
    """Problems of a file that has to be within the design's folder."""
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()):
        return [Problem(key, "a file within the design's folder", repr(name), "Copy it there.")]
    if not path.is_file():
        return [Problem(key, "a file of the design's folder", repr(name), "Put it there.")]
    size = path.stat().st_size
    if size > most:
        return [Problem(key, f"a file of at most {most} bytes", f"{name} of {size}")]
    return []


def _body_bytes(one: HttpOperation, directory: Path) -> int:
    if one.body is None:
        return 0
    if one.body.file is not None:
        return (directory / one.body.file).stat().st_size
    return len(_text(one.body).encode())


def _columns(load: Load, directory: Path) -> tuple[frozenset[str], list[Problem]]:
    """Return the columns of its parameters, or what is wrong with these."""
    if load.parameters is None:
        return frozenset(), []
    key: Key = (*_LOAD, "parameters")
    problems = _unreadable(key, directory, load.parameters, CSV_BYTES_MAX)
    if problems:
        return frozenset(), problems
    try:
        table = _table(directory / load.parameters)
    except ValueError as error:
        expected = "a CSV file in UTF-8: names of columns, then rows of as many values"
        return frozenset(), [Problem(key, expected, str(error))]
    return frozenset(table.columns), []


def _table(path: Path) -> Table:
    """Raises: ValueError with what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except UnicodeDecodeError as error:
        raise ValueError(f"bytes that are no text, at {error.start}") from error
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if len(rows) < 2 or len(rows) > ROWS_MAX + 1:
        raise ValueError(f"{max(0, len(rows) - 1)} rows, of 1 to {ROWS_MAX}")
    columns = rows[0]
    for name in columns:
        if not re.fullmatch(VALUE_NAME, name) or columns.count(name) > 1:
            raise ValueError(f"the column {name!r}: a name of letters, digits and _, once")
    if len(columns) > COLUMNS_MAX:
        raise ValueError(f"{len(columns)} columns, of at most {COLUMNS_MAX}")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(columns):
            raise ValueError(f"{len(row)} values in row {number}, for {len(columns)} columns")
        if any(one in value for value in row for one in "\r\n\0"):
            raise ValueError(f"a value of several lines in row {number}")
    return Table(columns, tuple(rows[1:]))


def _value_problems(load: Load, columns: frozenset[str]) -> Iterator[Problem]:
    """Values that are used where nothing has given them."""
    needed = {one.name: _needed(one) - columns for one in load.operations}
    weights = weights_alone(load.operations, load.sessions)
    for number, (one, weight) in enumerate(zip(load.operations, weights, strict=True)):
        for missing in sorted(needed[one.name]) if weight else ():
            yield Problem(
                (*_LOAD, "operations", number),
                "values that columns of parameters give: it is asked by itself",
                "${" + missing + "}",
                "Add the column, or ask it as a step of a session only (weight = 0).",
            )
    operations = {one.name: one for one in load.operations}
    for number, session in enumerate(load.sessions):
        taken: set[str] = set()
        for index, step in enumerate(session.steps):
            for missing in sorted(needed[step.operation] - taken):
                yield Problem(
                    (*_LOAD, "sessions", number, "steps", index, "operation"),
                    "values that an earlier step takes, or columns of parameters",
                    f"{step.operation}, which needs ${{{missing}}}",
                    "Add `take` to the operation whose answer has it.",
                )
            taken |= set(operations[step.operation].take)


def _needed(one: HttpOperation) -> frozenset[str]:
    return frozenset(name for _, text in _stated(one) for name in _VALUE.findall(text) if name)


def _population(load: Load, directory: Path) -> Population:
    operations = tuple(
        Operation(one.name, one.path, "", one.entry or "", _request(one, directory))
        for one in load.operations
    )
    number_of = {one.name: number for number, one in enumerate(load.operations)}
    return Population(
        operations,
        zipf=0.0,
        weights=weights_alone(load.operations, load.sessions),
        sessions=tuple(
            Session(
                one.name,
                one.weight,
                tuple(
                    SessionStep(number_of[step.operation], *step.think_range) for step in one.steps
                ),
            )
            for one in load.sessions
        ),
        table=None if load.parameters is None else _table(directory / load.parameters),
    )


def _request(one: HttpOperation, directory: Path) -> HttpRequest:
    content_type, body = _body(one.body, directory)
    headers: Mapping[str, str] = one.headers
    if content_type and "content-type" not in {name.lower() for name in headers}:
        headers = {**headers, "Content-Type": content_type}
    return HttpRequest(
        one.method,
        _parts(one.path, "path"),
        tuple((name, _parts(value, "plain", "latin-1")) for name, value in headers.items()),
        body,
        one.statuses,
        tuple(map(_check, one.checks)),
        tuple(
            TakenValue(name, None if at.json_path is None else parsed_path(at.json_path), at.header)
            for name, at in one.take.items()
        ),
    )


def _check(stated: Check) -> AnswerCheck:
    values = {name: getattr(stated, name) for name in stated.stated - {"json_path"}}
    path = None if stated.json_path is None else parsed_path(stated.json_path)
    return AnswerCheck(json_path=path, **values)


def _body(body: Body | None, directory: Path) -> tuple[str, tuple[Part, ...] | None]:
    """Return the Content-Type (empty for none) and the parts of a body."""
    if body is None:
        return "", None
    if body.file is not None:
        return "", (Part((directory / body.file).read_bytes().decode("latin-1")),)
    if body.form is not None:
        return "application/x-www-form-urlencoded", _form(body.form)
    if body.text is not None:
        return "", _parts(body.text, "plain")
    return "application/json", _parts(_json(body.json_), "json")


def _form(fields: Mapping[str, str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for key, value in fields.items():
        parts.append(Part(f"{'&' if parts else ''}{quote_plus(key)}="))
        parts += [
            part if part.value else Part(quote_plus(part.text.encode("latin-1")))
            for part in _parts(value, "form")
        ]
    return tuple(parts)


def _parts(text: str, encoding: Encoding, charset: str = "utf-8") -> tuple[Part, ...]:
    """Literal text and values in turn."""
    parts: list[Part] = []
    literal, at = "", 0
    for found in _VALUE.finditer(text):
        literal += text[at : found.start()]
        at = found.end()
        if found[1] is None:
            literal += "${"
            continue
        parts += [_literal(literal, charset), Part(value=found[1], encoding=encoding)]
        literal = ""
    parts.append(_literal(literal + text[at:], charset))
    return tuple(part for part in parts if part.text or part.value)


def _literal(text: str, charset: str) -> Part:
    return Part(text.encode(charset).decode("latin-1"))
