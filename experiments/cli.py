"""The `sparecraft` command. Exit codes: 0 done, 1 an SLO or verdict failed, 2 wrong usage or input,
3 the environment (Docker, Terraform, a port, disk space) is not there.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from experiments import commands
from experiments.commands.options import (
    RESULTS,
    DesignArgument,
    JsonOption,
    PlatformName,
    PlatformOption,
    ResultsOption,
    err,
    out,
)
from experiments.errors import InputError, SparecraftError
from experiments.platform import LocalPlatform, Platform
from experiments.platform.ec2_handed import Ec2Handed
from experiments.runner.console import Narrator
from experiments.spec import Design, load_design
from optimizer import PlannerError
from optimizer import commands as planner
from optimizer.commands.output import print_json

app = typer.Typer(
    name="sparecraft",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Finds, by measurement, the cheapest fleet that stays available and keeps its tail "
    "latency low when neighbours are noisy and hardware limps, hangs and dies.",
)


class Pattern(StrEnum):
    """Where neighbours are noisy."""

    none = "none"
    front = "front"
    back = "back"
    both = "both"


class TuneTarget(StrEnum):
    """What `tune` makes lower."""

    mean = "mean"
    p95 = "p95"
    p99 = "p99"


class TuneStart(StrEnum):
    """Where `tune` begins."""

    ones = "ones"
    simulated = "simulated"


def _version(asked: bool) -> None:
    if asked:
        out.print(f"sparecraft {metadata.version('sparecraft')}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    design: DesignArgument,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the fleet up afterwards.")] = False,
    interference: Annotated[
        Pattern | None,
        typer.Option(help="Run with another interference pattern (`none`: a quiet run)."),
    ] = None,
    quiet_wait_s: Annotated[
        float,
        typer.Option(
            "--quiet-wait",
            min=0.0,
            max=600.0,
            help="On a shared machine: how long each block may wait for seconds in which other "
            "guests take at most 5 % of its cores. A block that they, or a late load generator, "
            "spoil all the same is set aside and measured again.",
        ),
    ] = 0.0,
    platform: PlatformOption = PlatformName.local,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Provision the design's fleet, disturb it, measure it, plan from it, report, remove it.

    With `--platform ec2`: on the first load machine of a fleet that `sparecraft up` made, which
    stays.
    """
    from experiments.report import print_summary
    from experiments.runner.run import run_design

    chosen = _with_pattern(load_design(design), interference)
    if chosen.experiment.capacity is not None:
        _run_capacity(chosen, platform, results, keep, quiet_wait_s, as_json)
    outcome = run_design(
        chosen,
        platform=_platform(platform, chosen),
        results=results,
        keep=keep,
        command=["sparecraft", *sys.argv[1:]],
        narrator=Narrator(err if as_json else out),
        quiet_wait_s=quiet_wait_s,
    )
    if as_json:
        print_json(outcome.summary)
    else:
        print_summary(outcome.summary, out, outcome.report)
    raise typer.Exit(0 if outcome.passed else 1)


def _run_capacity(
    design: Design,
    platform: PlatformName,
    results: Path,
    keep: bool,
    quiet_wait_s: float,
    as_json: bool,
) -> NoReturn:
    from experiments.capacity.live import measure_capacity
    from experiments.capacity.report import print_capacity

    measured = measure_capacity(
        design,
        platform=_platform(platform, design),
        results=results,
        keep=keep,
        command=["sparecraft", *sys.argv[1:]],
        narrator=Narrator(err if as_json else out),
        quiet_wait_s=quiet_wait_s,
    )
    if as_json:
        print_json(measured.capacity)
    else:
        print_capacity(measured.capacity, out, measured.report)
    raise typer.Exit(0 if measured.passed else 1)


