"""`sparecraft run`: carry out a design, from its fleet to its report."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from core.errors import InputError
from core.runfiles.result import Result, read_result
from core.terminal import JsonOption, err, out, print_json, say
from experiments import kinds
from experiments.commands.check import check_design, show, summary_of
from experiments.commands.on_platform import Chosen
from experiments.commands.on_target import target_of, with_target
from experiments.commands.options import (
    RESULTS,
    DesignArgument,
    ResultsOption,
    SeedOption,
    YesOption,
    confirm,
)
from experiments.console import Narrator
from experiments.design import Design, load_design
from experiments.design.endpoint import KIND as ENDPOINT
from experiments.design.experiment import Pattern
from experiments.record.result import passed
from experiments.run.kind import Kind, SectionT
from experiments.testbed.platforms import DEFAULT, Platform

if TYPE_CHECKING:
    from experiments.kinds.compare.close import Loop
    from experiments.run.lifecycle import Outcome


def run(
    design: DesignArgument,
    chosen: Chosen,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the fleet up afterwards.")] = False,
    close: Annotated[
        bool,
        typer.Option(
            "--close",
            help="Then change the fleet in place to the planned one, measure it with the same "
            "arrivals, neighbours and faults, and report whether the plan's promise was "
            "kept. Platform local only.",
        ),
    ] = False,
    next_cheaper: Annotated[
        bool,
        typer.Option(
            "--next-cheaper",
            help="With --close: measure the next cheaper fleet too, which the plan refused.",
        ),
    ] = False,
    close_minutes: Annotated[
        float | None,
        typer.Option(
            "--close-minutes",
            min=1.0,
            max=120.0,
            help="With --close: go on with the planned fleet for so many minutes of load, unless "
            "its promise is kept or broken before. By default each pair of blocks is met once "
            "more and then as many new ones, or new ones until six minutes.",
        ),
    ] = None,
    interference: Annotated[
        Pattern | None,
        typer.Option(help="Run with another interference pattern (`none`: a quiet run)."),
    ] = None,
    seed: SeedOption = None,
    quiet_wait_s: Annotated[
        float,
        typer.Option(
            "--quiet-wait",
            min=0.0,
            max=600.0,
            help="On a shared host: how long each block may wait until other guests take at most "
            "5 % of the cores and other work at most 15 %. In kinds compare and schemes a "
            "block that is disturbed nevertheless, or by a late load generator, is set "
            "aside and measured again.",
        ),
    ] = 0.0,
    attach: Annotated[
        str | None,
        typer.Option(
            "--attach",
            metavar="WHERE",
            help="Measure an existing fleet, and change and remove nothing of it: a file of "
            "`terraform output -json`, the folder of the Terraform configuration that made "
            "it, or a workspace of infra/stacks/local.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="URL",
            help="Load a service that somebody else runs, http://HOST:PORT, and make no fleet: "
            "latencies, errors and the SLO, without agents and arbiters.",
        ),
    ] = None,
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="HOST",
            help="With --target: repeat the host if it is not this machine. Load only services "
            "that you may load.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what would be disturbed, on which machines, and how it is undone; "
            "change nothing.",
        ),
    ] = False,
    results: ResultsOption = RESULTS,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Provision a design's fleet, disturb it, measure it, plan from it, report, remove it.

    With `--platform ec2` the price is shown first, and has to be confirmed; then the fleet's first
    load machine runs the design, and the results are copied here. If the connection is lost, the
    same command resumes. A fleet that `sparecraft up` made stays up.

    Example: sparecraft run mediawiki-noisy --quiet-wait 60
    """
    _check_attach(attach, chosen, keep, close)
    loaded_design = with_pattern(load_design(design, seed=seed), interference)
    if target is not None:
        others = {"--attach": attach, "--keep": keep, "--close": close}
        loaded_design = with_target(
            loaded_design, target, allow_hosts or (), others, err if as_json else out
        )
    kind = kinds.kind_of(loaded_design)
    for option, is_given in (
        ("--next-cheaper", next_cheaper),
        ("--close-minutes", close_minutes is not None),
    ):
        if is_given and not close:
            raise InputError(option, expected="--close beside it", got="none", hint="Add --close.")
    if close:
        _check_closes(loaded_design, chosen)
    if dry_run:
        cores = os.cpu_count() if chosen.entry.name == DEFAULT else None
        _print_dry_run(loaded_design, results, cores, close, as_json, close_minutes)
        return
    if attach is not None and not kind.needs_fleet:
        raise InputError(
            "--attach",
            expected="a kind of experiment that measures a fleet",
            got=f"{kind.name}, which needs none",
            hint="Run it without --attach.",
        )
    if kind.needs_fleet and attach is None:
        narrator = Narrator(err if as_json else out)
        planned_s = kind.load_s(loaded_design, kinds.section_of(kind, loaded_design))
        options = {**chosen.options, "planned_s": planned_s}
        if remote_run := chosen.entry.elsewhere(loaded_design, options, narrator):
            confirm(remote_run.question, yes or not remote_run.question)
            arguments = _same_options(loaded_design, interference, quiet_wait_s)
            folder = remote_run.carry_out(arguments, results=results, keep=keep)
            _show_and_exit(kind, read_result(folder), kind.write_page(folder), as_json)
    if close:
        from experiments.kinds.compare.close import Loop

        loop = Loop(
            results,
            lambda: chosen.entry.for_run(loaded_design.fleet.experiment),
            keep,
            ["sparecraft", *sys.argv[1:]],
            Narrator(err if as_json else out),
            quiet_wait_s,
            next_cheaper,
            None if close_minutes is None else 60 * close_minutes,
        )
        _close_loop(kind, loaded_design, loop, as_json)
    section = kinds.section_of(kind, loaded_design)
    carry_out(
        kind,
        loaded_design,
        target_of(loaded_design, allow_hosts or ()) if kind.name == ENDPOINT else section,
        platform=_platform(attach, chosen, loaded_design),
        results=results,
        keep=keep,
        as_json=as_json,
        quiet_wait_s=quiet_wait_s,
    )


