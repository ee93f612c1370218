"""The `[load]` of a design, written from imported requests."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from core.errors import InputError
from experiments.design.arrival_rate import COLUMN
from experiments.importers.traffic import ARRIVALS, PARAMETERS, Imported, Operation, parameters_csv

_LOAD = re.compile(r"\s*\[\s*load\s*\]")
_TABLE = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_-]+)")
_NOTHING = re.compile(r"\s*(#|$)")
_REPLACED = re.compile(
    r"\s*(user|operations|sessions|parameters|locustfile|task_timeout_s|worker)\s*="
)


_WHEN = re.compile(r"\s*(arrivals|rate_per_s|utilisation|stages|trace)\s*=")


def write_load(folder: Path, imported: Imported, trace: Sequence[float] = ()) -> None:
    """Write the operations into a design's experiment.toml, in place of its former ones.

    Their parameters, and a trace of their times [s] if there is one, become files beside it. Other
    lines stay as they are. Raises InputError.
    """
    file = folder / "experiment.toml"
    try:
        text = replace_operations(file.read_text(encoding="utf-8"), imported, bool(trace))
        if trace:
            lines = [COLUMN, *(f"{at_s:.6f}" for at_s in trace), ""]
            (folder / ARRIVALS).write_text("\n".join(lines), encoding="utf-8")
        if imported.columns:
            (folder / PARAMETERS).write_text(parameters_csv(imported.columns), encoding="utf-8")
        file.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            str(file), expected="a design's file that can be written", got=str(error)
        ) from error


def replace_operations(text: str, imported: Imported, has_trace: bool = False) -> str:
    """Return the text of an experiment.toml with the imported operations. Raises InputError if it
    has no `[load]` on a line of its own, or if the result is no valid TOML.
    """
    lines = text.splitlines()
    begin = next((at for at, line in enumerate(lines) if _LOAD.match(line)), None)
    if begin is None:
        raise InputError("experiment.toml", expected="a table [load]", got="none")
    tables = [(at, match[1]) for at, line in enumerate(lines) if (match := _TABLE.match(line))]
    later = [(at, name) for at, name in tables if at > begin]
    first = next((at for at, _ in later), len(lines))
    end = next((at for at, name in later if name != "load"), len(lines))
    while end > begin + 1 and _NOTHING.match(lines[end - 1]):
        end -= 1  # a comment that belongs to the table below
    kept_lines = [line for line in lines[begin + 1 : min(first, end)] if not _REPLACED.match(line)]
    if has_trace:
        arrival_lines = ['arrivals = "trace"', f'trace = "{ARRIVALS}"']
        kept_lines = [*arrival_lines, *(line for line in kept_lines if not _WHEN.match(line))]
    while kept_lines and not kept_lines[-1].strip():
        kept_lines.pop()
    if imported.columns:
        kept_lines.append(
            f'parameters = "{PARAMETERS}" # what differs in paths and queries, as often'
        )
    load = [lines[begin], *kept_lines, "", operations_toml(imported.operations).rstrip(), ""]
    while end < len(lines) and not lines[end].strip():
        end += 1
    result = "\n".join([*lines[:begin], *load, *lines[end:]]).rstrip() + "\n"
    try:
        tomllib.loads(result)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            "experiment.toml",
            expected="keys of [load] on one line each",
            got=f"others: {error}",
            hint="Print the operations without --to, and put them in by hand.",
        ) from error
    return result


def operations_toml(operations: tuple[Operation, ...]) -> str:
    """Return a table `[[load.operations]]` for each operation."""
    return "\n".join(line for operation in operations for line in _operation_lines(operation))


def _operation_lines(operation: Operation) -> list[str]:
    lines = [
        "[[load.operations]]",
        f"name = {quote_toml(operation.name)}",
        f"weight = {operation.weight}",
    ]
    if operation.method != "GET":
        lines.append(f"method = {quote_toml(operation.method)}")
    lines.append(f"path = {quote_toml(operation.path)}")
    if operation.headers:
        headers = ", ".join(
            f"{quote_toml(name)} = {quote_toml(value)}" for name, value in operation.headers
        )
        lines.append(f"headers = {{ {headers} }}")
    if operation.body is not None:
        lines.append(f"body = {{ text = {quote_toml(operation.body)} }}")
    if operation.expect != '"2xx"':
        lines.append(f"expect = {operation.expect}")
    return [*lines, ""]


def quote_toml(text: str) -> str:
    """Return the text as a basic string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