@app.command()
def tune(
    design: DesignArgument,
    target: Annotated[TuneTarget, typer.Option(help="The latency that is to be lower.")],
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Then measure every feasible r, to compare.")
    ] = False,
    start: Annotated[
        TuneStart, typer.Option(help="Begin at r = 1 everywhere, or at the simulator's optimum.")
    ] = TuneStart.ones,
    arm: Annotated[
        str | None, typer.Option(help="Whose policy and tokens; else the design's last arm.")
    ] = None,
    collision_max: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Limit of the collision probability (Eq. 1).")
    ] = 0.5,
    window_s: Annotated[
        float, typer.Option("--window", min=5.0, max=600.0, help="Seconds of one window.")
    ] = 40.0,
    requests: Annotated[
        int, typer.Option(min=1, help="Budget of one comparison, both r together.")
    ] = 3000,
    time_max_s: Annotated[
        float, typer.Option("--time", min=10.0, max=86400.0, help="Seconds for all windows.")
    ] = 5400.0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the fleet up afterwards.")] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Find the replication factors on the live fleet (sPARE Alg. 1), with a test at each step."""
    from experiments.tune.live import Asked, asked_arm, tune_design
    from experiments.tune.report import print_tuning

    chosen = load_design(design)
    asked = Asked(
        target.value,
        asked_arm(chosen, arm),
        window_s,
        requests,
        time_max_s,
        collision_max,
        start.value,
        exhaustive,
    )
    command = ["sparecraft", *sys.argv[1:]]
    narrator = Narrator(err if as_json else out)
    tuned = tune_design(
        chosen, asked, results=results, keep=keep, command=command, narrator=narrator
    )
    if as_json:
        print_json(tuned.tuning)
    else:
        print_tuning(tuned.tuning, out, tuned.report)
    raise typer.Exit(0 if tuned.passed else 1)


@app.command()
def report(
    run_folder: Annotated[Path, typer.Argument(help="results/EXPERIMENT/RUN, or .../latest")],
    as_json: JsonOption = False,
) -> None:
    """Write report.html anew from a run's files, and print its summary."""
    from experiments.report import print_summary, write_report

    if (run_folder / "capacity.json").is_file():
        _report_capacity(run_folder, as_json)
        return
    summary_file = run_folder / "summary.json"
    if not summary_file.is_file():
        raise InputError(
            str(run_folder),
            expected="a run's folder with summary.json in it",
            came="none",
            do="`sparecraft list` shows the runs.",
        )
    summary = json.loads(summary_file.read_text())
    path = write_report(run_folder)
    if as_json:
        print_json(summary)
    else:
        print_summary(summary, out, path)


def _report_capacity(run_folder: Path, as_json: bool) -> None:
    from experiments.capacity.report import print_capacity, write_capacity_report

    path = write_capacity_report(run_folder)
    capacity = json.loads((run_folder / "capacity.json").read_text(encoding="utf-8"))
    if as_json:
        print_json(capacity)
    else:
        print_capacity(capacity, out, path)


@app.command()
def adopt(
    run_folder: Annotated[Path, typer.Argument(help="results/EXPERIMENT/RUN, or .../latest")],
    to: Annotated[
        Path | None, typer.Option(help="The new design's folder; else in the run's folder.")
    ] = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="A plan.json instead of the run's own.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a design of a run's plan, to measure whether the plan keeps what it predicts."""
    from experiments.adopt import adopt as make_design

    design = make_design(run_folder, to=to, plan_file=plan_file)
    here = Path.cwd()
    folder = design.directory
    shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
    if as_json:
        print_json({"experiment": design.fleet.experiment, "folder": str(design.directory)})
        return
    out.print(f"{design.fleet.experiment}: {shown}", soft_wrap=True, highlight=False)
    out.print(f"`sparecraft run {shown}` measures it.", soft_wrap=True, highlight=False)


commands.add_to(app)
planner.add_to(app)


def main() -> None:
    """Entry point: every error of ours becomes one message and an exit code."""
    try:
        app()
    except SparecraftError as error:
        _refuse(error, error.exit_code)
    except PlannerError as error:
        _refuse(error, error.exit_code)


def _refuse(error: Exception, code: int) -> None:
    err.print(f"[bold red]error[/bold red] {escape(str(error))}", highlight=False)
    sys.exit(code)


def _platform(name: PlatformName, design: Design) -> Platform:
    experiment = design.fleet.experiment
    return LocalPlatform(experiment) if name is PlatformName.local else Ec2Handed(experiment)


def _with_pattern(design: Design, pattern: Pattern | None) -> Design:
    if pattern is None:
        return design
    interference = design.experiment.interference.model_copy(update={"pattern": pattern.value})
    experiment = design.experiment.model_copy(update={"interference": interference})
    return replace(design, experiment=experiment)


if __name__ == "__main__":
    main()
