"""`sparecraft limplock`: the parts of a block store that limping nodes lock up, and the hours per
year.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from core.runfiles.folder import run_folder
from core.terminal import JsonOption, bare_table, option_of, out, print_json, say, told_by_option

if TYPE_CHECKING:
    from optimizer.limplock import (
        Cluster,
        Limplock,
        LimpRates,
        MeasuredSlowdown,
        Range,
        Simulated,
        Year,
    )

_TRIALS_MAX = 10_000_000  # some tens of seconds
_SIMULATE = {"trials": "--simulate", "simulation": "--simulate"}  # by the model's words


def limplock(
    nodes: Annotated[int, typer.Option(help="Nodes of the store, the crashed one included.")],
    blocks: Annotated[
        int, typer.Option(help="Blocks on a node, all copied again when it crashes.")
    ],
    requests: Annotated[int, typer.Option(help="Reads, or writes, of one user.")] = 1,
    replicas: Annotated[int, typer.Option(help="Nodes that hold a block.")] = 3,
    threads: Annotated[int, typer.Option(help="Blocks that a node copies at a time.")] = 2,
    limping: Annotated[int, typer.Option(help="Nodes with a slow network card.")] = 1,
    simulate: Annotated[
        int | None,
        typer.Option(metavar="TRIALS", help="Also simulate this many crashes."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the simulation; default: 1.")] = None,
    limp_per_year: Annotated[
        float | None,
        typer.Option(help="Limping episodes per node and year; adds hours per year and MTTDL."),
    ] = None,
    limp_hours: Annotated[float | None, typer.Option(help="Mean length of an episode.")] = None,
    repair_hours: Annotated[
        float | None, typer.Option(help="Hours to copy a crashed node's blocks while none limps.")
    ] = None,
    crash_per_year: Annotated[
        float | None, typer.Option(help="Crashes per node and year of 365 d; default: 1.")
    ] = None,
    slowdown: Annotated[
        float | None, typer.Option(help="Factor by which limplock slows that copy; default: 309.")
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Instead of --slowdown: the one that a limplock run measured."
        ),
    ] = None,
    row: Annotated[str | None, typer.Option(help="With --measured: row, such as F8.")] = None,
    scenario: Annotated[
        str | None, typer.Option(help="With --measured: severity, such as 100.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="With --measured: limping part, if the row has several.")
    ] = None,
    arm: Annotated[
        str | None, typer.Option(help="With --measured: arm, if the run has several.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the probability that limping nodes lock up a block store (limplock, Table 2).

    It covers reads, writes, and copying a crashed node's blocks again. With --limp-per-year,
    --limp-hours and --repair-hours also: hours in limplock per year, and years until data are lost;
    with --measured at the measured slowdown and at both its bounds.

    Example: sparecraft limplock --nodes 100 --blocks 3200 --limp-per-year 0.1 --limp-hours 24
    --repair-hours 0.12

    Example: sparecraft limplock --nodes 100 --blocks 3200 --limp-per-year 0.1 --limp-hours 24
    --repair-hours 0.12 --measured results/limplock-hdfs-regeneration/latest --row F8
    --scenario 100 --arm new

    Example: sparecraft limplock --nodes 30 --blocks 3200 --requests 100 --json
    """
    from optimizer import limplock as model

    if seed is not None and simulate is None:
        raise InputError("--seed", expected="--simulate beside it", got="none")
    arguments = (*fields(model.Cluster), *fields(model.LimpRates))
    with told_by_option(
        {argument.name: option_of(argument.name) for argument in arguments} | _SIMULATE
    ):
        cluster = model.Cluster(nodes, blocks, requests, replicas, threads, limping)
        rates = _rates(
            {
                "limp_per_year": limp_per_year,
                "limp_hours": limp_hours,
                "repair_hours": repair_hours,
            },
            {"crash_per_year": crash_per_year, "slowdown": slowdown, "measured": measured},
        )
        choice = {"row": row, "scenario": scenario, "part": part, "arm": arm}
        measured_slowdown = _measured(measured, choice, slowdown)
        probabilities = model.limplock(cluster)
        simulated = None if simulate is None else _simulate(cluster, simulate, seed)
        year, bounds = _year(cluster, rates, measured_slowdown)
    if as_json:
        body: dict[str, object] = asdict(probabilities)
        if simulated is not None:
            body["simulated"] = {**asdict(simulated), "trials": simulate}
        if year is not None:
            body["per_year"] = asdict(year)
        if measured_slowdown is not None and bounds is not None:
            body["measured"] = asdict(measured_slowdown)
            body["per_year_at_low"] = asdict(bounds.low)
            body["per_year_at_high"] = None if bounds.high is None else asdict(bounds.high)
            body["per_year_at_high_reason"] = bounds.reason
        print_json(body)
        return
    _print(cluster, probabilities, simulated)
    if year is not None:
        _print_year(cluster, year, bounds, measured_slowdown)


