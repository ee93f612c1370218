"""`sparecraft check`: all checks of a design that need no fleet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from core.config_file import raise_all
from core.errors import InputError, SparecraftError
from core.statistics.percentiles import OK
from core.terminal import JsonOption, err, out, print_json
from core.units import duration
from experiments import kinds
from experiments.commands import dry_run
from experiments.commands.options import RESULTS, DesignArgument
from experiments.console import Narrator
from experiments.design import Design, load_design
from experiments.design.endpoint import KIND as ENDPOINT
from experiments.design.experiment import Arm
from experiments.design.feasible import feasibility_problems, infeasible, infeasible_words
from experiments.design.locustfile import (
    locustfile_json,
    locustfile_of,
    locustfile_rows,
    read_locustfile,
    sender_words,
)
from experiments.design.notes import busy_notes, notes_on, operation_notes
from experiments.design.scripts import script_errors
from experiments.design.workers import name_sender
from experiments.design.workloads import population_of
from experiments.paths import brief
from experiments.testbed.platforms import DEFAULT, entry
from optimizer.prices import price_book

_BEGIN_SHOWN = 40  # characters of an answer


def check(
    design: DesignArgument,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also start one machine of each role in Docker, ask each operation once, and "
            "remove all. Exit code 1 if an answer is wrong.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a design without Docker, and describe it: files, roles, scripts, workload.

    Each fault and neighbour is shown with its machines, duration, commands and undo commands. Exit
    code 2: all errors are listed, each with file, line and key.

    Example: sparecraft check mediawiki-noisy
    """
    try:
        loaded_design = check_design(load_design(design))
        summary = summary_of(loaded_design, cores=os.cpu_count())
    except InputError as error:
        if not as_json:
            raise
        errors = [_problem(part) for part in (error, *error.also)]
        print_json({"valid": False, "problems": errors})
        raise typer.Exit(error.exit_code) from error
    answers = _deep_answers(loaded_design, Narrator(err if as_json else out)) if deep else None
    good = all(answer["outcome"] == OK for answer in answers or ())
    if as_json:
        print_json({"valid": True, **summary, **({"asked": answers} if deep else {})})
    else:
        show(summary)
        if answers is not None:
            out.print(_answers_table(answers))
        out.print("Nothing is wrong with it." if good else "Not every operation is answered well.")
    if not good:
        raise typer.Exit(1)


def _deep_answers(design: Design, narrator: Narrator) -> list[dict[str, object]]:
    """Return each operation's answer on the smallest fleet."""
    from experiments.run.deep_check import deep_check, small_name

    if design.is_endpoint:
        raise InputError(
            "sparecraft check --deep",
            expected="a design whose fleet can be made",
            got=f"{design.name}, of kind {design.experiment.kind}, which makes none",
            hint="Leave --deep out.",
        )
    if design.experiment.load.user not in design.workloads:
        raise InputError(
            "sparecraft check --deep",
            expected="a design with a [load]",
            got=f"kind {design.experiment.kind}, which asks by itself",
            hint="Leave --deep out.",
        )
    platform = entry(DEFAULT).for_run(small_name(design.fleet.experiment))
    return [asdict(answer) for answer in deep_check(design, platform, narrator)]


