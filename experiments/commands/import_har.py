"""`sparecraft import har` and `import access-log`: make operations from recorded requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InputError
from core.terminal import JsonOption, err, out, plain_table, print_json, print_table, say

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.importers.traffic import Imported, Traffic

SHOWN = 20  # operations and reasons on the terminal
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
ToOption = Annotated[
    Path | None,
    typer.Option(
        "--to", help="The design: a new folder, or an existing one, whose [load] is replaced."
    ),
]


def har(
    file: Annotated[Path, typer.Argument(help="The HAR file.")],
    to: ToOption = None,
    host: Annotated[
        str | None, typer.Option(help="The service's host; default: that of the first request.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make operations from the requests of a HAR file.

    Each is asked as often as it stands in the file. Secrets (Authorization, cookies, query values,
    passwords) are removed, and listed. Without --to the operations are printed, and nothing is
    written.

    Example: sparecraft import har session.har --to my-shop
    """
    from experiments.importers.har import read_har
    from experiments.importers.traffic import operations_of

    traffic, service_host = read_har(file, host)
    _show(operations_of(traffic), to, as_json, f"of {service_host}")


def access_log(
    file: Annotated[Path, typer.Argument(help="The log; .gz is unpacked.")],
    to: ToOption = None,
    matching: Annotated[
        str | None, typer.Option(help="Keep only paths that match this regular expression.")
    ] = None,
    without: Annotated[
        str | None, typer.Option(help="Leave out paths that match this regular expression.")
    ] = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace", help="With --to: also keep the log's times, as arrivals.csv of the design."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make operations from the reads of an access log.

    Each is asked as often as it stands in the log. Formats: Combined and Common (Apache, nginx),
    and one JSON object per line. Writes are left out, because a log does not have their bodies.
    Without --to the operations are printed.

    Example: sparecraft import access-log access.log.gz --without '^/static' --to my-shop
    """
    from experiments.importers.access_log import read_access_log
    from experiments.importers.traffic import operations_of

    log = read_access_log(file, matching, without)
    origin = f"in {log.lines:,} lines"
    if log.broken:
        first = ", ".join(map(str, log.broken_at))
        origin += f"; {log.broken:,} are of another form, first {first}"
    times_s = _arrival_times(file, log.traffic, to) if trace else []
    _show(operations_of(log.traffic), to, as_json, origin, times_s)


def _arrival_times(file: Path, traffic: Traffic, to: Path | None) -> list[float]:
    if to is None:
        raise InputError("--trace", expected="--to beside it", got="none", hint="Give --to.")
    times_s = traffic.trace()
    if not times_s:
        raise InputError(
            str(file),
            expected="times of requests",
            got="none in any line",
            hint="Leave --trace out, and state rate_per_s.",
        )
    return times_s


def _show(
    imported: Imported, to: Path | None, as_json: bool, origin: str, times_s: Sequence[float] = ()
) -> None:
    from experiments.importers.load_section import operations_toml, write_load

    if to is not None:
        if not (to / "experiment.toml").is_file():
            from experiments.commands.init import make_design

            make_design(to)
            (to / "flags.csv").unlink(missing_ok=True)
        write_load(to, imported, times_s)
    if as_json:
        print_json({**imported.to_json(), "design": str(to) if to else None})
        return
    if to is None:
        print(operations_toml(imported.operations))
    console = out if to is not None else err
    summary = f"{imported.requests:,} requests {origin}: {len(imported.operations)} operations"
    say(_CONTROL.sub("?", summary), console)
    if to is not None:
        print_table(_table(imported))
    for line in _remarks(imported, to, times_s):
        say(_CONTROL.sub("?", line), console)


def _remarks(imported: Imported, to: Path | None, times_s: Sequence[float]) -> Iterator[str]:
    if len(imported.operations) > SHOWN and to is not None:
        yield f"and {len(imported.operations) - SHOWN} more"
    for label, counts in (("removed", imported.removed), ("left out", imported.left_out)):
        for name, count in sorted(counts.items(), key=lambda item: -item[1])[:SHOWN]:
            yield f"{label}: {name} ({count:,})"
        if len(counts) > SHOWN:
            yield f"{label}: {len(counts) - SHOWN:,} names more; --json has all"
    if times_s:
        yield f"{len(times_s):,} arrivals of {times_s[-1]:,.0f} s are in arrivals.csv"
    elif imported.rate_per_s is not None:
        busiest = imported.busiest_per_s
        rates = f"{imported.rate_per_s:.3g} times a second"
        if busiest is not None:
            rates += f", {busiest:.3g} in the busiest minute"
        yield f"asked {rates}; rate_per_s is yours to choose"
    if to is not None:
        yield f"{to}/experiment.toml asks these now: `sparecraft check {to}` reads it."
    elif imported.columns:
        yield "paths with ${...} need the values that --to writes into parameters.csv"


def _table(imported: Imported) -> Table:
    table = plain_table("operation", "share", "good answers")
    for operation in imported.operations[:SHOWN]:
        share = f"{operation.weight / imported.requests:.1%}"
        table.add_row(operation.name, share, operation.expect.replace('"', ""))
    return table