def _rates(required: dict[str, float | None], optional: dict[str, Any]) -> LimpRates | None:
    """Return the rates of the options, if any; all of `required` must be there, or none."""
    from optimizer.limplock import LimpRates

    options = {name: value for name, value in (required | optional).items() if value is not None}
    if not options:
        return None
    for name, value in required.items():
        if value is None:
            raise InputError(
                option_of(name),
                expected="this option beside " + ", ".join(map(option_of, options)),
                got="none",
                hint="Hours per year need --limp-per-year, --limp-hours and --repair-hours.",
            )
    options.pop("measured", None)
    return LimpRates(**options)


def _measured(
    run: Path | None, choice: dict[str, str | None], slowdown: float | None
) -> MeasuredSlowdown | None:
    """Return the slowdown that the run measured; None if none is requested."""
    from optimizer.limplock import COPYING, LimpRun, measured_slowdown

    options = {name: value for name, value in choice.items() if value is not None}
    if run is None:
        for name in options:
            raise InputError(option_of(name), expected="--measured beside it", got="none")
        return None
    for name, value in options.items():
        if not value:
            raise InputError(option_of(name), expected="a name of the run's", got="an empty one")
    if slowdown is not None:
        raise InputError(
            "--slowdown",
            expected="this option or --measured",
            got="both",
            hint="Leave one of them out.",
        )
    for name in ("row", "scenario"):
        if name not in options:
            raise InputError(
                option_of(name),
                expected="this option beside --measured",
                got="none",
                hint="The run's page has its rows and scenarios.",
            )
    row = options["row"]
    if row not in COPYING:
        raise InputError(
            "--row",
            expected=f"a row whose operation copies blocks: {', '.join(COPYING)}",
            got=f"{row}, whose slowdown does not measure the copying of a crashed node's blocks",
        )
    return measured_slowdown(LimpRun(run=str(run_folder(run)), **options), Path(), "--measured")


def _year(
    cluster: Cluster, rates: LimpRates | None, slowdown: MeasuredSlowdown | None
) -> tuple[Year | None, Range | None]:
    """Return the year; with a measured slowdown also at its bounds."""
    from optimizer import limplock as model

    if rates is None:
        return None, None
    if slowdown is None:
        return model.year(cluster, rates), None
    bounds = model.year_range(cluster, rates, slowdown)
    return bounds.at, bounds


def _simulate(cluster: Cluster, trials: int, seed: int | None) -> Simulated:
    import numpy as np

    from optimizer.limplock import simulate

    if trials > _TRIALS_MAX:
        raise InputError("--simulate", expected=f"at most {_TRIALS_MAX:,}", got=f"{trials:,}")
    return simulate(cluster, trials, np.random.default_rng(1 if seed is None else seed))


def _meanings(cluster: Cluster) -> dict[str, str]:
    requests, blocks, threads = cluster.requests, cluster.blocks, cluster.threads
    slow = "the limping node" if cluster.limping == 1 else f"one of {cluster.limping} limping nodes"
    return {
        "read": f"one of a user's {requests:,} reads is served by {slow}",
        "write": f"one of a user's {requests:,} writes passes through {slow}",
        "node_regeneration": f"all {threads} copying threads of a healthy node are stuck on {slow}",
        "cluster_regeneration": "those of all healthy nodes are",
        "block": f"a block to be copied has no source left that is not stuck, or {slow}",
        "any_block": f"one of the {blocks:,} blocks has none",
    }


