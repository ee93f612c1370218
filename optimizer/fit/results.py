"""A results folder: its files and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.runfiles.events import (
    Event,
    Window,
    of_kind,
    read_events,
    run_end_s,
    windows,
    without_discarded,
)
from core.runfiles.manifest import against_run, read_manifest
from optimizer.fit.failovers import NONE, Failovers, failovers
from optimizer.fit.manifest_form import SpecForm, form_of
from optimizer.fit.spec import TierSettings, TierSpec, arms_of, tiers_of

if TYPE_CHECKING:
    import polars as pl

_REQUESTS = ("arm", "repeat", "phase", "name", "intended_s", "done_s", "latency_ms", "outcome")
_ARBITERS = (
    *("time_s", "tier", "protocol", "policy", "replicas", "server", "requests", "last_latency_us"),
    *("latency_us_sum", "latency_count", "received", "reads", "reads_of_one", "writes"),
    *("tokens_in_use", "client_accepted"),
)
_NO_RUN = "Name a run's folder: `sparecraft list` shows them."
_HOSTS = ("time_s", "machine", "tier", "cpu_percent", "cpu_cores", "net_rx_mbps", "net_tx_mbps")


@dataclass(frozen=True)
class Results:
    """The content of a results folder, with the columns that the fit needs."""

    manifest: Mapping[str, Any]
    requests: pl.DataFrame
    arbiters: pl.DataFrame
    hosts: pl.DataFrame
    interference: tuple[Window, ...]
    faults: tuple[Window, ...]
    tiers: tuple[TierSpec, ...]  # from the front to the back
    arms: Mapping[str, Mapping[str, TierSettings]]
    failovers: Failovers = NONE
    against: str = ""  # why nothing may be concluded from the run

    def settings(self, arm: str, tier: str) -> TierSettings:
        return self.arms.get(arm, {}).get(tier, TierSettings())


def read_results(run_dir: Path) -> Results:
    """Read `run_dir`. Raises InputError with the file, key or column that is missing or damaged."""
    if not run_dir.is_dir():
        raise InputError(
            str(run_dir),
            expected="a results folder",
            got="nothing there",
            hint="Run the design first.",
        )
    manifest = read_manifest(run_dir)
    form = form_of(manifest, run_dir)
    _check_fleet(run_dir, form.spec or SpecForm())
    requests = _table(run_dir / "requests.parquet", _REQUESTS)
    events = without_discarded(_events(run_dir / "events.jsonl"))
    spans = windows(events, run_end_s(requests, events, manifest))
    return Results(
        manifest=manifest,
        requests=requests,
        arbiters=_table(run_dir / "arbiters.parquet", _ARBITERS),
        hosts=_table(run_dir / "hosts.parquet", _HOSTS),
        interference=tuple(of_kind(spans, "interference")),
        faults=tuple(of_kind(spans, "fault")),
        tiers=tiers_of(form),
        arms=arms_of(form),
        failovers=failovers(events),
        against=against_run(run_dir),
    )


def _check_fleet(run_dir: Path, spec: SpecForm) -> None:
    """Raise InputError for a run on somebody else's service, and for a load that changes with time,
    because the models assume a steady rate."""
    if spec.load is not None and (spec.load.stages or spec.load.trace):
        raise InputError(
            str(run_dir),
            expected="a run at a steady rate, which a plan is made for",
            got="one whose load had stages" if spec.load.stages else "one of a trace",
            hint="Run it at the rate that the fleet is to carry.",
        )
    if spec.endpoint is not None:
        raise InputError(
            str(run_dir),
            expected="a run that measured a fleet, with agents and arbiters",
            got=f"one that asked {spec.endpoint.host} from outside: no CPU, no figures of servers",
            hint="Run the load on a fleet of the design's own, or plan by `--input plan.toml`.",
        )


def _table(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    if not path.is_file():
        raise InputError(
            str(path),
            expected="a table of the run",
            got="no such file",
            hint="The run did not get that far; run the design again.",
        )
    try:
        table = pl.read_parquet(path)
    except Exception as error:  # polars has no common base for damaged files
        raise InputError(
            str(path), expected="a Parquet file", got=str(error), hint=_NO_RUN
        ) from error
    for column in columns:
        if column not in table.columns:
            raise InputError(
                f"{path.name}: {column}",
                expected="this column",
                got="only " + ", ".join(table.columns),
                hint=_NO_RUN,
            )
    return table


def _events(path: Path) -> list[Event]:
    """Return the run's events. Without any, disturbed time would count as undisturbed."""
    events = read_events(path)
    if not events:  # a run without neighbours has events too: its arms and phases
        hint = "Run the design again: without them nobody knows what was undisturbed."
        raise InputError(str(path), expected="the run's events", got="none", hint=hint)
    return events
