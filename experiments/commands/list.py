"""`sparecraft list`: own designs, fleets that are up, runs, and built-in designs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from rich.markup import escape
from rich.table import Table

from core.errors import EnvironmentMissing, InputError
from core.terminal import JsonOption, err, out, print_json, say
from experiments import kinds
from experiments.commands.on_platform import Chosen
from experiments.commands.options import RESULTS, ResultsOption, cell_text

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.run.kind import Kind
    from experiments.testbed.platforms.base import FleetRow

_FOLDED, _WIDTH_MIN = ("found", "question"), 24
_NOT_NARROW = ("usd", "kind")  # left out first where a terminal has no room for `found`
_ASKS = "**What it asks:** "
# Heads of columns, where a key alone says too little.
_HEADS = {
    "last": "last run",
    "slo_met": "SLO met",
    "found": "result",
    "usd": "USD",
    "running": "of them running",
    "things": "other resources",
}
_ONLY_JSON = (
    "started",
    "folder",
    "stopped",
    "slo_asked",
    "disturbed",
    "availability_met",
)  # a run's name is its time, and its folder's


class _DesignRow(TypedDict):
    name: str
    minutes: float | None  # of load; None: as long as it takes
    last: str | None  # verdict of the newest run
    question: str


class _RunRow(TypedDict):
    kind: str
    experiment: str
    run: str
    valid: bool
    stopped: str | None
    disturbed: bool
    slo_asked: bool
    slo_met: bool | None
    availability_met: bool | None
    usd: float | None
    started: str | None
    found: Mapping[str, object]
    folder: str


def list_(
    chosen: Chosen,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """List your designs in this folder, fleets that are up, runs, and built-in designs.

    Fleets are unknown if the platform does not answer: null in JSON, with the reason.

    Example: sparecraft list --results results
    """
    fleets, unknown = _fleets(chosen)
    runs = _runs(results)
    own_designs, built_in = _designs(runs, Path()), _designs(runs)
    if as_json:
        designs = [*own_designs, *built_in]
        print_json({"designs": designs, "fleets": fleets, "unknown": unknown, "runs": runs})
        return
    if own_designs:
        _print_rows("designs here", own_designs)
    if fleets is None:
        out.print(f"[bold]fleets[/bold]: unknown ({escape(unknown)})", soft_wrap=True)
    else:
        _print_rows("fleets", fleets)
    _print_rows("runs", [_display_row(run) for run in runs])
    _print_rows("designs that come along", built_in)


def _display_row(run: _RunRow) -> Mapping[str, object]:
    """Return a run's row for the table. A run that is not valid has no verdict about the SLO."""
    if run["stopped"] or run["disturbed"]:
        return {**run, "valid": _verdict(run), "slo_met": None}
    met = run["slo_met"] if run["valid"] else None
    if met and run["availability_met"] is False:
        return {**run, "slo_met": "yes, availability no"}
    return {**run, "slo_met": met}


def _fleets(chosen: Chosen) -> tuple[list[FleetRow] | None, str]:
    """Return the platform's fleets; None and the reason if it does not answer."""
    try:
        return chosen.entry.fleets(chosen.options), ""
    except EnvironmentMissing as error:
        return None, f"{error.place} does not answer: {error.got}"


def _designs(runs: Sequence[_RunRow], folder: Path | None = None) -> list[_DesignRow]:
    """Return the built-in designs, or those in a folder, under names that other commands accept."""
    from experiments.design import designs_available

    names = [f"./{name}" for name in designs_available(folder)] if folder else designs_available()
    return [_design_or_trouble(name, runs) for name in names]


def _design_or_trouble(name: str, runs: Sequence[_RunRow]) -> _DesignRow:
    try:
        return _design(name, runs)
    except InputError:
        hint = f"`sparecraft check {name}` says what is wrong with it"
        return {"name": name, "minutes": None, "last": None, "question": hint}


def _design(name: str, runs: Sequence[_RunRow]) -> _DesignRow:
    """Return a design with the verdict of its newest run."""
    from experiments.design import load_design

    design = load_design(name)
    kind = kinds.kind_of(design)
    load_s = kind.load_s(design, kinds.section_of(kind, design))
    design_runs = [run for run in runs if run["experiment"] == design.fleet.experiment]
    newest = max(design_runs, key=lambda run: str(run["run"]), default=None)
    return {
        "name": name,
        "minutes": None if load_s is None else round(load_s / 60, 1),
        "last": _verdict(newest) if newest else None,
        "question": question(design.directory, design.name),
    }


