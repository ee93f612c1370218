"""`sparecraft tune`: carry out a design as the kind `tune`; options override its `[tune]`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from core.terminal import JsonOption
from experiments import kinds
from experiments.commands.on_platform import Chosen
from experiments.commands.options import RESULTS, DesignArgument, ResultsOption, SeedOption
from experiments.commands.run import carry_out, with_pattern
from experiments.design import load_design
from experiments.design.experiment import Pattern
from experiments.kinds.tune.section import Start, Target, TuneSection


def _option(key: str, text: str, *flags: str) -> Any:
    """Return an option that overrides a key of `[tune]`; its help names the default."""
    default = TuneSection.model_fields[key].default
    return typer.Option(*flags, help=f"{text} [default: {default}]")


def tune(
    design: DesignArgument,
    chosen: Chosen,
    target: Annotated[Target | None, typer.Option(help="The latency to minimise.")] = None,
    exhaustive: Annotated[
        bool | None,
        typer.Option(
            "--exhaustive", help="Measure every feasible r first; the search goes on from there."
        ),
    ] = None,
    start: Annotated[
        Start | None,
        _option("start", "Begin at r = 1 everywhere, or at the simulator's optimum."),
    ] = None,
    arm: Annotated[
        str | None,
        typer.Option(help="Arm with the policy and tokens to use; default: the last one."),
    ] = None,
    collision_max: Annotated[
        float | None, _option("collision_max", "Limit of the collision probability (Eq. 1).")
    ] = None,
    window_s: Annotated[
        float | None, _option("window_s", "Seconds of one window.", "--window")
    ] = None,
    requests: Annotated[
        int | None,
        _option("requests_max", "Budget of one comparison, both r together.", "--requests"),
    ] = None,
    time_max_s: Annotated[
        float | None, _option("time_max_s", "Seconds for all windows.", "--time")
    ] = None,
    interference: Annotated[
        Pattern | None, typer.Option(help="Search with another interference pattern.")
    ] = None,
    seed: SeedOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the fleet up afterwards.")] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Find the replication factors on the live fleet (sPARE Alg. 1), with a test at each step.

    Values that are not given come from the design's [tune], then from that table's defaults.

    Example: sparecraft tune mediawiki-noisy --target p95
    """
    options = {
        "target": target,
        "exhaustive": exhaustive,
        "start": start,
        "arm": arm,
        "collision_max": collision_max,
        "window_s": window_s,
        "requests_max": requests,
        "time_max_s": time_max_s,
    }
    overrides = {key: value for key, value in options.items() if value is not None}
    loaded_design, kind = (
        with_pattern(load_design(design, seed=seed), interference),
        kinds.find("tune"),
    )
    carry_out(
        kind,
        loaded_design,
        kinds.section_of(kind, loaded_design, overrides),
        platform=chosen.entry.for_run(loaded_design.fleet.experiment),
        results=results,
        keep=keep,
        as_json=as_json,
    )
