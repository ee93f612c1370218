"""`sparecraft list`: own designs, fleets that are up, runs, and built-in designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from rich.markup import escape
from rich.table import Table

from core.errors import EnvironmentMissing, InputError
from core.terminal import JsonOption, err, out, print_json, say
from experiments import kinds
from experiments.commands.on_platform import Chosen
from experiments.commands.options import RESULTS, ResultsOption, words

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.testbed.platforms.base import FleetRow

_FOLDED, _WIDTH_MIN = ("found", "question"), 24
_NOT_NARROW = ("usd", "kind")  # left out first where a terminal has no room for `found`
_ASKS = "**What it asks:** "
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
    own, built_in = _own_designs(runs), _designs(runs)
    if as_json:
        designs = [*own, *built_in]
        print_json({"designs": designs, "fleets": fleets, "unknown": unknown, "runs": runs})
        return
    if own:
        _print_rows("designs here", own)
    if fleets is None:
        out.print(f"[bold]fleets[/bold]: unknown ({escape(unknown)})", soft_wrap=True)
    else:
        _print_rows("fleets", fleets)
    _print_rows("runs", [_shown(run) for run in runs])
    _print_rows("designs that come along", built_in)


def _shown(run: _RunRow) -> Mapping[str, object]:
    """The SLO's entry of a run; a run that is not valid has none: it is left out."""
    if run["stopped"] or run["disturbed"]:
        return {**run, "valid": _verdict(run), "slo_met": None}
    met = run["slo_met"] if run["valid"] else None
    if met and run["availability_met"] is False:
        return {**run, "slo_met": "yes, availability no"}
    return {**run, "slo_met": met}


def _fleets(chosen: Chosen) -> tuple[list[FleetRow] | None, str]:
    """The platform's fleets; None, and why, where it does not answer."""
    try:
        return chosen.entry.fleets(chosen.given), ""
    except EnvironmentMissing as error:
        return None, f"{error.place} does not answer: {error.got}"


def _own_designs(runs: Sequence[_RunRow]) -> list[_DesignRow]:
    """Designs in folders of this one, by what other commands take for them."""
    from experiments.design import designs_available

    return [_design_or_trouble(f"./{name}", runs) for name in designs_available(Path())]


def _design_or_trouble(name: str, runs: Sequence[_RunRow]) -> _DesignRow:
    try:
        return _design(name, runs)
    except InputError:
        said = f"`sparecraft check {name}` says what is wrong with it"
        return {"name": name, "minutes": None, "last": None, "question": said}


def _designs(runs: Sequence[_RunRow]) -> list[_DesignRow]:
    from experiments.design import designs_available

    return [_design_or_trouble(name, runs) for name in designs_available()]


def _design(name: str, runs: Sequence[_RunRow]) -> _DesignRow:
    """A design, and what its newest run came to."""
    from experiments.design import load_design

    design = load_design(name)
    kind = kinds.kind_of(design)
    load_s = kind.load_s(design, kinds.section_of(kind, design))
    own = [run for run in runs if run["experiment"] == design.fleet.experiment]
    return {
        "name": name,
        "minutes": None if load_s is None else round(load_s / 60, 1),
        "last": _verdict(max(own, key=lambda run: str(run["run"]))) if own else None,
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
    """The question of a design: that of its row in its README's table of cases, or of the paragraph
    that asks it, below the heading of a case; "" without one."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    _, row, said = text.partition(f"\n| `{name}` | ")
    if not row:
        _, _, own = text.partition(f"\n## {name}\n")
        _, _, said = (own or text).partition(_ASKS)
    asked, mark, _ = said.partition("\n\n")[0].partition("?")
    words = " ".join(asked.split())
    return f"{words[:1].upper()}{words[1:]}?" if mark else ""


def _runs(results: Path) -> list[_RunRow]:
    from core.runfiles.result import results_in

    rows = []
    for folder, result in results_in(results, left_out):
        try:
            rows.append(_row(folder, result))
        except InputError as error:
            left_out(error)
    return rows


def left_out(error: InputError) -> None:
    """Say on standard error that a run is not shown, and why."""
    said = f"{error.place}: left out, {error.got}"
    say(said, err)


def _row(folder: Path, result: Result) -> _RunRow:
    """A run by its head, and `found` by its kind."""
    from experiments.record.result import of_kind, validity

    slo = result["slo"] or {}
    try:
        kind = kinds.find(result["kind"])
    except InputError:  # of somebody's own, which is not here
        found: Mapping[str, object] = {}
    else:
        found = of_kind(folder, lambda: kind.row(result))
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
        "found": found,
        "folder": str(folder),
    }


def _print_rows(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        out.print(f"[bold]{title}[/bold]: none")
        return
    shown = _columns(rows)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for key in shown:
        least = _WIDTH_MIN if key in _FOLDED else None
        table.add_column(key, no_wrap=key not in _FOLDED, min_width=least)
    for row in rows:
        table.add_row(*(escape(words(row[key])) for key in shown))
    out.print(table)


def _columns(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the columns for the terminal's width: those that fold need room beside the others."""
    shown = [key for key in rows[0] if key not in _ONLY_JSON]
    for key in _NOT_NARROW:
        taken = sum(
            2 + max(len(one), *(len(words(row[one])) for row in rows))
            for one in shown
            if one not in _FOLDED
        )
        if key in shown and out.width - taken < _WIDTH_MIN:
            shown.remove(key)
    return shown