def _print(cluster: Cluster, probabilities: Limplock, simulated: Simulated | None) -> None:
    table = bare_table("limplock", "probability")
    if simulated is not None:
        table.add_column("simulated, 95 %", justify="right")
    table.add_column("which means that")
    for name, meaning in _meanings(cluster).items():
        cells = [name.replace("_", " "), _percent(getattr(probabilities, name))]
        if simulated is not None:
            interval = getattr(simulated, name)
            cells.append(f"{_percent(interval.low)} to {_percent(interval.high)}")
        table.add_row(*cells, meaning)
    out.print(table)
    if simulated is not None:
        say(
            "\nFormulas take nodes and blocks as independent, and copying as done at once; the "
            "simulation does not."
        )


def _print_year(
    cluster: Cluster, year: Year, bounds: Range | None, slowdown: MeasuredSlowdown | None
) -> None:
    requests = cluster.requests
    if slowdown is not None:
        say(f"\n{_slowdown_words(slowdown)}")
    say("\nIn a year, with these rates:")
    for name, meaning in (
        ("limping_h", "a node limps"),
        ("read_h", f"{requests:,} reads of a user would meet limplock"),
        ("write_h", f"{requests:,} writes of a user would meet limplock"),
        ("regeneration_h", "blocks of crashed nodes are being copied"),
        ("regeneration_limplock_h", "that is in limplock"),
    ):
        range_words = _hours_range(bounds, name) if name.startswith("regeneration") else ""
        say(f"  {_hours(getattr(year, name)):>10} h  {meaning}{range_words}")
    say(
        f"Data are lost once in {_years(year.mttdl_years)} years{_years_range(bounds)}; "
        f"{_years(year.mttdl_years_without_limping)} if no node ever limped."
    )
    if bounds is not None and bounds.reason:
        say(f"At the slowdown's upper bound there is no answer: {bounds.reason}.")


def _slowdown_words(slowdown: MeasuredSlowdown) -> str:
    at_least = "at least " if slowdown.at_least else ""
    upper = "no upper bound, for waits were cut short"
    bounds = (
        f"{slowdown.low:.3g} to {slowdown.high:.3g}"
        if slowdown.high
        else f"from {slowdown.low:.3g}; {upper}"
    )
    text = (
        f"In limplock it takes {at_least}{slowdown.factor:.3g} times as long ({bounds}; each "
        f"bound at {slowdown.confidence:g}): {slowdown.where}, arm {slowdown.arm}, "
        f"{slowdown.part} limping."
    )
    if slowdown.insufficient:
        text += f" The run does not judge this operation (insufficient): {slowdown.insufficient}."
    return text


def _hours_range(bounds: Range | None, name: str) -> str:
    """Return the hours at both ends of the slowdown."""
    if bounds is None:
        return ""
    low = _hours(getattr(bounds.low, name))
    if bounds.high is None:
        return f" ({low} h or more)"
    return f" ({low} to {_hours(getattr(bounds.high, name))} h)"


def _years_range(bounds: Range | None) -> str:
    """Return the time to data loss at both ends of the slowdown; a slower card means less time."""
    if bounds is None:
        return ""
    longest = _years(bounds.low.mttdl_years)
    if bounds.high is None:
        return f" ({longest} or fewer)"
    return f" ({_years(bounds.high.mttdl_years)} to {longest})"


def _hours(hours: float) -> str:
    return f"{hours:,.3g}"


def _years(years: float) -> str:
    return f"{years:,.0f}" if 100 <= years < 1e9 else f"{years:.3g}"


def _percent(share: float) -> str:
    if 0.0 < share < 1e-6:
        return f"{share:.2g}"
    if 0.99995 < share < 1.0:
        return ">99.99 %"
    return f"{100 * share:.4g} %" if share else "0 %"
