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
    result = program.simulate(read_text(input_file), threads=threads, place=str(input_file))
    if as_json:
        print_json(result)
    else:
        for report in result["reports"]:
            _print(report)
        speed = result["events"] / max(result["wall_s"], 1e-9)
        say(f"{result['events']:,} events in {result['wall_s']:.2f} s, {speed:,.0f} a second")
    raise typer.Exit(0 if all(report["stopped"] == "done" for report in result["reports"]) else 1)


def _check(options: Collection[str]) -> None:
    """Refuse options that contradict each other, or change nothing."""
    ways = [name for name in _WAYS if name in options]
    if len(ways) != 1:
        raise InputError(
            ways[0] if ways else "--input",
            expected=f"one of {', '.join(_WAYS)}",
            got=" and ".join(ways) or "none",
            hint="Give one of them; --example prints scenarios to begin with.",
        )
    for name, needed in _ONLY_WITH.items():
        if name in options and needed not in options:
            raise InputError(name, expected=f"{needed} beside it", got="none", hint="Leave it out.")


def _replay(trace: Path, as_json: bool) -> int:
    from optimizer.simulation import program

    replayed = program.replay(trace)
    difference = replayed["first_difference"]
    if as_json:
        print_json(replayed)
        return int(difference is not None)
    endings = {
        "exit": "",
        "full": " (the trace ends at trace_lines_max)",
        "cut": " (the arbiter was killed: the trace may lack its last decisions)",
    }
    say(
        f"{replayed['equal']:,} of {replayed['compared']:,} decisions are the same, "
        f"{replayed['grants']:,} servers given; {replayed['policy']} at first, "
        f"{replayed['servers']} servers" + endings[replayed["ended"]]
    )
    if difference is not None:
        say(f"{trace}:{difference['line']}: the first decision that differs")
        say(f"  recorded: {difference['recorded']}")
        say(f"  replayed: {difference['replayed']}")
    return int(difference is not None)


def _predict(run_dir: Path, arm: str, predicted: str | None, as_json: bool) -> None:
    from optimizer.simulation.fidelity import fidelity

    predictions = fidelity(run_dir, arm, [predicted] if predicted else [])
    if as_json:
        print_json([asdict(prediction) | {"off": prediction.off} for prediction in predictions])
        return
    table = bare_table("arm", "", "requests", "measured", "simulated", "off", left=2)
    rows = [(f"{arm} (fitted)", "", predictions[0].fitted)] if predictions else []
    rows += [
        (prediction.predicted_arm, str(prediction.requests), prediction.predicted)
        for prediction in predictions
    ]
    for name, requests, pairs in rows:
        for percentile, (measured, simulated) in pairs.items():
            off = f"{100 * (simulated / measured - 1):+.0f} %"
            table.add_row(
                name, percentile, requests, _ms(measured, None), _ms(simulated, None), off
            )
    out.print(table)
    if predictions:
        fit = predictions[0]
        host = f", {fit.busy_cores:.2g} of the host's {fit.host_cores:g} cores used by others"
        say(
            f"fitted: {1e3 * fit.work_s:.3g} core ms a copy at {fit.tier}, and "
            f"{1e3 * fit.after_s:.3g} after the reply"
            f"{host if fit.host_cores else ''}"
        )
        if fit.copies_correlation is not None:
            say(f"  correlation of the work of a page's copies {fit.copies_correlation:.2f}")
        for subject, speed in fit.speeds.items():
            say(f"  speed {speed:.2g}: {subject}")


def _print(report: Report) -> None:
    stop_words = {
        "done": "",
        "unstable": ": unstable, the figures mean nothing",
        "events": ": cut off",
    }
    say(f"\n{report['name'] or 'scenario'}{stop_words[report['stopped']]}")
    latency = report["latency"]
    percentiles = (f"p{percentile['q']:g}" for percentile in latency["percentiles"])
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
