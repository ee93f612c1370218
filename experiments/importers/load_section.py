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
    """Puts the operations into a design's experiment.toml, in place of what it asked before, and
    their parameters beside it, and a trace of their times [s], if there is one. Other lines stay
    as they are. Raises InputError."""
    file = folder / "experiment.toml"
    try:
        text = with_operations(file.read_text(encoding="utf-8"), imported, bool(trace))
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


def with_operations(text: str, imported: Imported, traced: bool = False) -> str:
    """Return the text of an experiment.toml with these operations. Raises InputError if it has
    no `[load]` on a line of its own, or the text would be no TOML.
    """
    lines = text.splitlines()
    begin = next((at for at, line in enumerate(lines) if _LOAD.match(line)), None)
    if begin is None:
        raise InputError("experiment.toml", expected="a table [load]", got="none")
    tables = [(at, found[1]) for at, line in enumerate(lines) if (found := _TABLE.match(line))]
    later = [(at, name) for at, name in tables if at > begin]
    first = next((at for at, _ in later), len(lines))
    end = next((at for at, name in later if name != "load"), len(lines))
    while end > begin + 1 and _NOTHING.match(lines[end - 1]):
        end -= 1  # a comment that belongs to the table below
    own = [line for line in lines[begin + 1 : min(first, end)] if not _REPLACED.match(line)]
    if traced:
        when = ['arrivals = "trace"', f'trace = "{ARRIVALS}"']
        own = [*when, *(line for line in own if not _WHEN.match(line))]
    while own and not own[-1].strip():
        own.pop()
    if imported.columns:
        own.append(f'parameters = "{PARAMETERS}" # what differs in paths and queries, as often')
    load = [lines[begin], *own, "", operations_toml(imported.operations).rstrip(), ""]
    while end < len(lines) and not lines[end].strip():
        end += 1
    made = "\n".join([*lines[:begin], *load, *lines[end:]]).rstrip() + "\n"
    try:
        tomllib.loads(made)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            "experiment.toml",
            expected="keys of [load] on one line each",
            got=f"others: {error}",
            hint="Print the operations without --to, and put them in by hand.",
        ) from error
    return made


def operations_toml(operations: tuple[Operation, ...]) -> str:
    """`[[load.operations]]`, one table each."""
    return "\n".join(line for one in operations for line in _operation_lines(one))


def _operation_lines(one: Operation) -> list[str]:
    lines = ["[[load.operations]]", f"name = {quoted(one.name)}", f"weight = {one.weight}"]
    if one.method != "GET":
        lines.append(f"method = {quoted(one.method)}")
    lines.append(f"path = {quoted(one.path)}")
    if one.headers:
        stated = ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in one.headers)
        lines.append(f"headers = {{ {stated} }}")
    if one.body is not None:
        lines.append(f"body = {{ text = {quoted(one.body)} }}")
    if one.expect != '"2xx"':
        lines.append(f"expect = {one.expect}")
    return [*lines, ""]


def quoted(text: str) -> str:
    """Return a basic string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
