"""The life of a run on a fleet, whatever it measures: nothing is left behind, and nothing lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl

from experiments.errors import SparecraftError
from experiments.faults import Tally
from experiments.load.generator import LoadGenerator, remote_workers
from experiments.load.saturation import lost_text
from experiments.load.users import USERS, Population
from experiments.platform import Inventory, LocalPlatform, Platform
from experiments.records import (
    ARBITERS,
    HOSTS,
    REQUESTS,
    write_bytes,
    write_json,
    write_table,
)
from experiments.runner import manifest as manifests
from experiments.runner.block import BlockRun, close, revert_everything
from experiments.runner.console import Narrator
from experiments.runner.fleet import (
    check_capabilities,
    connect,
    fingerprints,
    provision,
    wait_ready,
)
from experiments.runner.live_fleet import Fleet
from experiments.runner.lock import run_lock
from experiments.runner.monitor import Monitor
from experiments.runner.recorder import Clock, Recorder
from experiments.runner.schemes import watched
from experiments.runner.signals import ending_signals
from experiments.spec import Design
from experiments.telemetry import InfluxQuery, InfluxWriter, TelemetryStats

_INFLUX_CLOSE_S = 15.0


@dataclass(frozen=True)
class Kept:
    """What a run left, whatever it was for."""

    folder: Path


T = TypeVar("T", bound=Kept)


class Interrupted(SparecraftError):
    """Ctrl-C or SIGTERM; the exit code is the shell's for SIGINT."""

    exit_code = 130


def carry_out(run: LiveRun[T], results: Path, *, keep: bool) -> T:
    """The life of a run on a fleet. Raises what ended it early, after clean-up and with the data
    kept."""
    name = run.design.fleet.experiment
    with run_lock(results, name), ending_signals(run.narrator.say) as signals:
        failure: BaseException | None = None
        try:
            run.prepare()
            run.measure()
        except BaseException as error:  # raised again below, once nothing is left behind
            failure = error
            run.failed(error)
        signals.shield()
        run.collect()
        run.remove(keep=keep and failure is None)
        outcome = run.conclude()
        if isinstance(failure, KeyboardInterrupt):
            raise run.interrupted(outcome) from None
        if failure is not None:
            raise failure
        if outcome is None:
            raise run.errors[0]
        return outcome


