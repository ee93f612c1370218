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
from experiments.commands.check import checked, show, summary_of
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
    wanted = with_pattern(load_design(design, seed=seed), interference)
    if target is not None:
        others = {"--attach": attach, "--keep": keep, "--close": close}
        wanted = with_target(wanted, target, allow_hosts or (), others, err if as_json else out)
    kind = kinds.kind_of(wanted)
    if close:
        _check_closes(wanted, chosen)
    if dry_run:
        cores = os.cpu_count() if chosen.entry.name == DEFAULT else None
        _say(wanted, results, cores, close, as_json)
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
        planned_s = kind.load_s(wanted, kinds.section_of(kind, wanted))
        given = {**chosen.given, "planned_s": planned_s}
        if elsewhere := chosen.entry.elsewhere(wanted, given, narrator):
            confirm(elsewhere.question, yes or not elsewhere.question)
            same = _same_options(wanted, interference, quiet_wait_s)
            folder = elsewhere.carry_out(same, results=results, keep=keep)
            _shown(kind, read_result(folder), kind.write_page(folder), as_json)
    if close:
        _close(kind, wanted, chosen, results, keep, as_json, quiet_wait_s)
    section = kinds.section_of(kind, wanted)
    carried_out(
        kind,
        wanted,
        target_of(wanted, allow_hosts or ()) if kind.name == ENDPOINT else section,
        platform=_platform(attach, chosen, wanted),
        results=results,
        keep=keep,
        as_json=as_json,
        quiet_wait_s=quiet_wait_s,
    )


def _check_attach(attach: str | None, chosen: Chosen, keep: bool, close: bool) -> None:
    """Raises InputError for options that say nothing of a fleet that is there."""
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
    from experiments.testbed.attach import attach as attached

    return attached(attach, design)


def carried_out(
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
    """Carry the design out as `kind`, show what it came to, and exit with its code."""
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
    _shown(kind, outcome.result, outcome.page, as_json)


def _close(
    kind: Kind[Any],
    design: Design,
    chosen: Chosen,
    results: Path,
    keep: bool,
    as_json: bool,
    quiet_wait_s: float,
) -> NoReturn:
    """Carry out both halves, show what each came to, and exit with the code of the last."""
    from experiments.kinds.compare.close import Loop, close

    narrator = Narrator(err if as_json else out)
    narrator.say(f"Seed {design.experiment.design.seed}; the same again: --seed")

    def tell(one: Outcome) -> None:
        if not as_json:
            kinds.find(one.result["kind"]).print_result(one.result, out, one.page)

    loop = Loop(
        results,
        lambda: chosen.entry.for_run(design.fleet.experiment),
        keep,
        ["sparecraft", *sys.argv[1:]],
        narrator,
        quiet_wait_s,
    )
    closed = close(kind, design, loop, tell)
    if as_json:
        planned = closed.planned and closed.planned.result
        print_json(
            {"measured": closed.measured.result, "planned": planned, "why_not": closed.why_not}
        )
    elif closed.planned is not None:
        tell(closed.planned)
    else:
        said = f"The loop is not closed: {closed.why_not}."
        say(said, style="bold")
    for one in closed.left:
        say(f"{one} is still there", err)
    raise typer.Exit(0 if closed.passed else 1)


def _shown(kind: Kind[Any], result: Result, page: Path, as_json: bool) -> NoReturn:
    if as_json:
        print_json(result)
    else:
        kind.print_result(result, out, page)
    raise typer.Exit(0 if passed(result) else 1)


def _check_closes(design: Design, chosen: Chosen) -> None:
    """Raises InputError if a plan cannot be made of a run, or the fleet not be changed here."""
    kinds.check_plans(design, "--close")
    if chosen.entry.name != DEFAULT:
        raise InputError(
            "--close",
            expected=f"--platform {DEFAULT}",
            got=f"--platform {chosen.entry.name}",
            hint="There, call `sparecraft adopt` on the run, and `sparecraft run` on its design.",
        )


def _same_options(design: Design, interference: Pattern | None, quiet_wait_s: float) -> list[str]:
    """Arguments of this command, for the same command elsewhere, and the seed drawn here."""
    given = ["--seed", str(design.experiment.design.seed)]
    given += ["--interference", interference] if interference else []
    return [*given, *(["--quiet-wait", f"{quiet_wait_s:g}"] if quiet_wait_s else [])]


def _say(design: Design, results: Path, cores: int | None, close: bool, as_json: bool) -> None:
    found = summary_of(checked(design), results, cores)
    if as_json:
        print_json({"dry_run": True, "closes": close, **found})
        return
    show(found)
    if close:
        out.print(
            "Then the planned fleet, on the machines that stay: each pair of blocks once more, "
            "with its neighbours and faults, and up to three minutes of load."
        )
    out.print("Nothing was touched.")


def with_pattern(design: Design, pattern: Pattern | None) -> Design:
    """Return the design with neighbours in other tiers; None: as it is."""
    if pattern is None:
        return design
    interference = design.experiment.interference.model_copy(update={"pattern": pattern})
    experiment = design.experiment.model_copy(update={"interference": interference})
    return replace(design, experiment=experiment)