def _verdict(run: _RunRow) -> str:
    if run["stopped"]:
        return f"stopped by {run['stopped']}"
    if not run["valid"]:
        return "disturbed" if run["disturbed"] else "not valid"
    if run["slo_met"] and run["availability_met"] is False:
        return "SLO met, not availability"
    undecided = "SLO undecided" if run["slo_asked"] else "valid"
    return {True: "SLO met", False: "SLO missed", None: undecided}[run["slo_met"]]


def question(folder: Path, name: str) -> str:
    """Return the question of a design; "" if its README has none.

    It stands in the design's row of the table of cases, or in the paragraph that asks it, which may
    be below the heading of a case.
    """
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    _, row, rest = text.partition(f"\n| `{name}` | ")
    if not row:
        _, _, section = text.partition(f"\n## {name}\n")
        _, _, rest = (section or text).partition(_ASKS)
    sentence, mark, _ = rest.partition("\n\n")[0].partition("?")
    line = " ".join(sentence.split())
    return f"{line[:1].upper()}{line[1:]}?" if mark else ""


def _runs(results: Path) -> list[_RunRow]:
    from core.runfiles.result import results_in

    rows = []
    for folder, result in results_in(results, report_left_out):
        try:
            rows.append(_row(folder, result))
        except InputError as error:
            report_left_out(error)
    return rows


def report_left_out(error: InputError) -> None:
    """Print on standard error that a run is not shown, with the reason."""
    message = f"{error.place}: left out, {error.got}"
    say(message, err)


def kind_values(
    folder: Path, result: Result, read: Callable[[Kind[Any]], Mapping[str, object]]
) -> Mapping[str, object]:
    """Return the values that `read` gets from the kind's part of a run's result. Raises InputError
    if that part is not as the kind writes it.
    """
    try:
        kind = kinds.find(result["kind"])
    except InputError:  # a kind of somebody's own that is not installed here
        return {}
    try:
        return read(kind)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(
            str(folder / "result.json"),
            expected="the measurements of its kind",
            got=f"{type(error).__name__}: {error}",
            hint="It was written by another version, or changed: move the folder elsewhere.",
        ) from error


def _row(folder: Path, result: Result) -> _RunRow:
    """Return a run's row: its head's values, and `found` by its kind."""
    from experiments.record.result import validity

    slo = result["slo"] or {}
    return {
        "kind": result["kind"],
        "experiment": result["experiment"],
        "run": result["run"],
        "valid": result["valid"],
        "stopped": result["stopped"] and result["stopped"]["by"],
        "disturbed": validity(result) == "disturbed",
        "slo_asked": bool(slo),
        "slo_met": slo.get("met"),
        "availability_met": (slo.get("availability") or {}).get("met"),
        "usd": result["cost"]["usd"],
        "started": result["started"],
        "found": kind_values(folder, result, lambda kind: kind.row(result)),
        "folder": str(folder),
    }


def _print_rows(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        out.print(f"[bold]{title}[/bold]: none")
        return
    keys = _columns(rows)
    room = min(_WIDTH_MIN, max(1, out.width - _fixed_width(rows, keys)))
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for key in keys:
        least = room if key in _FOLDED else None
        table.add_column(_HEADS.get(key, key), no_wrap=key not in _FOLDED, min_width=least)
    for row in rows:
        table.add_row(*(escape(cell_text(row[key])) for key in keys))
    out.print(table)


def _columns(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the keys of the columns that fit into the terminal: columns that fold need room."""
    keys = [key for key in rows[0] if key not in _ONLY_JSON]
    for key in _NOT_NARROW:
        if key in keys and out.width - _fixed_width(rows, keys) < _WIDTH_MIN:
            keys.remove(key)
    return keys


def _fixed_width(rows: Sequence[Mapping[str, object]], keys: Sequence[str]) -> int:
    """Return the width of the columns that do not fold, with the gaps behind them."""
    return sum(
        2 + max(len(_HEADS.get(key, key)), *(len(cell_text(row[key])) for row in rows))
        for key in keys
        if key not in _FOLDED
    )
