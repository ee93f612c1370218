"""`sparecraft nightly`: run a suite of designs, keep the results and show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.terminal import JsonOption, err, out, print_json, say
from experiments.commands.options import InfluxOption
from experiments.console import Narrator

if TYPE_CHECKING:
    from experiments.nightly.night import Outcome


def nightly(
    suite: Annotated[Path, typer.Option("--suite", help="File of the suite.")] = Path(
        "nightly.toml"
    ),
    site_only: Annotated[
        bool, typer.Option("--site-only", help="Run nothing; make the site from the kept results.")
    ] = False,
    influxdb: InfluxOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a suite of designs for one night, keep its results, and make a site of all nights.

    Exit codes: 0 done; 1 an SLO was missed, a plan broke its promise or a change was found; 3 no
    run was valid, or another night or run is under way; 4 a design was not valid, was left out or
    cannot be read (an SLO may have been missed too: see the site). With --influxdb the whole
    history is also written there, for Grafana's dashboard of nights.

    Example: sparecraft nightly --suite nightly.toml
    """
    from experiments.nightly.night import nightly as run_night
    from experiments.nightly.site import build_site
    from experiments.nightly.suite import load_suite

    night_suite = load_suite(suite)
    if site_only:
        page = build_site(night_suite)
        _send_history(influxdb, night_suite.folder)
        print_json({"site": str(page)}) if as_json else _print_path(page)
        return
    _send_history(influxdb, night_suite.folder)  # an InfluxDB that refuses fails before the night
    outcome = run_night(night_suite, Narrator(err if as_json else out))
    _send_history(influxdb, night_suite.folder)
    if as_json:
        print_json(_body(outcome))
    else:
        _print(outcome)
    raise typer.Exit(outcome.exit_code)


def _send_history(influxdb: str | None, folder: Path) -> None:
    from experiments.nightly.history import read_history
    from experiments.nightly.points import night_points
    from experiments.record.telemetry.bulk import deliver

    if influxdb is not None:
        deliver(influxdb, night_points(read_history(folder)))


def _body(outcome: Outcome) -> dict[str, object]:
    from experiments.nightly.history import missed

    return {
        "night": outcome.night,
        "runs": [run.model_dump(mode="json", by_alias=True) for run in outcome.runs],
        "missed": missed(outcome.runs),
        "broken": outcome.broken,
        "changes": [change.identity for change in outcome.changes],
        "left_out": outcome.left_out,
        "incomplete": dict(outcome.incomplete),
        "site": str(outcome.site),
    }


def _print(outcome: Outcome) -> None:
    from experiments.nightly.history import missed
    from experiments.nightly.words import change_words

    heads = {run.number: run for run in outcome.runs}.values()
    valid = sum(run.valid for run in heads)
    disturbed = sum(run.disturbed for run in heads)
    others = f", {disturbed} disturbed by others on the host" if disturbed else ""
    lines = [f"night {outcome.night}: {valid} of {len(heads)} runs valid{others}"]
    missed_runs = missed(outcome.runs)
    lines += [f"SLO missed: {', '.join(missed_runs)}"] if missed_runs else []
    lines += [f"promise broken: {', '.join(outcome.broken)}"] if outcome.broken else []
    lines += [f"changed: {change.entry}, {change_words(change)}" for change in outcome.changes]
    lines += [f"incomplete: {name}, {reason}" for name, reason in outcome.incomplete.items()]
    for line in lines:
        say(line)
    _print_path(outcome.site)


def _print_path(page: Path) -> None:
    say(f"Site: {page}")
