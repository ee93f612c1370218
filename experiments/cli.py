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
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.errors import EnvironmentMissing, InputError, SparecraftError
from experiments.platform import LocalPlatform, docker
from experiments.runner.console import Narrator
from experiments.spec import Design, load_design
from optimizer import PlannerError
from optimizer import commands as planner

app = typer.Typer(
    name="sparecraft",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Finds, by measurement, the cheapest fleet that stays available and keeps its tail "
    "latency low when neighbours are noisy and hardware limps, hangs and dies.",
)
_out = Console()
_err = Console(stderr=True)


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


DesignArgument = Annotated[
    str, typer.Argument(help="A design's name (`sparecraft list`) or its folder.")
]
ResultsOption = Annotated[Path, typer.Option("--results", help="Where result folders are kept.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
RESULTS = Path("results")


def _version(asked: bool) -> None:
    if asked:
        _out.print(f"sparecraft {metadata.version('sparecraft')}", highlight=False)
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
            "guests take at most 5 % of its cores.",
        ),
    ] = 0.0,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Provision the design's fleet, disturb it, measure it, plan from it, report, remove it."""
    from experiments.report import print_summary
    from experiments.runner.run import run_design

    chosen = _with_pattern(load_design(design), interference)
    if chosen.experiment.capacity is not None:
        _run_capacity(chosen, results, keep, quiet_wait_s, as_json)
    outcome = run_design(
        chosen,
        results=results,
        keep=keep,
        command=["sparecraft", *sys.argv[1:]],
        narrator=Narrator(_err if as_json else _out),
        quiet_wait_s=quiet_wait_s,
    )
    if as_json:
        _print_json(outcome.summary)
    else:
        print_summary(outcome.summary, _out, outcome.report)
    raise typer.Exit(0 if outcome.passed else 1)


def _run_capacity(
    design: Design, results: Path, keep: bool, quiet_wait_s: float, as_json: bool
) -> NoReturn:
    from experiments.capacity.live import measure_capacity
    from experiments.capacity.report import print_capacity

    measured = measure_capacity(
        design,
        results=results,
        keep=keep,
        command=["sparecraft", *sys.argv[1:]],
        narrator=Narrator(_err if as_json else _out),
        quiet_wait_s=quiet_wait_s,
    )
    if as_json:
        _print_json(measured.capacity)
    else:
        print_capacity(measured.capacity, _out, measured.report)
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
    narrator = Narrator(_err if as_json else _out)
    tuned = tune_design(
        chosen, asked, results=results, keep=keep, command=command, narrator=narrator
    )
    if as_json:
        _print_json(tuned.tuning)
    else:
        print_tuning(tuned.tuning, _out, tuned.report)
    raise typer.Exit(0 if tuned.passed else 1)


@app.command()
def up(design: DesignArgument, as_json: JsonOption = False) -> None:
    """Provision a design's fleet and wait until every machine is ready."""
    from experiments.runner.fleet import bring_up

    chosen = load_design(design)
    inventory = bring_up(chosen, Narrator(_err if as_json else _out))
    if as_json:
        _print_json(inventory.model_dump(mode="json"))
    else:
        _out.print(f"Entry: {inventory.endpoints.entry}   InfluxDB: {inventory.endpoints.influxdb}")
        _out.print(f"`sparecraft down {design}` removes it.")


@app.command()
def down(
    experiment: Annotated[
        str | None, typer.Argument(help="An experiment's name; without one, all fleets.")
    ] = None,
    all_fleets: Annotated[bool, typer.Option("--all", help="Every fleet of this host.")] = False,
) -> None:
    """Remove a fleet and every trace of it, also one that a killed run left behind."""
    if experiment is not None and all_fleets:
        raise InputError(
            "sparecraft down",
            expected="an experiment's name or --all",
            came="both",
            do="Give one of them.",
        )
    docker.check()
    names = [experiment] if experiment else _known_experiments()
    if not names:
        _out.print("No fleet of Sparecraft is on this host.")
    for name in names:
        swept = LocalPlatform(name).down(lambda line: _out.print(f"  {line}", highlight=False))
        for thing in swept:
            _out.print(f"  swept {thing}", highlight=False)
        _out.print(f"{name}: removed", highlight=False)


@app.command(name="list")
def list_(results: ResultsOption = RESULTS, as_json: JsonOption = False) -> None:
    """The designs, the fleets that are up, and the runs in the results folder."""
    found = {"designs": _designs(), "fleets": _fleets(), "runs": _runs(results)}
    if as_json:
        _print_json(found)
        return
    for title, rows in found.items():
        _print_rows(title, rows)


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
        _print_json(summary)
    else:
        print_summary(summary, _out, path)


def _report_capacity(run_folder: Path, as_json: bool) -> None:
    from experiments.capacity.report import print_capacity, write_capacity_report

    path = write_capacity_report(run_folder)
    capacity = json.loads((run_folder / "capacity.json").read_text(encoding="utf-8"))
    if as_json:
        _print_json(capacity)
    else:
        print_capacity(capacity, _out, path)


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
        _print_json({"experiment": design.fleet.experiment, "folder": str(design.directory)})
        return
    _out.print(f"{design.fleet.experiment}: {shown}", soft_wrap=True, highlight=False)
    _out.print(f"`sparecraft run {shown}` measures it.", soft_wrap=True, highlight=False)


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
    _err.print(f"[bold red]error[/bold red] {escape(str(error))}", highlight=False)
    sys.exit(code)


def _with_pattern(design: Design, pattern: Pattern | None) -> Design:
    if pattern is None:
        return design
    interference = design.experiment.interference.model_copy(update={"pattern": pattern.value})
    experiment = design.experiment.model_copy(update={"interference": interference})
    return replace(design, experiment=experiment)


def _known_experiments() -> list[str]:
    from experiments.platform.local import ROOT

    states = (ROOT / "infra" / "stacks" / "local" / "terraform.tfstate.d").glob("*/")
    labelled = {found.experiment for found in docker.find()}
    return sorted({path.name for path in states} | labelled)


def _designs() -> list[dict[str, Any]]:
    from experiments.spec import designs_available

    return [{"name": name} for name in designs_available()]


def _fleets() -> list[dict[str, Any]]:
    try:
        found = docker.find()
    except EnvironmentMissing:
        return []
    names = sorted({thing.experiment for thing in found})
    machines = {n: [f for f in found if f.experiment == n and f.kind == "container"] for n in names}
    return [{"experiment": name, "machines": len(machines[name])} for name in names]


def _runs(results: Path) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(results.glob("*/*/summary.json")):
        if path.parent.is_symlink():
            continue
        summary = json.loads(path.read_text())
        rows.append(
            {
                "experiment": summary["experiment"],
                "run": path.parent.name,
                "valid": summary["valid"],
                "slo_met": summary["slo"]["met"],
                "folder": str(path.parent),
            }
        )
    for path in sorted(results.glob("*/*/capacity.json")):
        if not path.parent.is_symlink():
            capacity = json.loads(path.read_text())
            rows.append(
                {
                    "experiment": capacity["experiment"],
                    "run": path.parent.name,
                    "valid": capacity["complete"],
                    "slo_met": None,
                    "folder": str(path.parent),
                }
            )
    return rows


def _print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        _out.print(f"[bold]{title}[/bold]: none")
        return
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    _out.print(table)


def _print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
