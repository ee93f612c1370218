"""`sparecraft replay`: load a finished run, or nights, into an InfluxDB for Grafana and `watch`."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InputError
from core.runfiles.folder import run_folder
from core.terminal import JsonOption, err, out, print_json, say
from experiments.commands.options import InfluxOption, run_folders
from experiments.console import Narrator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.record.telemetry import Point


@dataclass(frozen=True)
class _Replay:
    """A replayed run or folder of nights, and the way to view it."""

    label: str
    points: Iterable[Point]
    grafana: str
    watch: str


def replay(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|NIGHTS",
            help="A run: results/EXPERIMENT/RUN; an experiment's name, for its latest run; or a "
            "suite's folder of nights.",
            autocompletion=run_folders,
        ),
    ],
    influxdb: InfluxOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a finished run, or the history of nights, into an InfluxDB, for Grafana and `watch`.

    Without --influxdb one is started on loopback with a temporary folder, until Ctrl-C. Loading the
    same data again changes nothing.

    Example: sparecraft replay results/mediawiki-noisy/latest
    """
    from experiments.record.telemetry.bulk import deliver
    from experiments.testbed.signals import ending_signals
    from grafana.address import without_login

    source = _find_replay(folder)
    narrator = Narrator(err if as_json else out)
    with ending_signals(lambda _: None), _server(influxdb) as url:
        public_url = without_login(url)
        with narrator.step(f"Loading {source.label} into {public_url}"):
            count = deliver(url, source.points)
        watch = f"sparecraft watch {source.watch} --influxdb {public_url}" if source.watch else None
        if as_json:
            grafana = source.grafana
            print_json(
                {"influxdb": public_url, "points": count, "grafana": grafana, "watch": watch}
            )
        else:
            lines = [f"{count:,} points loaded"]
            lines += [f"Terminal: {watch}", f"Browser:  {watch} --page"] if watch else []
            lines += [f"Grafana, with INFLUXDB_URL={public_url}: {source.grafana}"]
            for line in lines:
                say(line)
        if influxdb is None:
            with suppress(KeyboardInterrupt):
                narrator.say("InfluxDB runs until Ctrl-C.")
                while True:
                    signal.pause()


def _find_replay(folder: Path) -> _Replay:
    from experiments.nightly.history import FILE, read_history
    from experiments.nightly.points import night_points
    from experiments.record.replayed import replayed
    from grafana.queries import run_path
    from grafana.queries_nights import UID as NIGHTS_UID

    if (folder / FILE).is_file():
        history = read_history(folder)
        label = f"{len(history.nights)} nights"
        return _Replay(label, night_points(history), f"/d/{NIGHTS_UID}", "")
    folder = run_folder(folder)
    if not (folder / "manifest.json").is_file():
        raise InputError(
            str(folder),
            expected=f"the folder of a run, with its manifest.json, or of nights, with {FILE}",
            got="a folder without them" if folder.is_dir() else "no such folder",
            hint="`sparecraft list` shows the runs.",
        )
    run = replayed(folder)
    name, run_name = run.names["experiment"], run.names["run"]
    path = run_path(name, run_name, *(round(ns / 1e6) for ns in run.span_ns()))
    return _Replay(f"run {run_name} of {name}", run.points(), path, f"{name} --run {run_name}")


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    """Yield the InfluxDB at `url`; without one, start our own, which ends with the block."""
    from experiments.record.telemetry.local import LocalInflux

    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="sparecraft-replay-") as folder:
        server = LocalInflux(Path(folder))
        try:
            server.start()
            yield server.url
        finally:
            server.kill()
