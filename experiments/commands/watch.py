"""`sparecraft watch`: the content of Grafana's dashboard, in a terminal or as a page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import EnvironmentMissing, InputError, in_words
from core.terminal import JsonOption, out, print_json, say
from experiments.commands.on_platform import Chosen
from experiments.commands.options import InfluxOption

if TYPE_CHECKING:
    from experiments.watch.snapshot import Snapshot, Watcher

_REFRESH_S = 5.0
_GONE_AFTER = 3  # requests in a row without an answer


def watch(
    chosen: Chosen,
    experiment: Annotated[
        str | None, typer.Argument(help="An experiment's name; without one, the fleet that is up.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="A run; default: the newest.")] = None,
    influxdb: InfluxOption = None,
    page: Annotated[
        bool, typer.Option("--page", help="Serve a page with charts, on 127.0.0.1.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0: a free one.")
    ] = 0,
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot, then end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Watch a run: latency per arm beside the SLO, burn rates, errors, active faults, cost.

    The values are those of the Grafana dashboard, by the same queries. --json prints one snapshot.
    With --influxdb it shows what `sparecraft replay` loaded.

    Example: sparecraft watch mediawiki-noisy --page
    """
    from experiments.testbed.signals import ending_signals
    from experiments.watch.snapshot import Watcher
    from grafana.influx import Influx

    url = influxdb or _influxdb_of(chosen, experiment)
    with _explain_errors(url), Influx(url, "sparecraft") as influx, ending_signals(lambda _: None):
        watcher = Watcher(influx, experiment, run)
        if as_json:
            print_json(_full_snapshot(watcher))
        elif page:
            _serve(watcher, port)
        else:
            _follow(watcher, once)


def _full_snapshot(watcher: Watcher) -> Snapshot:
    from experiments.watch.panels import panels

    snapshot = watcher.take()
    return {**snapshot, "panels": panels(watcher, snapshot)}


def _follow(watcher: Watcher, once: bool) -> None:
    """Refresh the terminal until Ctrl-C, or until InfluxDB does not answer `_GONE_AFTER` times."""
    import httpx
    from rich.live import Live

    from experiments.watch.terminal import render

    first = render(watcher.take(), out.width)
    if once:
        out.print(first)
        return
    failures = 0
    with suppress(KeyboardInterrupt), Live(first, console=out, auto_refresh=False) as live:
        while failures < _GONE_AFTER:
            time.sleep(_REFRESH_S)
            try:
                live.update(render(watcher.take(), out.width), refresh=True)
                failures = 0
            except httpx.TransportError:
                failures += 1
    if failures:
        out.print("InfluxDB no longer answers: the run is over, or its fleet is gone.")
        out.print("`sparecraft report --path` prints the path of the report.")


def _serve(watcher: Watcher, port: int) -> None:
    from experiments.watch.page import Page

    watcher.take()  # an error is raised here, not in the page
    try:
        server = Page(port, lambda: _full_snapshot(watcher), _REFRESH_S / 2)
    except OSError as error:
        raise EnvironmentMissing(
            f"port {port} of 127.0.0.1",
            expected="to be free",
            got=str(error),
            hint="Give another --port, or none.",
        ) from error
    with suppress(KeyboardInterrupt), server:  # already while the address is printed
        say(f"{server.url}  (until Ctrl-C)")
        server.serve_forever()


@contextmanager
def _explain_errors(url: str) -> Iterator[None]:
    """Raise InfluxDB's errors, and a missing answer, as errors of ours."""
    import httpx

    from grafana.address import without_login
    from grafana.influx import NoRunError, QueryError
    from grafana.macros import MacroError

    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise EnvironmentMissing(
            f"InfluxDB at {without_login(url)}",
            expected="an answer",
            got=in_words(error),
            hint="`sparecraft list` shows the fleets that are up; `sparecraft replay RUN` shows a "
            "run that is over.",
        ) from error
    except NoRunError as error:
        raise InputError(
            f"InfluxDB at {without_login(url)}",
            expected="requests of that run",
            got=str(error),
            hint="A run that has just begun has none yet: try again. "
            f"`sparecraft replay RUN --influxdb {without_login(url)}` loads one that is over.",
        ) from error
    except (QueryError, MacroError) as error:
        raise InputError(
            f"InfluxDB at {without_login(url)}",
            expected="answers to the dashboard's queries",
            got=str(error),
            hint="Where it asks for a name, put it into the address: http://USER:PASSWORD@HOST:8086",
        ) from error


def _influxdb_of(chosen: Chosen, experiment: str | None) -> str:
    """Return the URL of the InfluxDB of the fleet that is up. Raises EnvironmentMissing without
    a fleet.
    """
    experiments = chosen.entry.experiments()
    if experiment is None and len(experiments) > 1:
        raise InputError(
            "sparecraft watch",
            expected="the name of one of the fleets that are up",
            got=f"none, of {', '.join(experiments)}",
            hint=f"Say which: sparecraft watch {experiments[0]}",
        )
    name = experiment or next(iter(experiments), None)
    if name not in experiments:
        raise EnvironmentMissing(
            f"sparecraft watch {name}" if name else "sparecraft watch",
            expected="a fleet of that name that is up" if name else "a fleet that is up",
            got=f"only {', '.join(experiments)}" if experiments else "none that was made from here",
            hint="`sparecraft run NAME` starts one; `sparecraft replay results/NAME/latest` shows "
            "a "
            "run that is over.",
        )
    assert name is not None
    platform = chosen.entry.for_down(name, chosen.options)
    return platform.identity().influxdb(platform.inventory())
