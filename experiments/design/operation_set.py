"""Make a workload from `[[load.operations]]`, `[[load.sessions]]` and `parameters`."""

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
    parse_json_path,
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
    """Return the problems of operations and sessions with the design: files, entries, and values
    that nothing sets.
    """
    if not load.operations:
        return []
    columns, problems = _read_columns(load, directory)
    problems += _entry_problems(load, fleet, roles)
    for number, operation in enumerate(load.operations):
        key: Key = (*_LOAD, "operations", number)
        problems += [
            Problem((*key, *problem.key), problem.expected, problem.got, problem.hint)
            for problem in _text_problems(operation)
        ]
        problems += _file_problems(key, operation, directory)
    if problems:
        return problems
    sizes = [_body_bytes(operation, directory) for operation in load.operations]
    if sum(sizes) > BODIES_BYTES_MAX:
        expected = f"bodies of at most {BODIES_BYTES_MAX:,} bytes together"
        return [Problem((*_LOAD, "operations"), expected, f"{sum(sizes)}", "Send shorter ones.")]
    return list(_value_problems(load, columns))


def workload_of(load: Load, directory: Path, fleet: Fleet, roles: Roles) -> dict[str, Workload]:
    """Return the workload of a load with operations, by its name; empty for another load.

    Call it only if `operation_problems` is empty.
    """
    if not load.operations:
        return {}
    entries = _fitting_entries(load, fleet, roles)
    entry_roles = tuple(dict.fromkeys(fleet.tiers[tier].role for tier in entries))
    return {OPERATIONS: Workload(lambda: _population(load, directory), entry_roles)}


def files_of(load: Load) -> tuple[str, ...]:
    """Return the files that a load reads, as it names them."""
    bodies = (operation.body.file for operation in load.operations if operation.body is not None)
    names = (load.parameters, load.trace, load.ca, *bodies)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def protocol_of(load: Load) -> str:
    """Return the protocol that a role needs to be an entry of the operations: TLS passes as tcp."""
    return HTTP if load.tls_name is None else TCP


def _fitting_entries(load: Load, fleet: Fleet, roles: Roles) -> list[str]:
    protocol = protocol_of(load)
    return [
        tier for tier in fleet.entry_tiers if roles[fleet.tiers[tier].role].protocol == protocol
    ]


def _entry_problems(load: Load, fleet: Fleet, roles: Roles) -> list[Problem]:
    fitting = _fitting_entries(load, fleet, roles)
    if not fitting:
        expected = f"an entry tier whose role speaks {protocol_of(load)}"
        return [Problem((*_LOAD, "operations"), expected, ", ".join(fleet.entry_tiers))]
    return [
        Problem(
            (*_LOAD, "operations", number, "entry"), f"one of {', '.join(fitting)}", operation.entry
        )
        for number, operation in enumerate(load.operations)
        if operation.entry is not None and operation.entry not in fitting
    ]


def _text_problems(operation: HttpOperation) -> Iterator[Problem]:
    """Yield the texts with a `${` that begins no name."""
    for key, text in _template_texts(operation):
        for match in _OPEN.finditer(text):
            start = match.start()
            is_escaped = start > 0 and text[start - 1] == "$"
            if not is_escaped and _VALUE.match(text, start) is None:
                hint = "Write $${ for the characters themselves."
                yield Problem(
                    key, "${name}, of letters, digits and _", repr(text[start:][:40]), hint
                )


def _template_texts(operation: HttpOperation) -> Iterator[tuple[Key, str]]:
    """Yield each text in which values are replaced, with its key."""
    yield ("path",), operation.path
    for name, value in operation.headers.items():
        yield ("headers", name), value
    if operation.body is not None and operation.body.file is None:
        kind = next(iter(operation.body.stated)).rstrip("_")
        yield ("body", kind), _body_text(operation.body)


def _body_text(body: Body) -> str:
    if body.form is not None:
        return "&".join(f"{key}={value}" for key, value in body.form.items())
    return body.text if body.text is not None else _to_json(body.json_)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _file_problems(key: Key, operation: HttpOperation, directory: Path) -> list[Problem]:
    if operation.body is None:
        return []
    if operation.body.file is not None:
        return _design_file_problems(
            (*key, "body", "file"), directory, operation.body.file, BODY_BYTES_MAX
        )
    size = _body_bytes(operation, directory)
    if size <= BODY_BYTES_MAX:
        return []
    return [Problem((*key, "body"), f"a body of at most {BODY_BYTES_MAX:,} bytes", f"{size:,}")]


def _design_file_problems(key: Key, directory: Path, name: str, bytes_max: int) -> list[Problem]:
    """Return the problems of a file that has to be within the design's folder."""
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()):
        return [Problem(key, "a file within the design's folder", repr(name), "Copy it there.")]
    if not path.is_file():
        return [Problem(key, "a file of the design's folder", repr(name), "Put it there.")]
    size = path.stat().st_size
    if size > bytes_max:
        return [Problem(key, f"a file of at most {bytes_max:,} bytes", f"{name} of {size:,}")]
    return []


def _body_bytes(operation: HttpOperation, directory: Path) -> int:
    if operation.body is None:
        return 0
    if operation.body.file is not None:
        return (directory / operation.body.file).stat().st_size
    return len(_body_text(operation.body).encode())


