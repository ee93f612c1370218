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
        Path | None, typer.Option(help="Also write the plan as this fleet.tfvars.")
    ] = None,
    pareto: Annotated[
        bool,
        typer.Option(
            "--pareto", help="Also compute cost against availability and against the tail."
        ),
    ] = False,
    figures: Annotated[
        Path | None,
        typer.Option(help="Folder for figures (SVG): the fronts of --pareto, the schedule."),
    ] = None,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also plan with each input changed.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Also write this plan.json.")] = None,
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
    from optimizer.plan.planner import explained_plan

    slo = {"availability": availability, "p95_ms": p95_ms, "p99_ms": p99_ms}
    slo["confidence"] = confidence
    from_run, capacity = (one and run_folder(one) for one in (from_run, capacity))
    given = {key: value for key, value in slo.items() if value is not None}
    over = Overrides(slo=given, scheme=scheme.value if scheme else None, book=book, region=region)
    for name, value in (("--workload", workload), ("--arrival", arrival_per_s)):
        if value is not None and capacity is None:
            raise InputError(name, expected="--capacity beside it", got="none")
    if capacity is not None:
        asked = _asked_of_capacity(capacity, workload, arrival_per_s, from_run or input_, over)
    else:
        asked = _read_request(from_run, input_, over)
    if figures is not None and not pareto and not asked.load.hours:
        raise InputError(
            "--figures", expected="--pareto, or [load] day or week, beside it", got="neither"
        )
    with _progress() as say:
        say("planning")
        today = datetime.datetime.now(datetime.UTC).date()
        records, why = _records(from_run, law_only)
        wanted = ExplainOptions(
            marginal=True,
            pareto=pareto,
            sensitivity=sensitivity,
            today=today,
            say=say,
            records=records,
            not_simulated=why,
        )
        found, body = explained_plan(asked, wanted)
    texts = ((tfvars, body["tfvars"]), (output, json.dumps(body, indent=2, allow_nan=False) + "\n"))
    written = [path for path, text in texts if path is not None and _write(path, text)]
    written += _draw(figures, body)
    if as_json:
        print_json(body)
    else:
        from optimizer.commands.plan_text import print_plan

        left = [path for path, _ in texts if path and path not in written and path.is_file()]
        print_plan(found, body, written, left)
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


def _asked_of_capacity(
    run: Path,
    workload: str | None,
    arrival_per_s: float | None,
    other: Path | None,
    over: Overrides,
) -> PlanRequest:
    from optimizer.plan.inputs.overrides import request_from_capacity

    if other is not None or arrival_per_s is None:
        raise InputError(
            "--capacity",
            expected="with --arrival, and without --from and --input",
            got=f"with {other}" if other is not None else "no --arrival",
            hint="In a plan.toml, a tier takes a run by `capacity = RUN`.",
        )
    return request_from_capacity(run, workload, arrival_per_s, over)


def _read_request(from_run: Path | None, input_: Path | None, over: Overrides) -> PlanRequest:
    """Return the request from folder and file, with the options of the command line."""
    from optimizer.plan.inputs.overrides import request_from_file, request_from_run

    if input_ is not None:
        return request_from_file(input_, from_run, over)
    if from_run is None:
        raise InputError(
            "sparecraft plan",
            expected="--from RESULTS, --input plan.toml, or both",
            got="neither",
            hint="`sparecraft plan --example` prints a plan.toml to begin with.",
        )
    return request_from_run(from_run, over)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show progress on the terminal if standard error is one; else nothing."""
    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda _text: None
        return
    with err.status("") as status:
        yield lambda text: status.update(text)


def _draw(folder: Path | None, body: Mapping[str, Any]) -> list[Path]:
    """Return the fronts and the schedule as figures in `folder`."""
    drawn: list[Path] = []
    for one in body.get("pareto", []) if folder is not None else []:
        from optimizer.plan.explain.figures import front_svg

        assert folder is not None
        path = folder / f"front-{one['limit'].removesuffix('_ms')}.svg"
        _write(path, front_svg(one))
        drawn.append(path)
    schedule = body.get("schedule")
    if folder is not None and schedule and schedule["usd_per_month"] is not None:
        from optimizer.plan.explain.schedule_figure import schedule_svg

        path = folder / "schedule.svg"
        _write(path, schedule_svg(schedule))
        drawn.append(path)
    return drawn


def _write(path: Path, text: str) -> bool:
    """Write `text`, if there is any, and say whether; folders are made."""
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