def _answers_table(answers: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("operation", "answer", "status", "bytes", "ms", "lacks", "first bytes")
    for answer in answers:
        took_ms = "" if answer["took_ms"] is None else f"{answer['took_ms']:.1f}"
        begin = answer["begin"].split("\n")[0][:_BEGIN_SHOWN]
        figures = (str(answer["status"] or ""), str(answer["bytes"]), took_ms)
        cells = (answer["operation"], answer["outcome"], *figures, answer["reason"], begin)
        table.add_row(*map(escape, cells))
    return table


def show(summary: Mapping[str, Any]) -> None:
    """Print the summary of `summary_of` for a person."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for label, text in rows_of(summary):
        table.add_row(escape(label), escape(text))
    out.print(table)


def check_design(design: Design) -> Design:
    """Return the design after all checks. Raises one InputError for all its problems."""
    errors = [] if design.is_endpoint else list(script_errors(design.fleet, design.roles))
    errors += _operation_errors(design)
    try:
        kinds.section_of(kinds.kind_of(design), design)
    except InputError as error:
        errors.append(error)
    raise_all(errors)
    return design


def _operation_errors(design: Design) -> list[InputError]:
    user = design.experiment.load.user
    if user not in design.workloads or design.workloads[user].locustfile:
        return []  # a kind without [load]; a Locust file judges its answers itself
    population = population_of(design.workloads[user])
    operations = (*population.operations, *population.writes)
    unchecked = [
        operation.name for operation in operations if not operation.check and operation.http is None
    ]
    if not unchecked:
        return []
    return [
        InputError(
            f"workload {user}",
            expected="a check of every operation: text that a right answer has in it",
            got=f"none of {len(unchecked)}, {unchecked[0]} the first",
            hint="Give Operation its check; a wrong answer would count as a right one.",
        )
    ]


def summary_of(
    design: Design, results: Path = RESULTS, cores: int | None = None
) -> dict[str, object]:
    """Return the design's summary as JSON, with the utilisation that earlier runs predict.

    Parameters: results, the folder of earlier runs; cores of the host that all machines share.
    Raises InputError if by those runs an arm asks for more than its servers can do.
    """
    fleet, experiment = design.fleet, design.experiment
    kind = kinds.kind_of(design)
    section = kinds.section_of(kind, design)
    load_s = kind.load_s(design, section)
    adapted_design = kind.adapted(design, section)
    kind_disturbances = kind.disturbs(design, section)
    utilisation = kind.utilisation(design, results)
    by_arm = (utilisation or {}).get("arms") or {}
    if design.source is not None:
        design.source.refuse_all(feasibility_problems(experiment, fleet, by_arm))
    notes = [
        *notes_on(fleet, design.roles, kind.plans, cores),
        *busy_notes(experiment, by_arm),
        *operation_notes(experiment.load),
    ]
    return {
        "experiment": fleet.experiment,
        "folder": str(design.directory),
        "kind": experiment.kind,
        "tiers": {
            name: {**fleet.tiers[name].model_dump(mode="json"), "arbiter": name in fleet.arbiters}
            for name in fleet.tier_order
        },
        "entries": list(fleet.entry_tiers),
        "roles": {
            name: str(design.roles[name].directory)
            for name in dict.fromkeys(tier.role for tier in fleet.tiers.values())
        },
        "load": experiment.load.model_dump(mode="json") if kind.needs_load else None,
        "locustfile": _locustfile(design),
        "worker": _worker(design) if kind.needs_load else None,
        "arms": {
            name: {tier: _settings(design, arm, tier) for tier in fleet.tier_order}
            for name, arm in experiment.arms.items()
        },
        "seed": {"value": experiment.design.seed, "stated": experiment.design.seed_is_stated},
        "infeasible": [asdict(problem) for problem in infeasible(experiment, fleet, by_arm)],
        "disturbances": [*dry_run.disturbances(adapted_design), *kind_disturbances],
        "at_once": dry_run.most_at_once(adapted_design, kind_disturbances),
        "guard": experiment.guard.model_dump(mode="json"),
        "unguarded": kind.unguarded or experiment.guard.unguarded,
        "load_s": load_s,
        "cost": _cost(design, load_s),
        "utilisation": utilisation,
        "notes": [asdict(note) for note in notes],
    }


def _locustfile(design: Design) -> dict[str, object] | None:
    name = design.experiment.load.locustfile
    return locustfile_json(read_locustfile(design.directory / name)) if name else None


def _worker(design: Design) -> str | None:
    load = design.experiment.load
    workload = design.workloads.get(load.user)
    return None if workload is None else name_sender(load.worker, workload.client is not None)


def _settings(design: Design, arm: Arm, tier: str) -> dict[str, object]:
    settings = arm.of(tier)
    overrides = settings.model_dump(exclude_none=True)
    return overrides if tier in design.fleet.arbiters else settings.role


def _cost(design: Design, load_s: float | None) -> dict[str, object] | None:
    """Return the price on EC2 of the tiers' machines in service [USD], an hour and while there is
    load; None if a machine type has no price.
    """
    region, prices = _ec2_prices()
    tiers = design.fleet.tiers.values()
    if any(tier.instance_type not in prices for tier in tiers):
        return None
    usd = sum(tier.nodes * prices[str(tier.instance_type)] for tier in tiers)
    load_usd = None if load_s is None else round(usd * load_s / 3600, 4)
    return {"usd_per_hour": round(usd, 4), "usd_of_load": load_usd, "region": region}


def rows_of(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the summary's rows for a person: a label and its text."""
    yield "experiment", f"{summary['experiment']}, kind {summary['kind']}"
    yield "folder", summary["folder"]
    if summary["kind"] == ENDPOINT:
        yield from _endpoint_rows(summary)
        return
    for name, tier in summary["tiers"].items():
        parts = [f"{tier['nodes']} x {tier['role']}"]
        parts += [f"{tier['standby']} standby"] if tier["standby"] else []
        parts += [f"calls {', '.join(tier['calls'])}"] if tier["calls"] else []
        yield f"tier {name}", ", ".join([*parts, "arbiter" if tier["arbiter"] else "no arbiter"])
    yield "entries", ", ".join(summary["entries"])
    for name, folder in summary["roles"].items():
        yield f"role {name}", brief(Path(folder))
    load = summary["load"]
    yield "load", _load_text(load) if load else f"what kind {summary['kind']} asks"
    if summary["locustfile"] is not None:
        users = locustfile_of(summary["locustfile"])
        yield from [("sent by", sender_words(users)), *locustfile_rows(users)]
    elif summary["worker"]:
        yield "sent by", summary["worker"]
    for name, arm in summary["arms"].items():
        settings = [f"{tier}: {_settings_text(values)}" for tier, values in arm.items()]
        yield f"arm {name}", "; ".join(settings)
    yield from _utilisation_rows(summary["utilisation"])
    seed = summary["seed"]
    yield "seed", f"{seed['value']}{'' if seed['stated'] else ', drawn now: each run has another'}"
    for problem in summary["infeasible"]:
        yield "infeasible", infeasible_words(problem)
    yield from dry_run.rows(summary)
    yield from _guard_rows(summary["guard"], summary["unguarded"])
    load_s = summary["load_s"]
    length = "as long as it takes" if load_s is None else f"{duration(load_s)}, without set-up"
    yield "load for", length
    yield "price", _price(summary["cost"], summary["tiers"])
    for note in summary["notes"]:
        yield "note", note["text"]


def _endpoint_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a summary of a design that makes no fleet."""
    load = summary["load"]
    yield "service", load["target"] or "named by --target"
    yield "load", _load_text(load)
    yield "sent by", summary["worker"] or "nobody"
    yield from _guard_rows(summary["guard"], summary["unguarded"])
    yield "load for", duration(summary["load_s"])


def _ec2_prices() -> tuple[str, dict[str, float]]:
    """Return the first region of the price book, and USD an hour by machine type there."""
    region, instances = next(iter(price_book("ec2").regions.items()))
    return region, {instance.name: instance.usd_per_hour for instance in instances}


def _price(cost: Mapping[str, Any] | None, tiers: Mapping[str, Any]) -> str:
    if cost is None:
        prices = _ec2_prices()[1]
        unpriced = [name for name, tier in tiers.items() if tier["instance_type"] not in prices]
        return (
            f"unknown on EC2 ({', '.join(unpriced)}): give instance_type in fleet.tfvars, a type "
            "of `sparecraft prices`; nothing in Docker on this host"
        )
    usd = f"{cost['usd_per_hour']:g} USD an hour on EC2 in {cost['region']}"
    if cost["usd_of_load"] is not None:
        usd += f", {cost['usd_of_load']:g} USD while there is load"
    return f"{usd}; nothing in Docker on this host"


def _load_text(load: Mapping[str, Any]) -> str:
    share = load["utilisation"]
    rate = (
        f"{load['rate_per_s']:g}/s{_rate_changes(load)}"
        if share is None
        else f"{share:.0%} of the CPU of the tier that binds, by a calibration"
    )
    return f"{load['user']}, {load['arrivals']}, {rate}"


def _rate_changes(load: Mapping[str, Any]) -> str:
    """Describe the changes of a rate over time; "" if it is constant."""
    if load["trace"]:
        return f" on average, as {load['trace']} says"
    stages = load["stages"]
    return "".join(f", {stage['target']:g}/s after {stage['duration']:g} s" for stage in stages)


def _utilisation_rows(utilisation: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if utilisation is None:
        return
    if not utilisation["arms"]:
        yield "utilisation", "not known before a first valid run"
        return
    for arm, tiers in utilisation["arms"].items():
        shares = [f"{tier} {share:.0%}" for tier, share in tiers.items()]
        yield f"utilisation {arm}", ", ".join(shares)
    basis = "at most, whatever each tier's work is"
    if not utilisation["at_most"]:
        basis = f"by the work of run {utilisation['run']}, at {utilisation['rate_per_s']:.3g}/s"
    yield "utilisation is", basis


def _guard_rows(guard: Mapping[str, Any], unguarded: str | None) -> Iterator[tuple[str, str]]:
    if unguarded is not None:
        yield "guard", f"none: {unguarded}"
        return
    limits = {key: value for key, value in guard.items() if value is not None}
    if guard["error_share_max"] is None and guard["p99_ms_max"] is None:
        limits = {key: limits[key] for key in limits if key not in ("window_s", "requests_min")}
    no_guard = "none: no error ends the run; [guard] error_share_max = 0.5 in experiment.toml would"
    yield "guard", _settings_text(limits) if limits else no_guard


def _settings_text(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items()) or "as it is"


def _problem(error: SparecraftError) -> dict[str, str]:
    return {name: getattr(error, name) for name in ("place", "expected", "got", "hint")}
