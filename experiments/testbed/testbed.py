"""The testbed of a run: a fleet that is made, watched, restored and removed.

A kind (`experiments/kinds`) decides what is measured, and may need no fleet. Files to write are
registered with `keep`, and written at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from core.errors import SparecraftError
from core.runfiles import result
from core.runfiles.events import Event
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.design_files import FOLDER, copy_design_files
from experiments.design.inventory import Inventory
from experiments.record import manifest as manifests
from experiments.record.cost import account_of
from experiments.record.dose import DoseRow, dose_reasons, doses_json
from experiments.record.recorder import Clock, Recorder
from experiments.record.records import ARBITERS, HOSTS, write_json, write_table
from experiments.record.revert_time import revert_time_json
from experiments.record.telemetry import InfluxQuery, InfluxWriter, TelemetryStats
from experiments.testbed.faults import LEASE_S, Tally
from experiments.testbed.fleet import (
    check_capabilities,
    connect,
    disconnect,
    fingerprints,
    provision,
    revert_everything,
    wait_ready,
)
from experiments.testbed.guard import Stop, Stopped, stopped_json
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.monitor import Monitor
from experiments.testbed.platforms import Platform
from experiments.testbed.platforms.journal import Undoes
from experiments.testbed.schemes.running import watched_machines

_INFLUX_CLOSE_S = 15.0
_NOT_CHECKED = "the machines' fingerprints were not checked"
Keep = Callable[[Path], Mapping[str, Any] | None]


class Testbed:
    """One run's fleet, its clock, its verdicts and its folder.

    `design`, `folder`, `clock`, `platform`, `verdicts`, `tally` and `narrator` are there from the
    beginning; `fleet`, `recorder` and `monitor` once a fleet is ready.
    """

    __test__ = False  # no test of pytest

    fleet: Fleet
    recorder: Recorder
    monitor: Monitor

    def __init__(
        self,
        design: Design,
        folder: Path,
        platform: Platform,
        narrator: Narrator,
        command: Sequence[str],
        *,
        section: Mapping[str, Any] | None = None,
        quiet_wait_s: float = 0.0,
    ) -> None:
        """Parameters: folder, in which the run's own is made; section, which the manifest has
        beside the design; quiet_wait_s, how long a block may wait for a quiet host [s]."""
        self._started = datetime.now(UTC)
        self.run = self._started.strftime("%Y%m%dT%H%M%SZ")
        self.design = design
        self.folder = folder / self.run
        self.platform = platform
        self.narrator = narrator
        self.quiet_wait_s = quiet_wait_s
        self.clock = Clock(time.monotonic(), self._started)
        self.verdicts = manifests.Verdicts()
        self.tally = Tally()
        self._command = list(command)
        self._versions = manifests.versions()  # read now: later commits are not part of the run
        self._section = section
        self._file_writers: list[Keep] = []
        self.setup_s: dict[str, float] = {}
        self._inventory: Inventory | None = None
        self._connected: Fleet | None = None
        self._writer: InfluxWriter | None = None
        self._telemetry = TelemetryStats()
        self._influxdb_points = 0
        self._fingerprint_clean: bool | None = None
        self._hosts: pl.DataFrame | None = None
        self._applied = False
        self._arbiters_before: dict[str, Mapping[str, Any]] = {}
        self.is_removed = True  # also if there was never anything to remove
        self.stopped: result.Stopped | None = None

    @property
    def has_fleet(self) -> bool:
        """True once a fleet was requested; always False for a kind that needs none."""
        return self._applied

    def keep(self, write: Keep) -> None:
        """Register `write`, which is called with the folder at the end, however the run ends. It
        writes files, and returns keys for manifest.json, or None if nothing is worth keeping.
        """
        self._file_writers.append(write)

    # up

    def prepare(self) -> None:
        """Make a fleet that answers and can inject the design's faults; watch it and record its
        telemetry."""
        say = self.narrator
        design_folder = self.folder / FOLDER
        copy_design_files(self.design.directory, self.design.experiment.load, design_folder)
        began = time.monotonic()
        attached = self.platform.is_attached
        with say.step("Taking the fleet" if attached else "Provisioning (terraform apply)"):
            self.platform.check()
            self._applied = True
            self._inventory = provision(self.design, self.platform, say)
        self.setup_s["up"] = round(time.monotonic() - began, 2)
        self.fleet = self._connected = connect(self.platform, self._inventory)
        began = time.monotonic()
        with say.step("Waiting until every machine is ready"):
            wait_ready(self.fleet, self.design.roles, say)
        self.setup_s["ready"] = round(time.monotonic() - began, 2)
        if attached:
            arbiters = self.fleet.arbiters.items()
            self._arbiters_before = {tier: arbiter.config() for tier, arbiter in arbiters}
        check_capabilities(self.design, self.fleet)
        if isinstance(self.platform, Undoes):
            self.platform.journal.watch()
        self._watch()

    def _watch(self) -> None:
        inventory = self.fleet.inventory
        self._writer = InfluxWriter(self.fleet.influxdb, self.folder / "telemetry.lp")
        name = self.design.fleet.experiment
        account = account_of(manifests.spec_json(self.design), inventory.model_dump(mode="json"))
        self.recorder = Recorder(self.folder, self.clock, name, self.run, self._writer, account)
        heartbeat_watched = watched_machines(self.design, inventory)
        agents = {
            name: agent
            for name, agent in self.fleet.agents.items()
            if name not in heartbeat_watched
        }
        self.monitor = Monitor(
            self.fleet.arbiters, agents, self.recorder.arbiter, self._on_machine, self._on_restart
        )
        self.monitor.start()

    def _on_machine(self, name: str, alive: bool, text: str) -> None:
        action = "end" if alive else "start"
        self.recorder.event(
            time.monotonic(), what="machine", kind="lost", action=action, machine=name, text=text
        )
        if not alive:
            self.verdicts.measurement.fail(f"machine {name} was lost: {text}")
            self.narrator.say(f"machine {name} was lost", style="bold red")

    def _on_restart(self, tier: str) -> None:
        self.verdicts.measurement.fail(
            f"the arbiter of {tier} was started again: its arm's settings were gone"
        )

    def note_failure(self, error: BaseException) -> None:
        """Note the early end of the measurement as a verdict."""
        after_s = time.monotonic() - self.clock.monotonic
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        if isinstance(error, Stopped):
            reason = self._note_stop(error.stop)
        self.verdicts.measurement.fail(f"ended after {after_s:.0f} s: {reason}")

    def _note_stop(self, stop: Stop) -> str:
        """Note the stop, with the time until the faults were undone, and return its text."""
        events: list[Event] = []
        if self._writer is not None:
            events = self.recorder.events
            kind = stop.condition or stop.by
            self.recorder.event(
                stop.at_monotonic, what="guard", kind=kind, action="stop", text=stop.reason
            )
        self.stopped = stopped_json(stop, self.clock, events)
        return f"stopped by {stop.by}: {stop.reason}"

    # collection

    def collect(self) -> None:
        """Undo active faults, compare fingerprints, and take the data out of the fleet; a failure
        of one step does not stop the next."""
        with ExitStack() as cleanup:
            cleanup.callback(self._judge)
            if self._connected is not None:
                cleanup.enter_context(self.narrator.step("Reverting and collecting"))
                cleanup.callback(disconnect, self._connected)
                if self._writer is not None:
                    cleanup.callback(self._collect_telemetry, self._writer)
                self._revert(self._connected)

    def _revert(self, fleet: Fleet) -> None:
        if self._writer is not None:
            self.monitor.stop()
            if self.monitor.missed_polls:
                count = self.monitor.missed_polls
                self.narrator.detail(f"{count} polls of the arbiters went unanswered")
        for text in revert_everything(fleet):
            self.verdicts.revert.fail(text)
        for tier, config in self._arbiters_before.items():
            try:
                fleet.arbiters[tier].restore(config)
            except SparecraftError as error:
                self.verdicts.revert.fail(f"the arbiter of {tier} is not as it was: {error}")
        expected_losses = self.tally.struck | watched_machines(self.design, fleet.inventory)
        for machine in sorted(fleet.settings.lost - expected_losses):
            self.verdicts.measurement.fail(f"{machine} was without its arm's settings for a while")
        self._fingerprint_clean = fingerprints(fleet, self.verdicts.revert.fail)

    def _collect_telemetry(self, writer: InfluxWriter) -> None:
        reasons = [text for verdict in vars(self.verdicts).values() for text in verdict.reasons]
        reasons += self.tally.errors
        if self._fingerprint_clean is None:
            reasons.append(_NOT_CHECKED)
        self.recorder.verdict(time.monotonic(), "run", not reasons, reasons)
        self.recorder.close()
        self._telemetry = writer.close(_INFLUX_CLOSE_S)
        self._influxdb_points = self._telemetry.written
        query = InfluxQuery(self.fleet.influxdb)
        try:
            self._influxdb_points = sum(query.points(self.run).values())
            self._hosts = query.hosts(
                self.design.fleet.experiment,
                t0_ns=self.clock.ns_at(0.0),
                end_ns=self.clock.ns_at(self.clock.since_s(time.monotonic())),
            )
        except SparecraftError as error:
            self.narrator.detail(f"hosts.parquet is missing: {error}")
        finally:
            query.close()
        if self._telemetry.spooled:
            self.narrator.detail(
                f"{self._telemetry.spooled:,} points wait in telemetry.lp: "
                f"{self._telemetry.last_error}"
            )

    def _judge(self) -> None:
        tally, verdicts = self.tally, self.verdicts
        for error in tally.errors:
            verdict = verdicts.revert if ": revert:" in error else verdicts.injection
            verdict.fail(error)
        if tally.injected < tally.planned and not tally.errors:
            verdicts.injection.fail(f"{tally.injected} of {tally.planned} faults were injected")
        if self._connected is not None and self._fingerprint_clean is None:
            verdicts.revert.fail(_NOT_CHECKED)
        for reason in dose_reasons(self._doses()):
            verdicts.injection.fail(reason)
        if tally.reverted < tally.injected:
            verdicts.revert.fail(f"{tally.reverted} of {tally.injected} faults were reverted")
        if self._telemetry.lost or self._telemetry.rejected:
            verdicts.measurement.fail(
                f"telemetry: {self._telemetry.lost:,} points lost, "
                f"{self._telemetry.rejected} rejected: {self._telemetry.last_error}"
            )

    # down

    def remove(self, *, keep: bool) -> None:
        """Remove the fleet unless it is to stay, and look whether anything is left."""
        if not self._applied:
            return
        if self.platform.is_attached:
            self.narrator.say("The fleet stays as it was.")
            return
        if keep:
            name = self.design.fleet.experiment
            self.narrator.say(f"The fleet stays up; `sparecraft down {name}` removes it.")
            return
        self.is_removed = False
        with self.narrator.step("Removing the fleet (terraform destroy)"):
            swept = self.platform.down(self.narrator.detail)
        remaining = self.platform.remaining()
        for resource in remaining:
            self.verdicts.cleanup.fail(f"{resource} is still there")
        self.is_removed = not remaining
        for resource in swept:
            self.narrator.detail(f"swept {resource}")

    # files

    def write(self, *, cut_short: bool) -> bool:
        """Call the registered writers, and write manifest.json last; returns False if a run that
        was cut short has nothing to keep."""
        parts = [write(self.folder) for write in self._file_writers]
        if cut_short and not any(part is not None for part in parts):
            return False
        if self._writer is not None:
            write_table(self.folder / "arbiters.parquet", self.recorder.arbiters(), ARBITERS)
        if self._hosts is not None:
            write_table(self.folder / "hosts.parquet", self._hosts, HOSTS)
        body = self._manifest() | {"cut_short": cut_short}
        for part in parts:
            body |= part or {}
        write_json(self.folder / "manifest.json", body)
        return True

    def _manifest(self) -> dict[str, object]:
        return {
            "schema": manifests.SCHEMA,
            "experiment": self.design.fleet.experiment,
            "run": self.run,
            "platform": self.platform.name,
            "started_at": self._started.isoformat(),
            "ended_at": datetime.now(UTC).isoformat(),
            "seed": self.design.experiment.design.seed,
            "command": self._command,
            "versions": self._versions,
            "spec": manifests.spec_json(self.design, self._section),
            "infeasible": manifests.infeasible_json(self.design),
            "fleet": self._inventory and self._inventory.model_dump(mode="json"),
            "host": manifests.host(),
            "verdicts": self.verdicts.to_json(),
            "stopped": self.stopped,
            "undone": self._revert_times(),
            "doses": self._doses(),
            "setup_s": self.setup_s,
            "telemetry": {**vars(self._telemetry), "in_influxdb": self._influxdb_points},
            "fingerprint_clean": self._fingerprint_clean,
        }

    def _doses(self) -> list[DoseRow]:
        return [] if self._writer is None else doses_json(self.recorder.events)

    def _revert_times(self) -> dict[str, object] | None:
        if self._writer is None:
            return None
        return revert_time_json(self.recorder.events, self.stopped, LEASE_S)