class LiveRun(Generic[T]):
    """A fleet that is made, watched and removed; what is measured on it is the subclass's."""

    def __init__(
        self,
        design: Design,
        folder: Path,
        command: Sequence[str],
        narrator: Narrator,
        platform: Platform | None = None,
    ) -> None:
        """`platform` None: this host."""
        self.design = design
        self.errors: list[SparecraftError] = []
        self._command = list(command)
        self.narrator = narrator
        self._started = datetime.now(UTC)
        self._clock = Clock(time.monotonic(), self._started)
        self._run = self._started.strftime("%Y%m%dT%H%M%SZ")
        self._folder = folder / self._run
        self._platform: Platform = platform or LocalPlatform(design.fleet.experiment)
        self._verdicts = manifests.Verdicts()
        self._tally = Tally()
        self._setup_s: dict[str, float] = {}
        self._inventory: Inventory | None = None
        self._fleet: Fleet | None = None
        self._writer: InfluxWriter | None = None
        self._recorder: Recorder | None = None
        self._monitor: Monitor | None = None
        self._blocks: BlockRun | None = None
        self._telemetry = TelemetryStats()
        self._influx_points = 0
        self._fingerprint_clean: bool | None = None
        self._hosts: pl.DataFrame | None = None
        self._applied = False

    # up

    def prepare(self) -> None:
        """A fleet that answers, watched, with its telemetry on."""
        say = self.narrator
        self._folder.mkdir(parents=True)
        if self.design.prediction is not None:
            plan = (self.design.directory / "plan.json").read_bytes()
            write_bytes(self._folder / "predicted.json", plan)
        began = time.monotonic()
        with say.step("Provisioning (terraform apply)"):
            self._platform.check()
            self._applied = True
            self._inventory = provision(self.design, self._platform, say)
        self._setup_s["up"] = round(time.monotonic() - began, 2)
        self._fleet = connect(self._platform, self._inventory)
        began = time.monotonic()
        with say.step("Waiting until every machine is ready"):
            wait_ready(self._fleet, say)
        self._setup_s["ready"] = round(time.monotonic() - began, 2)
        check_capabilities(self.design, self._fleet)
        self._watch(self._fleet)

    def _watch(self, fleet: Fleet) -> None:
        url = fleet.inventory.endpoints.influxdb
        self._writer = InfluxWriter(url, self._folder / "telemetry.lp")
        self._recorder = Recorder(
            self._folder, self._clock, self.design.fleet.experiment, self._run, self._writer
        )
        others = watched(self.design, fleet.inventory)
        agents = {name: agent for name, agent in fleet.agents.items() if name not in others}
        self._monitor = Monitor(fleet.arbiters, agents, self._recorder.arbiter, self._on_machine)
        self._monitor.start()

    def measure(self) -> None:
        """Everything that needs the fleet."""
        raise NotImplementedError

    def _block_run(self, quiet_wait_s: float = 0.0) -> tuple[BlockRun, Population]:
        """What runs blocks on the fleet, and what they ask for."""
        assert self._fleet is not None  # prepare() has made these
        assert self._recorder is not None
        assert self._monitor is not None
        workers = self.design.experiment.load.workers
        waiting = self._platform.load_helpers() if workers > 1 else 0
        generator = LoadGenerator(
            self._folder / "load",
            t0_monotonic_s=self._clock.monotonic,
            remote=remote_workers(workers, waiting),
        )
        self._blocks = BlockRun(
            self.design,
            self._fleet,
            self._recorder,
            self._monitor,
            generator,
            self._tally,
            quiet_wait_s,
        )
        self._setup_s["warm_up"] = self.design.experiment.phases.warm_up
        return self._blocks, USERS[self.design.experiment.load.user]()

    def failed(self, error: BaseException) -> None:
        """What ended the measurement early, as a verdict."""
        after_s = time.monotonic() - self._clock.monotonic
        what = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        self._verdicts.measurement.fail(f"ended after {after_s:.0f} s: {what}")

    def interrupted(self, outcome: T | None) -> Interrupted:
        """The message for a run that was ended by hand."""
        kept = f"What was measured is in {outcome.folder}." if outcome else "Nothing was measured."
        return Interrupted(
            f"run {self._run} of {self.design.fleet.experiment}",
            expected="to reach its end",
            came="an interrupt",
            do=f"Faults were reverted and the fleet was removed. {kept}",
        )

    # collection

    def collect(self) -> None:
        """Undo what is active, compare fingerprints, and take the data out of the fleet."""
        if self._fleet is not None:
            with self.narrator.step("Reverting and collecting"):
                self._revert(self._fleet)
                if self._recorder is not None:
                    self._collect_telemetry(self._fleet)
                close(self._fleet)
        self._judge()

    def _revert(self, fleet: Fleet) -> None:
        if self._monitor is not None:
            self._monitor.stop()
            if self._monitor.missed_polls:
                missed = self._monitor.missed_polls
                self.narrator.detail(f"{missed} polls of the arbiters went unanswered")
        for text in revert_everything(fleet):
            self._verdicts.revert.fail(text)
        note = self._verdicts.revert.fail
        self._fingerprint_clean = fingerprints(fleet, note)

    def _collect_telemetry(self, fleet: Fleet) -> None:
        assert self._writer is not None
        assert self._recorder is not None
        self._recorder.close()
        self._telemetry = self._writer.close(_INFLUX_CLOSE_S)
        self._influx_points = self._telemetry.written
        query = InfluxQuery(fleet.inventory.endpoints.influxdb)
        try:
            self._influx_points = sum(query.points(self._run).values())
            self._hosts = query.hosts(
                self.design.fleet.experiment,
                t0_ns=self._clock.ns_at(0.0),
                end_ns=self._clock.ns_at(self._clock.since_s(time.monotonic())),
            )
        except SparecraftError as error:
            self.narrator.detail(f"hosts.parquet is missing: {error}")
        finally:
            query.close()
        if self._telemetry.spooled:
            self.narrator.detail(
                f"{self._telemetry.spooled} points wait in telemetry.lp: "
                f"{self._telemetry.last_error}"
            )

    def _on_machine(self, name: str, alive: bool, text: str) -> None:
        assert self._recorder is not None
        action = "end" if alive else "start"
        self._recorder.event(
            time.monotonic(), what="machine", kind="lost", action=action, machine=name, text=text
        )
        if not alive:
            self._verdicts.measurement.fail(f"machine {name} was lost: {text}")
            self.narrator.say(f"[bold red]machine {name} was lost[/bold red]")

    def _judge(self) -> None:
        tally, verdicts = self._tally, self._verdicts
        for error in tally.errors:
            verdict = verdicts.revert if ": revert:" in error else verdicts.injection
            verdict.fail(error)
        if tally.injected < tally.planned and not tally.errors:
            verdicts.injection.fail(f"{tally.injected} of {tally.planned} were injected")
        if tally.reverted < tally.injected:
            verdicts.revert.fail(f"{tally.reverted} of {tally.injected} were reverted")
        if self._telemetry.lost or self._telemetry.rejected:
            verdicts.measurement.fail(
                f"telemetry: {self._telemetry.lost} points lost, "
                f"{self._telemetry.rejected} rejected: {self._telemetry.last_error}"
            )

    # down

    def remove(self, *, keep: bool) -> None:
        """Remove the fleet unless it is to stay, and look whether anything is left."""
        if keep or not self._applied:
            if keep:
                name = self.design.fleet.experiment
                self.narrator.say(f"The fleet stays up; `sparecraft down {name}` removes it.")
            return
        try:
            with self.narrator.step("Removing the fleet (terraform destroy)"):
                swept = self._platform.down(self.narrator.detail)
            left = self._platform.left()
        except SparecraftError as error:
            self._verdicts.cleanup.fail(str(error))
            self.errors.append(error)
            return
        for thing in left:
            self._verdicts.cleanup.fail(f"{thing} is still there")
        for thing in swept:
            self.narrator.detail(f"swept {thing}")

    # results

    def conclude(self) -> T | None:
        """Write everything that was measured; None when there was nothing, or it could not be."""
        if self._blocks is None or not self._blocks.handles:
            shutil.rmtree(self._folder, ignore_errors=True)
            return None
        try:
            with self.narrator.step("Writing results and report"):
                outcome = self._write()
                shutil.rmtree(self._folder / "load")  # its content is in requests.parquet
                _point_latest(self._folder)
                return outcome
        except SparecraftError as error:
            self.errors.append(error)
            self.narrator.say(f"[bold red]error[/bold red] {error}")
            return None

    def _write(self) -> T:
        """Write the run's files; `_write_records` writes those of every run."""
        raise NotImplementedError

    def _write_records(self) -> tuple[pl.DataFrame, dict[str, Any], pl.DataFrame]:
        """Manifest, requests, arbiters and hosts; returns requests, manifest and arbiters."""
        assert self._recorder is not None
        requests, arbiters = self._requests(), self._recorder.arbiters()
        body = self._manifest(requests)
        write_json(self._folder / "manifest.json", body)
        write_table(self._folder / "requests.parquet", requests, REQUESTS)
        write_table(self._folder / "arbiters.parquet", arbiters, ARBITERS)
        if self._hosts is not None:
            write_table(self._folder / "hosts.parquet", self._hosts, HOSTS)
        if self._blocks is not None and self._blocks.spoiled:
            spoiled = pl.concat([handle.records() for handle in self._blocks.spoiled])
            write_table(self._folder / "spoiled.parquet", spoiled, REQUESTS)
        return requests, body, arbiters

    def _requests(self) -> pl.DataFrame:
        assert self._blocks is not None
        frames = [handle.records() for handle in self._blocks.handles]
        return pl.concat(frames) if frames else pl.DataFrame(schema=REQUESTS)

    def _manifest(self, requests: pl.DataFrame) -> dict[str, Any]:
        load = self._load_json(requests)
        return {
            "schema": manifests.SCHEMA,
            "experiment": self.design.fleet.experiment,
            "run": self._run,
            "platform": self._platform.name,
            "started_at": self._started.isoformat(),
            "ended_at": datetime.now(UTC).isoformat(),
            "seed": self.design.experiment.design.seed,
            "command": self._command,
            "versions": manifests.versions(),
            "spec": manifests.spec_json(self.design),
            "fleet": manifests.fleet_json(self._inventory),
            "host": {
                **manifests.host(),
                "blocks": [vars(block) for block in self._blocks.host] if self._blocks else [],
            },
            "load": load,
            "verdicts": self._verdicts.to_json(),
            "setup_s": self._setup_s,
            "telemetry": {**vars(self._telemetry)},
        }

    def _load_json(self, requests: pl.DataFrame) -> dict[str, Any]:
        """The load's workers, block by block; a request lost with one fails the measurement."""
        blocks = []
        for handle in self._blocks.handles if self._blocks else ():
            plan = handle.plan
            blocks.append({"repeat": plan.repeat, "arm": plan.arm, "workers": handle.workers})
            if lost := lost_text(requests.filter(repeat=plan.repeat), handle.workers):
                self._verdicts.measurement.fail(f"block {plan.repeat + 1}, {plan.arm}: {lost}")
        return {"blocks": blocks}


def _point_latest(folder: Path) -> None:
    """results/EXPERIMENT/latest -> RUN, replaced in one step."""
    link = folder.parent / "latest"
    new = folder.parent / ".latest.new"
    new.unlink(missing_ok=True)
    new.symlink_to(folder.name, target_is_directory=True)
    new.replace(link)