def _read_columns(load: Load, directory: Path) -> tuple[frozenset[str], list[Problem]]:
    """Return the columns of the load's parameters, or the problems of their file."""
    if load.parameters is None:
        return frozenset(), []
    key: Key = (*_LOAD, "parameters")
    problems = _design_file_problems(key, directory, load.parameters, CSV_BYTES_MAX)
    if problems:
        return frozenset(), problems
    try:
        table = _read_table(directory / load.parameters)
    except ValueError as error:
        expected = "a CSV file in UTF-8: names of columns, then rows of as many values"
        return frozenset(), [Problem(key, expected, str(error))]
    return frozenset(table.columns), []


def _read_table(path: Path) -> Table:
    """Return the table of a CSV file. Raises: ValueError with the reason if it is invalid."""
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
        if any(character in value for value in row for character in "\r\n\0"):
            raise ValueError(f"a value of several lines in row {number}")
    return Table(columns, tuple(rows[1:]))


def _value_problems(load: Load, columns: frozenset[str]) -> Iterator[Problem]:
    """Yield the uses of values that neither a column nor an earlier step sets."""
    needed = {operation.name: _values_needed(operation) - columns for operation in load.operations}
    weights = weights_alone(load.operations, load.sessions)
    for number, (operation, weight) in enumerate(zip(load.operations, weights, strict=True)):
        for value in sorted(needed[operation.name]) if weight else ():
            yield Problem(
                (*_LOAD, "operations", number),
                "values that columns of parameters give: it is asked by itself",
                "${" + value + "}",
                "Add the column, or ask it as a step of a session only (weight = 0).",
            )
    operations = {operation.name: operation for operation in load.operations}
    for number, session in enumerate(load.sessions):
        values_taken: set[str] = set()
        for index, step in enumerate(session.steps):
            for value in sorted(needed[step.operation] - values_taken):
                yield Problem(
                    (*_LOAD, "sessions", number, "steps", index, "operation"),
                    "values that an earlier step takes, or columns of parameters",
                    f"{step.operation}, which needs ${{{value}}}",
                    "Add `take` to the operation whose answer has it.",
                )
            values_taken |= set(operations[step.operation].take)


def _values_needed(operation: HttpOperation) -> frozenset[str]:
    return frozenset(
        name for _, text in _template_texts(operation) for name in _VALUE.findall(text) if name
    )


def _population(load: Load, directory: Path) -> Population:
    operations = tuple(
        Operation(
            operation.name,
            operation.path,
            "",
            operation.entry or "",
            _make_request(operation, directory),
        )
        for operation in load.operations
    )
    index_of = {operation.name: number for number, operation in enumerate(load.operations)}
    return Population(
        operations,
        zipf=0.0,
        weights=weights_alone(load.operations, load.sessions),
        sessions=tuple(
            Session(
                session.name,
                session.weight,
                tuple(
                    SessionStep(index_of[step.operation], *step.think_range)
                    for step in session.steps
                ),
            )
            for session in load.sessions
        ),
        table=None if load.parameters is None else _read_table(directory / load.parameters),
    )


def _make_request(operation: HttpOperation, directory: Path) -> HttpRequest:
    content_type, body = _make_body(operation.body, directory)
    headers: Mapping[str, str] = operation.headers
    if content_type and "content-type" not in {name.lower() for name in headers}:
        headers = {**headers, "Content-Type": content_type}
    return HttpRequest(
        operation.method,
        _split_text(operation.path, "path"),
        tuple((name, _split_text(value, "plain", "latin-1")) for name, value in headers.items()),
        body,
        operation.statuses,
        tuple(map(_make_check, operation.checks)),
        tuple(
            TakenValue(
                name,
                None if place.json_path is None else parse_json_path(place.json_path),
                place.header,
            )
            for name, place in operation.take.items()
        ),
    )


def _make_check(check: Check) -> AnswerCheck:
    values = {name: getattr(check, name) for name in check.stated - {"json_path"}}
    path = None if check.json_path is None else parse_json_path(check.json_path)
    return AnswerCheck(json_path=path, **values)


def _make_body(body: Body | None, directory: Path) -> tuple[str, tuple[Part, ...] | None]:
    """Return the Content-Type (empty for none) and the parts of a body."""
    if body is None:
        return "", None
    if body.file is not None:
        return "", (Part((directory / body.file).read_bytes().decode("latin-1")),)
    if body.form is not None:
        return "application/x-www-form-urlencoded", _make_form(body.form)
    if body.text is not None:
        return "", _split_text(body.text, "plain")
    return "application/json", _split_text(_to_json(body.json_), "json")


def _make_form(fields: Mapping[str, str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for key, value in fields.items():
        parts.append(Part(f"{'&' if parts else ''}{quote_plus(key)}="))
        parts += [
            part if part.value else Part(quote_plus(part.text.encode("latin-1")))
            for part in _split_text(value, "form")
        ]
    return tuple(parts)


def _split_text(text: str, encoding: Encoding, charset: str = "utf-8") -> tuple[Part, ...]:
    """Return the parts of a text: literal text and values in turn."""
    parts: list[Part] = []
    literal, position = "", 0
    for match in _VALUE.finditer(text):
        literal += text[position : match.start()]
        position = match.end()
        if match[1] is None:
            literal += "${"
            continue
        parts += [_make_literal(literal, charset), Part(value=match[1], encoding=encoding)]
        literal = ""
    parts.append(_make_literal(literal + text[position:], charset))
    return tuple(part for part in parts if part.text or part.value)


def _make_literal(text: str, charset: str) -> Part:
    return Part(text.encode(charset).decode("latin-1"))
