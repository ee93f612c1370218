"""The page of a tune, and its summary on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as TerminalTable

from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.kinds.tune.figures import exhaustive_figure, trajectory_figure
from experiments.kinds.tune.replicator import Rules
from experiments.record.result import flat
from experiments.report.shell import render_run, repeat_rows, save_page
from experiments.report.tables import Cell, Table, named
from experiments.report.terminal import print_path, print_reasons
from experiments.report.text import interval, milliseconds, number, percent, plain

_QUESTIONS = {
    "measurement": "Search finished?",
    "injection": "Neighbours as drawn?",
    "revert": "Neighbours reverted?",
    "cleanup": "Cleaned up?",
}


def write_page(folder: Path) -> Path:
    tuning, manifest = flat(read_result(folder)), manifest_if_any(folder)
    section = tuning["asked"]
    windows = f"{tuning['windows']} of {section['window_s']:g} s; at most {tuning['pairs_max']} "
    html = render_run(
        Path(__file__).with_name("tune.html.j2"),
        tuning,
        manifest,
        headline(tuning),
        _QUESTIONS,
        target=section["target"],
        trajectory=trajectory_figure(tuning),
        steps=_step_table(tuning),
        tiers=_tier_table(tuning),
        feasible=", ".join(_r(candidate["replicas"]) for candidate in tuning["feasible"]),
        collision_max=plain(section["collision_max"]),
        stretch=f"{tuning['stretch_s']:g} s",
        error=f"{100 * tuning.get('error', Rules.error):g} %",
        stopped=f"The search ended: {tuning['stopped']}.",
        optimum=optimum(tuning),
        exhaustive=exhaustive_figure(tuning) if tuning["exhaustive"] else None,
        cases=_case_table(tuning),
        repeat=repeat_rows(
            manifest,
            policy=f"that of the arm {section['arm'] or 'that is last'}",
            windows=f"{windows}pairs in a comparison",
        ),
    )
    return save_page(folder, html)


def headline(tuning: Mapping[str, Any]) -> str:
    if tuning["chosen"] is None:
        return "It was ended before any r was measured to its end."
    accepted = [step for step in tuning["steps"] if step["accepted"]]
    target = tuning["asked"]["target"]
    cost = f"{tuning['iterations']} iterations, {number(tuning['requests']['walk'])} requests"
    cost += " beside those of the rounds" if tuning["exhaustive"] else ""
    ending = "" if tuning["complete"] else " It was cut short: a longer search may go further."
    if not accepted:
        start = _r(tuning["start"]["replicas"])
        text = f"No neighbour of r = {start} was shown to have a lower {target}"
        return f"{text} ({cost}).{ending}"
    last = accepted[-1]["candidate"]
    factors = " and ".join(
        f"{_r(step['candidate']['replicas'])} takes {step['ratio']:.2f} × of "
        f"{_r(step['current']['replicas'])} (95 % interval "
        f"{interval(step['ratio_low'], step['ratio_high'])})"
        for step in accepted
    )
    return (
        f"r = {_r(tuning['chosen'])}, with a {target} of {milliseconds(last['value_ms'])} "
        f"({interval(last['low_ms'], last['high_ms'], milliseconds)}): {factors}; {cost}.{ending}"
    )


def optimum(tuning: Mapping[str, Any]) -> str:
    """Compare the chosen r with the best of the exhaustive search; "" without one."""
    exhaustive = tuning["exhaustive"]
    if not exhaustive:
        return ""
    cost = f"{number(tuning['requests']['exhaustive'])} requests, {exhaustive['rounds']} rounds"
    if exhaustive["best"] == tuning["chosen"]:
        return f"The exhaustive search finds the same r ({cost})."
    return (
        f"The least {tuning['asked']['target']} of the exhaustive search is at "
        f"{_r(exhaustive['best'])}; the chosen {_r(tuning['chosen'])} is at "
        f"{exhaustive['ratio']:.2f} × of it (95 % interval "
        f"{interval(exhaustive['ratio_low'], exhaustive['ratio_high'])}; {cost}). "
        "The least of several noisy figures looks lower than it is."
    )


def print_result(tuning: Mapping[str, Any], console: Console, report: Path) -> None:
    table = TerminalTable("iteration", "r", tuning["asked"]["target"], "against", "p", "verdict")
    start = tuning["start"]
    if start is not None:
        table.add_row("1", _r(start["replicas"]), _value(start), "", "", "start")
    for step in tuning["steps"]:
        table.add_row(
            str(step["iteration"]),
            _r(step["candidate"]["replicas"]),
            _value(step["candidate"]),
            f"{step['ratio']:.2f} × {_r(step['current']['replicas'])}",
            f"{_p(step):.3g}",
            step["verdict"],
        )
    console.print(table)
    console.print(headline(tuning), highlight=False)
    if tuning["exhaustive"]:
        console.print(optimum(tuning), highlight=False)
        for case in tuning["exhaustive"].get("cases", ()):
            console.print(_case_words(case), highlight=False)
    print_reasons(tuning["verdicts"], console)
    print_path(report, console)


def _case_words(case: Mapping[str, Any]) -> str:
    """Return the result of Alg. 1 as published, for one target, in a line."""
    few = "" if case["enough"] else "; fewer than ten samples beyond"
    return (
        f"as published, {case['target']}: {_way(case)}, r = {_r(case['chosen'])}, "
        f"{case['factor']:.2f} times lower than at 1; the least is at {_r(case['best'])}, ratio "
        f"{case['ratio']:.2f} ({interval(case['ratio_low'], case['ratio_high'])}){few}"
    )


def _way(case: Mapping[str, Any]) -> str:
    """Return the tried r in order; x marks an r that was not accepted."""
    steps = case["walk"]
    return " ".join(f"{_r(step['replicas'])}{'' if step['accepted'] else 'x'}" for step in steps)


def _r(replicas: Sequence[int]) -> str:
    return f"({', '.join(map(str, replicas))})"


def _value(point: Mapping[str, Any]) -> str:
    bounds = interval(point["low_ms"], point["high_ms"], milliseconds)
    return f"{milliseconds(point['value_ms'])} ({bounds})"


def _p(step: Mapping[str, Any]) -> float:
    return float(min(step["p_better"], step["p_worse"]))


def _step_table(tuning: Mapping[str, Any]) -> Table | None:
    start = tuning["start"]
    if start is None:
        return None
    tiers = [load["tier"] for load in tuning["tiers"]]
    rows = [(
        named("1"), named(_r(start["replicas"])), Cell(_value(start)), Cell(""), Cell(""),
        Cell(""), *_variability_cells(start), named("the start"),
    )]  # fmt: skip
    for step in tuning["steps"]:
        candidate = step["candidate"]
        rows.append((
            named(step["iteration"]), named(_r(candidate["replicas"])),
            Cell(_value(candidate), not step["enough"]),
            Cell(f"{step['ratio']:.2f} ({interval(step['ratio_low'], step['ratio_high'])})"),
            Cell(f"{_p(step):.3g}"), Cell(number(step["requests"])), *_variability_cells(candidate),
            named(f"{step['verdict']} than {_r(step['current']['replicas'])}"
                  if step["verdict"] in ("better", "worse") else step["verdict"]),
        ))  # fmt: skip
    head = ("iteration", "r", tuning["asked"]["target"], "ratio to the current r", "p", "requests",
            *(f"w of {tier}" for tier in tiers), "verdict")  # fmt: skip
    return Table("step-table", "Every comparison", head, tuple(rows))


def _case_table(tuning: Mapping[str, Any]) -> Table | None:
    exhaustive = tuning["exhaustive"]
    cases = exhaustive.get("cases") if exhaustive else None
    if not cases:
        return None
    rows = tuple(
        (
            named(case["target"]), named(_way(case)), named(_r(case["chosen"])),
            Cell(number(len(case["walk"]))), Cell(f"{case['factor']:.2f}", not case["enough"]),
            named(_r(case["best"])),
            Cell(f"{case['ratio']:.2f} ({interval(case['ratio_low'], case['ratio_high'])})",
                 not case["enough"]),
        )
        for case in cases
    )  # fmt: skip
    head = ("target", "search (x: not taken)", "r", "iterations", "times lower than at 1",
            "least at", "ratio to the least")  # fmt: skip
    return Table("case-table", "Alg. 1 as published, on these figures", head, rows)


def _variability_cells(point: Mapping[str, Any]) -> list[Cell]:
    return [Cell(number(w)) for w in point["variability"]]


def _tier_table(tuning: Mapping[str, Any]) -> Table | None:
    rows = tuple(
        (
            named(load["tier"]), Cell(number(load["servers"])), Cell(f"{load['cores']:g}"),
            Cell(number(load["tokens_per_server"])), Cell(number(load["request_per_s"])),
            Cell(milliseconds(load["processing_ms"])), Cell(percent(load["server_utilisation"])),
            Cell(number(load["connection_per_s"])), Cell(milliseconds(load["token_hold_ms"])),
            Cell(percent(load["token_utilisation"])),
        )
        for load in tuning["tiers"]
    )  # fmt: skip
    head = ("tier", "servers M", "cores V", "tokens C", "requests/s λ", "processing time T",
            "servers in use (Eq. 4)", "grants/s λ conn", "token hold T^K",
            "tokens in use (Eq. 5)")  # fmt: skip
    return Table("tier-table", "Inputs of Alg. 1", head, rows) if rows else None
