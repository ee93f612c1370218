"""`sparecraft integrity`: time of a node as correct, corrupt or down under transient faults."""

from __future__ import annotations

import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InputError, require_positive
from core.terminal import JsonOption, bare_table, option_of, out, print_json, say, told_by_option
from core.units import FAULT_MONTH_S
from core.vocabulary import Scheme

if TYPE_CHECKING:
    from optimizer.integrity import FaultOutcomes, Integrity, Measured


_SAME = ("corrupt_p", "crash_p", "retry_p", "retry_s", "retry_abort_p", "hardware_crash_per_year",
         "pool", "repair_s", "horizon_s")  # fmt: skip
_OPTIONS = {
    **{name: option_of(name) for name in _SAME},
    "corrupt_p + crash_p + retry_p": "--corrupt-p, --crash-p and --retry-p",
    "sdc_s": "--sdc-recovery-s",
    "crash_s": "--crash-recovery-s",
}  # by the model's arguments


class Node(StrEnum):
    """Node types of PCRAFT's Table I."""

    native = "native"
    ft_ilr = "ft_ilr"
    ft_tx = "ft_tx"


def integrity(
    faults_per_month: Annotated[float, typer.Option(help="Transient faults per node and 30 days.")],
    corrupt_p: Annotated[
        float | None, typer.Option(help="Share of faults that corrupt the state silently.")
    ] = None,
    crash_p: Annotated[
        float | None, typer.Option(help="Share of faults that crash the node.")
    ] = None,
    retry_p: Annotated[
        float | None, typer.Option(help="Share of faults that are detected and retried.")
    ] = None,
    node: Annotated[
        Node | None, typer.Option(help="Instead: Table I's three shares of this node type.")
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(help="Instead: the three shares measured by a run of kind bitflips."),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Variant of that run: native (default), ilr, tx, log.")
    ] = None,
    scheme: Annotated[Scheme, typer.Option(help="Where new nodes come from.")] = Scheme.cloud,
    pool: Annotated[
        int | None, typer.Option(help="On-prem: cold nodes for this one; default: any number.")
    ] = None,
    repair_s: Annotated[
        float | None,
        typer.Option(help="Time until a crashed node is back in the pool; default: never."),
    ] = None,
    hardware_crash_per_year: Annotated[
        float | None, typer.Option(help="Crashes per node and year besides transient faults.")
    ] = None,
    sdc_recovery_s: Annotated[
        float, typer.Option(help="Time until a corrupt state is repaired.")
    ] = (6 * 3600.0),
    crash_recovery_s: Annotated[
        float, typer.Option(help="Time until a crashed node is replaced.")
    ] = 15.0,
    retry_s: Annotated[float, typer.Option(help="Time of one retried transaction.")] = 2.5e-6,
    retry_abort_p: Annotated[
        float,
        typer.Option(help="Share of retries that crash; Table I's crash share includes them."),
    ] = 0.0,
    horizon_s: Annotated[
        float, typer.Option(help="Time horizon, from a correct node on.")
    ] = FAULT_MONTH_S,
    as_json: JsonOption = False,
) -> None:
    """Compute the share of a month that a node is correct, corrupt or down (PCRAFT Fig. 2).

    Example: sparecraft integrity --faults-per-month 3 --node native
    """
    from optimizer import integrity as model

    start_s = time.perf_counter()
    if scheme is Scheme.cloud and pool is not None:
        raise InputError(
            "--pool",
            expected="none with --scheme cloud, where the number of nodes is unlimited",
            got=str(pool),
            hint="Add --scheme on-prem.",
        )
    if variant is not None and measured is None:
        raise InputError(
            "--variant",
            expected="a run of injections beside it, whose variant it is",
            got=f"{variant} without --measured",
            hint="Add --measured RUN, a run of kind bitflips.",
        )
    variant = variant or "native"
    require_positive("--faults-per-month", faults_per_month)

    def share_of_time(outcomes: FaultOutcomes) -> Integrity:
        return model.integrity(
            outcomes,
            faults_per_month,
            model.Recovery(sdc_recovery_s, crash_recovery_s, retry_s, retry_abort_p),
            hardware_crash_per_year=hardware_crash_per_year,
            pool=pool,
            repair_s=repair_s,
            horizon_s=horizon_s,
        )

    with told_by_option(_OPTIONS):
        injection_result = measured and _read_measured(
            measured, variant, node, corrupt_p, crash_p, retry_p
        )
        outcomes = (
            injection_result.outcomes
            if injection_result
            else _outcomes(node, corrupt_p, crash_p, retry_p)
        )
        shares = share_of_time(outcomes)
        interval = injection_result and tuple(
            share_of_time(outcomes_at_bound).corrupt
            for outcomes_at_bound in (injection_result.least, injection_result.most)
        )
    if as_json:
        body = {**_body(shares, horizon_s), "corrupt_interval": interval}
        print_json({**body, "seconds": time.perf_counter() - start_s})
        return
    _print(shares, horizon_s)
    if injection_result and interval:
        source = f"{variant}, of {injection_result.injections:,} injections"
        say(f"Corrupt {_percent(interval[0])} to {_percent(interval[1])} (95 %, {source}).")


