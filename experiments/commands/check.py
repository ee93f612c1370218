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
from experiments.design.workers import sent_by
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
        wanted = checked(load_design(design))
        found = summary_of(wanted, cores=os.cpu_count())
    except InputError as error:
        if not as_json:
            raise
        errors = [_problem(one) for one in (error, *error.also)]
        print_json({"valid": False, "problems": errors})
        raise typer.Exit(error.exit_code) from error
    asked = _deep(wanted, Narrator(err if as_json else out)) if deep else None
    good = all(one["outcome"] == OK for one in asked or ())
    if as_json:
        print_json({"valid": True, **found, **({"asked": asked} if deep else {})})
    else:
        show(found)
        if asked is not None:
            out.print(_asked_table(asked))
        out.print("Nothing is wrong with it." if good else "Not every operation is answered well.")
    if not good:
        raise typer.Exit(1)


def _deep(design: Design, narrator: Narrator) -> list[dict[str, object]]:
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
    return [asdict(one) for one in deep_check(design, platform, narrator)]


def _asked_table(asked: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("operation", "answer", "status", "bytes", "ms", "lacks", "first bytes")
    for one in asked:
        took = "" if one["took_ms"] is None else f"{one['took_ms']:.1f}"
        begin = one["begin"].split("\n")[0][:_BEGIN_SHOWN]
        figures = (str(one["status"] or ""), str(one["bytes"]), took)
        words = (one["operation"], one["outcome"], *figures, one["reason"], begin)
        table.add_row(*map(escape, words))
    return table


def show(found: Mapping[str, Any]) -> None:
    """The findings of `summary_of`, for a person."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for what, words in rows_of(found):
        table.add_row(escape(what), escape(words))
    out.print(table)


def checked(design: Design) -> Design:
    """Return the same design. Raises one InputError for all that is wrong with it."""
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
    unchecked = [one.name for one in operations if not one.check and one.http is None]
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
    """Return the design, for a program; by earlier runs in `results`, how busy it will be.

    Parameters: cores, of the host that all machines share. Raises InputError if an arm asks for
    more than its servers can do, by those runs.
    """
    fleet, experiment = design.fleet, design.experiment
    kind = kinds.kind_of(design)
    section = kinds.section_of(kind, design)
    load_s = kind.load_s(design, section)
    done = kind.adapted(design, section)
    own = kind.disturbs(design, section)
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
        "infeasible": [asdict(one) for one in infeasible(experiment, fleet, by_arm)],
        "disturbances": [*dry_run.disturbances(done), *own],
        "at_once": dry_run.at_once(done, own),
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
    return None if workload is None else sent_by(load.worker, workload.client is not None)


def _settings(design: Design, arm: Arm, tier: str) -> dict[str, object]:
    settings = arm.of(tier)
    given = settings.model_dump(exclude_none=True)
    return given if tier in design.fleet.arbiters else settings.role


def _cost(design: Design, load_s: float | None) -> dict[str, object] | None:
    """Return the tiers' machines in service, in USD on EC2, an hour and while there is load; None
    where a type has no price.
    """
    region, instances = next(iter(price_book("ec2").regions.items()))
    prices = {one.name: one.usd_per_hour for one in instances}
    tiers = design.fleet.tiers.values()
    if any(tier.instance_type not in prices for tier in tiers):
        return None
    usd = sum(tier.nodes * prices[str(tier.instance_type)] for tier in tiers)
    of_load = None if load_s is None else round(usd * load_s / 3600, 4)
    return {"usd_per_hour": round(usd, 4), "usd_of_load": of_load, "region": region}


def rows_of(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the same for a person: what, and in words."""
    yield "experiment", f"{found['experiment']}, kind {found['kind']}"
    yield "folder", found["folder"]
    if found["kind"] == ENDPOINT:
        yield from _endpoint_rows(found)
        return
    for name, tier in found["tiers"].items():
        words = [f"{tier['nodes']} x {tier['role']}"]
        words += [f"{tier['standby']} standby"] if tier["standby"] else []
        words += [f"calls {', '.join(tier['calls'])}"] if tier["calls"] else []
        yield f"tier {name}", ", ".join([*words, "arbiter" if tier["arbiter"] else "no arbiter"])
    yield "entries", ", ".join(found["entries"])
    for name, folder in found["roles"].items():
        yield f"role {name}", brief(Path(folder))
    load = found["load"]
    yield "load", _load_words(load) if load else f"what kind {found['kind']} asks"
    if found["locustfile"] is not None:
        users = locustfile_of(found["locustfile"])
        yield from [("sent by", sender_words(users)), *locustfile_rows(users)]
    elif found["worker"]:
        yield "sent by", found["worker"]
    for name, arm in found["arms"].items():
        yield f"arm {name}", "; ".join(f"{tier}: {_words(one)}" for tier, one in arm.items())
    yield from _utilisation_rows(found["utilisation"])
    seed = found["seed"]
    yield "seed", f"{seed['value']}{'' if seed['stated'] else ', drawn now: each run has another'}"
    for one in found["infeasible"]:
        yield "infeasible", infeasible_words(one)
    yield from dry_run.rows(found)
    yield from _guard_rows(found["guard"], found["unguarded"])
    load_s = found["load_s"]
    yield "load for", "as long as it takes" if load_s is None else f"{load_s:g} s, without set-up"
    cost = found["cost"]
    yield "price", _price(cost) if cost else "unknown: a tier's instance_type has no EC2 price"
    for note in found["notes"]:
        yield "note", note["text"]


def _endpoint_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a summary of a design that makes no fleet."""
    load = found["load"]
    yield "service", load["target"] or "named by --target"
    yield "load", _load_words(load)
    yield "sent by", found["worker"] or "nobody"
    yield from _guard_rows(found["guard"], found["unguarded"])
    yield "load for", f"{found['load_s']:g} s"


def _price(cost: Mapping[str, Any]) -> str:
    usd = f"{cost['usd_per_hour']:g} USD an hour on EC2 in {cost['region']}"
    if cost["usd_of_load"] is not None:
        usd += f", {cost['usd_of_load']:g} USD while there is load"
    return f"{usd}; nothing in Docker on this host"


def _load_words(load: Mapping[str, Any]) -> str:
    share = load["utilisation"]
    much = (
        f"{load['rate_per_s']:g}/s{_varies_words(load)}"
        if share is None
        else f"{share:.0%} of the CPU of the tier that binds, by a calibration"
    )
    return f"{load['user']}, {load['arrivals']}, {much}"


def _varies_words(load: Mapping[str, Any]) -> str:
    """Return a rate that is another at other times."""
    if load["trace"]:
        return f" on average, as {load['trace']} says"
    return "".join(f", {one['target']:g}/s after {one['duration']:g} s" for one in load["stages"])


def _utilisation_rows(found: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if found is None:
        return
    if not found["arms"]:
        yield "utilisation", "not known before a first valid run"
        return
    for arm, tiers in found["arms"].items():
        yield f"utilisation {arm}", ", ".join(f"{tier} {u:.0%}" for tier, u in tiers.items())
    by = "at most, whatever each tier's work is"
    if not found["at_most"]:
        by = f"by the work of run {found['run']}, at {found['rate_per_s']:.3g}/s"
    yield "utilisation is", by


def _guard_rows(guard: Mapping[str, Any], unguarded: str | None) -> Iterator[tuple[str, str]]:
    if unguarded is not None:
        yield "guard", f"none: {unguarded}"
        return
    stated = {key: value for key, value in guard.items() if value is not None}
    if guard["error_share_max"] is None and guard["p99_ms_max"] is None:
        stated = {key: stated[key] for key in stated if key not in ("window_s", "requests_min")}
    yield "guard", _words(stated) if stated else "none, and nothing says why"


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items()) or "as it is"


def _problem(error: SparecraftError) -> dict[str, str]:
    return {name: getattr(error, name) for name in ("place", "expected", "got", "hint")}