def _check_attach(attach: str | None, chosen: Chosen, keep: bool, close: bool) -> None:
    """Raise InputError for options that do not apply to an existing fleet."""
    others = [f"--platform {chosen.entry.name}"] if chosen.entry.name != DEFAULT else []
    others += ["--keep"] if keep else []
    others += ["--close"] if close else []
    if attach is not None and others:
        raise InputError(
            "--attach",
            expected="no other option about the fleet, which exists and stays",
            got=f"{' and '.join(others)} beside it",
            hint="Leave that out.",
        )


def _platform(attach: str | None, chosen: Chosen, design: Design) -> Platform:
    if attach is None:
        return chosen.entry.for_run(design.fleet.experiment)
    from experiments.testbed.attach import attach as attach_fleet

    return attach_fleet(attach, design)


def carry_out(
    kind: Kind[SectionT],
    design: Design,
    section: SectionT,
    *,
    platform: Platform,
    results: Path,
    keep: bool,
    as_json: bool,
    quiet_wait_s: float = 0.0,
) -> NoReturn:
    """Carry the design out as `kind`, show the result, and exit with its code."""
    from experiments.run.lifecycle import run_experiment

    narrator = Narrator(err if as_json else out)
    narrator.say(f"Seed {design.experiment.design.seed}; the same again: --seed")
    outcome = run_experiment(
        kind,
        design,
        section,
        platform=platform,
        results=results,
        keep=keep,
        command=["sparecraft", *sys.argv[1:]],
        narrator=narrator,
        quiet_wait_s=quiet_wait_s,
    )
    _show_and_exit(kind, outcome.result, outcome.page, as_json)


def _close_loop(kind: Kind[Any], design: Design, loop: Loop, as_json: bool) -> NoReturn:
    """Carry out both halves, show the result of each, and exit with the code of the last."""
    from experiments.kinds.compare.close import close

    loop.narrator.say(f"Seed {design.experiment.design.seed}; the same again: --seed")

    def print_outcome(outcome: Outcome) -> None:
        if not as_json:
            kinds.find(outcome.result["kind"]).print_result(outcome.result, out, outcome.page)

    result = close(kind, design, loop, print_outcome)
    if as_json:
        planned = result.planned and result.planned.result
        refused = result.refused and result.refused.result
        print_json(
            {
                "measured": result.measured.result,
                "planned": planned,
                "refused": refused,
                "why_not": result.why_not,
            }
        )
    elif (last := result.refused or result.planned) is not None:
        print_outcome(last)
    else:
        message = f"The loop is not closed: {result.why_not.removesuffix('.')}."
        say(message, style="bold")
    for remnant in result.left:
        say(f"{remnant} is still there", err)
    raise typer.Exit(0 if result.passed else 1)


def _show_and_exit(kind: Kind[Any], result: Result, page: Path, as_json: bool) -> NoReturn:
    if as_json:
        print_json(result)
    else:
        kind.print_result(result, out, page)
    raise typer.Exit(0 if passed(result) else 1)


def _check_closes(design: Design, chosen: Chosen) -> None:
    """Raise InputError if the run gives no plan, or if the fleet cannot be changed in place."""
    kinds.check_plans(design, "--close")
    if chosen.entry.name != DEFAULT:
        raise InputError(
            "--close",
            expected=f"--platform {DEFAULT}",
            got=f"--platform {chosen.entry.name}",
            hint="There, call `sparecraft adopt` on the run, and `sparecraft run` on its design.",
        )


def _same_options(design: Design, interference: Pattern | None, quiet_wait_s: float) -> list[str]:
    """Return the arguments for the same command elsewhere, with the seed that was drawn here."""
    arguments = ["--seed", str(design.experiment.design.seed)]
    arguments += ["--interference", interference] if interference else []
    return [*arguments, *(["--quiet-wait", f"{quiet_wait_s:g}"] if quiet_wait_s else [])]


def _print_dry_run(
    design: Design,
    results: Path,
    cores: int | None,
    close: bool,
    as_json: bool,
    close_minutes: float | None,
) -> None:
    summary = summary_of(check_design(design), results, cores)
    if as_json:
        print_json({"dry_run": True, "closes": close, **summary})
        return
    show(summary)
    if close:
        limit = (
            "as many new ones, or until six minutes of load"
            if close_minutes is None
            else f"new ones for {close_minutes:g} minutes of load in all"
        )
        out.print(
            "Then the planned fleet, on the machines that stay: each pair of blocks once more, "
            f"with its neighbours and faults, and {limit}, unless the promise is kept or broken "
            "before."
        )
    out.print("Nothing was touched.")


def with_pattern(design: Design, pattern: Pattern | None) -> Design:
    """Return the design with neighbours in other tiers; None: as it is."""
    if pattern is None:
        return design
    interference = design.experiment.interference.model_copy(update={"pattern": pattern})
    experiment = design.experiment.model_copy(update={"interference": interference})
    return replace(design, experiment=experiment)
