"""`sparecraft plan`: the cheapest fleet that meets the SLOs, and the reasons of its cost.

Exit codes: 0 a plan, 1 none is feasible or it is undecided (too little evidence, a run that is not
valid, a simulation that shows nothing), 2 wrong input.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from core.errors import InputError
from core.runfiles.folder import run_folder
from core.terminal import JsonOption, print_json
from core.vocabulary import Scheme

if TYPE_CHECKING:
    from optimizer.fit import Results
    from optimizer.plan.inputs.overrides import Overrides
    from optimizer.plan.inputs.request import PlanRequest

EXAMPLE = Path(__file__).parents[1] / "plan" / "example.toml"


def plan(
    from_run: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="The run to plan from: results/EXPERIMENT/RUN; or an experiment's name.",
        ),
    ] = None,
    input_: Annotated[
        Path | None,
        typer.Option("--input", help="A plan.toml; with --from it overrides measured values."),
    ] = None,
    capacity: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Instead: a capacity run, for the load that a node carries (PCRAFT).",
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="With --capacity: workload, if the run has several.")
    ] = None,
    arrival_per_s: Annotated[
        float | None, typer.Option("--arrival", help="With --capacity: requests per second.")
    ] = None,
    availability: Annotated[
        float | None, typer.Option(help="SLO of availability, e.g. 0.999.")
    ] = None,
    p95_ms: Annotated[float | None, typer.Option(help="SLO of a page's latency.")] = None,
    p99_ms: Annotated[float | None, typer.Option(help="SLO of a page's latency.")] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Probability of keeping all limits, e.g. 0.9.")
    ] = None,
    scheme: Annotated[
        Scheme | None, typer.Option(help="Replacement of failed machines: cloud or on-prem.")
    ] = None,
    book: Annotated[
        str | None, typer.Option(help="Prices: ec2, on-prem or a file; default: by the scheme.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="Region of the price book.")] = None,
    tfvars: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Also write the plan as this fleet.tfvars.")
    ] = None,
    pareto: Annotated[
        bool,
        typer.Option(
            "--pareto", help="Also compute cost against availability and against the tail."
        ),
    ] = False,
    figures: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Folder for figures (SVG): the fronts of --pareto, the schedule."
        ),
    ] = None,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also plan with each input changed.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Also write this plan.json.")
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Print a plan.toml to begin with, and stop.")
    ] = False,
    law_only: Annotated[
        bool,
        typer.Option(
            "--law-only", help="Do not simulate; the latency law decides, which is faster."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the cheapest fleet that meets the SLOs, from a run, a plan.toml, or both.

    With a run, fleets are simulated until the cheapest one that keeps the SLO is known.

    Example: sparecraft plan --from results/mediawiki-noisy/latest --p95-ms 300
    """
    from optimizer.plan.inputs.overrides import Overrides

    if example:
        typer.echo(EXAMPLE.read_text(encoding="utf-8"), nl=False)
        return
    from optimizer.plan.explain.reasons import ExplainOptions
    from optimizer.plan.planner import explain_plan

    slo = {"availability": availability, "p95_ms": p95_ms, "p99_ms": p99_ms}
    slo["confidence"] = confidence
    from_run, capacity = (run and run_folder(run) for run in (from_run, capacity))
    limits = {key: value for key, value in slo.items() if value is not None}
    overrides = Overrides(
        slo=limits, scheme=scheme.value if scheme else None, book=book, region=region
    )
    for name, value in (("--workload", workload), ("--arrival", arrival_per_s)):
        if value is not None and capacity is None:
            raise InputError(name, expected="--capacity beside it", got="none")
    if capacity is not None:
        request = _capacity_request(
            capacity, workload, arrival_per_s, from_run or input_, overrides
        )
    else:
        request = _read_request(from_run, input_, overrides)
    if figures is not None and not pareto and not request.load.hours:
        raise InputError(
            "--figures", expected="--pareto, or [load] day or week, beside it", got="neither"
        )
    with _progress() as say:
        say("planning")
        today = datetime.datetime.now(datetime.UTC).date()
        records, not_simulated = _records(from_run, law_only)
        explain_options = ExplainOptions(
            marginal=True,
            pareto=pareto,
            sensitivity=sensitivity,
            today=today,
            say=say,
            records=records,
            not_simulated=not_simulated,
        )
        outcome, body = explain_plan(request, explain_options)
    texts = ((tfvars, body["tfvars"]), (output, json.dumps(body, indent=2, allow_nan=False) + "\n"))
    written = [path for path, text in texts if path is not None and _write(path, text)]
    written += _draw(figures, body)
    if as_json:
        print_json(body)
    else:
        from optimizer.commands.plan_text import print_plan

        not_written = [path for path, _ in texts if path and path not in written and path.is_file()]
        print_plan(outcome, body, written, not_written)
    unsure = body["simulation"].get("verdict") == "undecided"
    raise typer.Exit(0 if body["feasible"] and not unsure else 1)


def _records(from_run: Path | None, law_only: bool) -> tuple[Results | None, str]:
    """Return the run to simulate, or the reason that there is none."""
    from optimizer.fit import read_results

    if law_only:
        return None, "--law-only"
    if from_run is None:
        return None, "no run to fit the simulation to"
    return read_results(from_run), ""


def _capacity_request(
    run: Path,
    workload: str | None,
    arrival_per_s: float | None,
    source: Path | None,
    overrides: Overrides,
) -> PlanRequest:
    from optimizer.plan.inputs.overrides import request_from_capacity

    if source is not None or arrival_per_s is None:
        raise InputError(
            "--capacity",
            expected="with --arrival, and without --from and --input",
            got=f"with {source}" if source is not None else "no --arrival",
            hint="In a plan.toml, a tier takes a run by `capacity = RUN`.",
        )
    return request_from_capacity(run, workload, arrival_per_s, overrides)


def _read_request(from_run: Path | None, input_: Path | None, overrides: Overrides) -> PlanRequest:
    """Return the request from folder and file, with the options of the command line."""
    from optimizer.plan.inputs.overrides import request_from_file, request_from_run

    if input_ is not None:
        return request_from_file(input_, from_run, overrides)
    if from_run is None:
        raise InputError(
            "sparecraft plan",
            expected="--from RESULTS, --input plan.toml, or both",
            got="neither",
            hint="`sparecraft plan --example` prints a plan.toml to begin with.",
        )
    return request_from_run(from_run, overrides)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show progress if standard error is a terminal."""
    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda _text: None
        return
    with err.status("") as status:
        yield lambda text: status.update(text)


def _draw(folder: Path | None, body: Mapping[str, Any]) -> list[Path]:
    """Draw the fronts and the schedule as figures in `folder`; return their paths."""
    if folder is None:
        return []
    from optimizer.plan.explain.figures import front_svg
    from optimizer.plan.explain.schedule_figure import schedule_svg

    fronts, schedule = body.get("pareto", []), body.get("schedule")
    figures = {
        f"front-{front['limit'].removesuffix('_ms')}.svg": front_svg(front) for front in fronts
    }
    if schedule and schedule["usd_per_month"] is not None:
        figures["schedule.svg"] = schedule_svg(schedule)
    return [folder / name for name, svg in figures.items() if _write(folder / name, svg)]


def _write(path: Path, text: str) -> bool:
    """Write `text` and create its folders; return False if there is no text."""
    if not text:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            str(path), expected="a file that can be written", got=str(error.strerror or error)
        ) from error
    return True
