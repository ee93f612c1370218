"""`sparecraft simulate`: discrete-event simulation of a service in tiers, from a scenario."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.config_file import read_text
from core.errors import InputError
from core.runfiles.folder import run_folder
from core.terminal import JsonOption, bare_table, out, print_json, say

if TYPE_CHECKING:
    from optimizer.simulation.forms import Latency, Report

_WAYS = ("--input", "--example", "--from", "--replay")
_ONLY_WITH = {"--arm": "--from", "--predict": "--from", "--threads": "--input"}


def simulate(
    input_file: Annotated[
        Path | None, typer.Option("--input", help="JSON file of a scenario, or of a list of them.")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print example scenarios.")] = False,
    from_run: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="A run: fit to its --arm, and --predict others."
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="An arbiter's trace; check that every decision is repeated."),
    ] = None,
    arm: Annotated[
        str | None, typer.Option(help="With --from: the arm to fit; default: baseline.")
    ] = None,
    predict: Annotated[
        str | None, typer.Option(help="With --from: the arm to predict; default: all others.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="With --input: scenarios at a time; default: one per core."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate tiers of servers behind arbiters: any policy and r, neighbours, crashes.

    Exit code 1 if a scenario is unstable or was cut off, or a decision of a trace differs.

    Example: sparecraft simulate --example > scenario.json

    Example: sparecraft simulate --input scenario.json

    Example: sparecraft simulate --from results/mediawiki-noisy/latest
    """
    from optimizer.simulation import program

    from_run = from_run and run_folder(from_run)
    options = {
        "--input": input_file,
        "--example": example or None,
        "--from": from_run,
        "--replay": replay,
        "--arm": arm,
        "--predict": predict,
        "--threads": threads,
    }
    _check([name for name, value in options.items() if value is not None])
    if example:
        text = resources.files("optimizer.simulation").joinpath("example.json").read_text()
        typer.echo(text, nl=False)
        return
    if replay is not None:
        raise typer.Exit(_replay(replay, as_json))
    if from_run is not None:
        _predict(from_run, "baseline" if arm is None else arm, predict, as_json)
        return
    assert input_file is not None
    found = program.simulate(read_text(input_file), threads=threads, place=str(input_file))
    if as_json:
        print_json(found)
    else:
        for report in found["reports"]:
            _print(report)
        speed = found["events"] / max(found["wall_s"], 1e-9)
        say(f"{found['events']:,} events in {found['wall_s']:.2f} s, {speed:,.0f} a second")
    raise typer.Exit(0 if all(r["stopped"] == "done" for r in found["reports"]) else 1)


def _check(given: Collection[str]) -> None:
    """Refuse options that contradict each other, or change nothing."""
    ways = [name for name in _WAYS if name in given]
    if len(ways) != 1:
        raise InputError(
            ways[0] if ways else "--input",
            expected=f"one of {', '.join(_WAYS)}",
            got=" and ".join(ways) or "none",
            hint="Give one of them; --example prints scenarios to begin with.",
        )
    for name, other in _ONLY_WITH.items():
        if name in given and other not in given:
            raise InputError(name, expected=f"{other} beside it", got="none", hint="Leave it out.")


def _replay(trace: Path, as_json: bool) -> int:
    from optimizer.simulation import program

    found = program.replay(trace)
    difference = found["first_difference"]
    if as_json:
        print_json(found)
        return int(difference is not None)
    ended = {
        "exit": "",
        "full": " (the trace ends at trace_lines_max)",
        "cut": " (the arbiter was killed: the trace may lack its last decisions)",
    }
    say(
        f"{found['equal']:,} of {found['compared']:,} decisions are the same, {found['grants']:,} "
        f"servers given; {found['policy']} at first, {found['servers']} servers"
        + ended[found["ended"]]
    )
    if difference is not None:
        say(f"{trace}:{difference['line']}: the first decision that differs")
        say(f"  recorded: {difference['recorded']}")
        say(f"  replayed: {difference['replayed']}")
    return int(difference is not None)


def _predict(run_dir: Path, arm: str, predicted: str | None, as_json: bool) -> None:
    from optimizer.simulation.fidelity import fidelity

    found = fidelity(run_dir, arm, [predicted] if predicted else [])
    if as_json:
        print_json([asdict(one) | {"off": one.off} for one in found])
        return
    table = bare_table("arm", "", "requests", "measured", "simulated", "off", left=2)
    rows = [(f"{arm} (fitted)", "", found[0].fitted)] if found else []
    rows += [(one.predicted_arm, str(one.requests), one.predicted) for one in found]
    for name, requests, pairs in rows:
        for q, (real, ours) in pairs.items():
            off = f"{100 * (ours / real - 1):+.0f} %"
            table.add_row(name, q, requests, _ms(real, None), _ms(ours, None), off)
    out.print(table)
    if found:
        one = found[0]
        host = f", {one.busy_cores:.2g} of the host's {one.host_cores:g} cores used by others"
        say(
            f"fitted: {1e3 * one.work_s:.3g} core ms a page at the front, and "
            f"{1e3 * one.after_s:.3g} after the reply"
            f"{host if one.host_cores else ''}"
        )
        if one.copies_correlation is not None:
            say(f"  correlation of the work of a page's copies {one.copies_correlation:.2f}")
        for what, speed in one.speeds.items():
            say(f"  speed {speed:.2g}: {what}")


def _print(report: Report) -> None:
    stopped = {
        "done": "",
        "unstable": ": unstable, the figures mean nothing",
        "events": ": cut off",
    }
    say(f"\n{report['name'] or 'scenario'}{stopped[report['stopped']]}")
    latency = report["latency"]
    percentiles = (f"p{one['q']:g}" for one in latency["percentiles"])
    head = ("requests", "failed", "mean", *percentiles, "copies lost", "used")
    table = bare_table("", *head)
    table.add_row("page", *_row(latency, report["failed"]), "", "")
    for tier in report["tiers"]:
        shares = (f"{100 * tier['lost_share']:.1f} %", f"{100 * tier['utilisation']:.1f} %")
        table.add_row(tier["name"], *_row(tier["latency"], tier["failed"]), *shares)
    out.print(table)


def _row(latency: Latency, failed: int) -> list[str]:
    cells = [f"{latency['samples']:,}", f"{failed:,}"]
    cells.append(_ms(latency["mean_s"], latency["mean_half_width_s"]))
    for percentile in latency["percentiles"]:
        sign = "" if percentile["sufficient"] else "?"
        cells.append(_ms(percentile["value_s"], percentile["half_width_s"]) + sign)
    return cells


def _ms(value_s: float, half_width_s: float | None) -> str:
    width = "" if half_width_s is None else f" ±{1e3 * half_width_s:.3g}"
    return f"{1e3 * value_s:.4g}{width} ms"