def _read_measured(
    folder: Path, variant: str, node: Node | None, *shares: float | None
) -> Measured:
    from optimizer.integrity import read_measured

    if node is not None or any(share is not None for share in shares):
        raise InputError(
            "--measured",
            expected="neither --node nor shares beside it",
            got="one of them",
            hint="Give one of them.",
        )
    return read_measured(folder, variant)


def _outcomes(
    node: Node | None, corrupt_p: float | None, crash_p: float | None, retry_p: float | None
) -> FaultOutcomes:
    from optimizer.integrity import NODE_TYPES, FaultOutcomes

    options = {"--corrupt-p": corrupt_p, "--crash-p": crash_p, "--retry-p": retry_p}
    if node is not None:
        for name, value in options.items():
            if value is not None:
                raise InputError(
                    name, expected="nothing beside --node", got=str(value), hint="Give one of them."
                )
        return NODE_TYPES[node.value]
    for name, value in options.items():
        if value is None and name != "--retry-p":
            types = ", ".join(NODE_TYPES)
            raise InputError(
                name,
                expected="a share in [0, 1], or --node",
                got="neither",
                hint=f"Add it, or --node for the shares of a node of PCRAFT's Table I: {types}.",
            )
    return FaultOutcomes(corrupt_p or 0.0, crash_p or 0.0, retry_p or 0.0)


def _body(shares: Integrity, horizon_s: float) -> dict[str, object]:
    return {
        "correct": shares.correct,
        "corrupt": shares.corrupt,
        "down": shares.down,
        "crash": shares.crash,
        "retry": shares.retry,
        "steady_state": None if shares.steady_state is None else asdict(shares.steady_state),
        "error_bound": shares.error_bound,
        "horizon_s": horizon_s,
        "states": shares.states,
    }


def _print(shares: Integrity, horizon_s: float) -> None:
    table = bare_table("state", "share of time", "time", "in the long run")
    for name in ("correct", "corrupt", "down"):
        share, steady = getattr(shares, name), shares.steady_state
        long_run = "none" if steady is None else _percent(getattr(steady, name))
        table.add_row(name, _percent(share), _duration(share * horizon_s), long_run)
    out.print(table)
    days = f"{horizon_s / 86_400:g} d"
    say(f"\nOver {days} from a correct node; each share is wrong by less than "
        f"{shares.error_bound:.0e}.")  # fmt: skip
    if shares.steady_state is None:
        say("There is no long run: crashed nodes are not repaired, so the pool runs out.")


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %" if share else "0 %"


def _duration(seconds: float) -> str:
    for unit, size_s in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size_s:
            return f"{seconds / size_s:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
