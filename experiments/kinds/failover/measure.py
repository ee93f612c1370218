"""The blocks on the fleet: each arm under each fault with each number of clients.

Their order is random, so that a drift of the host is not mistaken for an effect of an arm.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypedDict

import polars as pl

from core.errors import MeasurementFailed
from core.runfiles.manifest import Manifest
from experiments.design.experiment import Experiment
from experiments.design.injections import Step
from experiments.design.inventory import Machine
from experiments.design.schedule import Block, blocks, stream
from experiments.kinds.failover.client import INVOCATIONS, Client, plan_of, read_records
from experiments.kinds.failover.section import FailoverSection, Strike
from experiments.kinds.failover.service import Happened, Service, adapter_of
from experiments.record import manifest as manifests
from experiments.record.records import write_json, write_table
from experiments.run.active_fault import active_fault
from experiments.testbed.host import HostBlock, HostWatch
from experiments.testbed.settings import configure
from experiments.testbed.testbed import Testbed

INVOCATIONS_FILE = "invocations.parquet"
HISTORY_FILE = "history.json"
STRIKES_FILE = "strikes.json"
_LOOK_S = 0.02  # at the replication manager's orders
_ALL_S = 60.0  # until all servers are registered


class BlockRecord(TypedDict):
    arm: str
    fault: str
    clients: int
    block: int
    audit: dict[str, int] | None


class FailoverManifest(Manifest, total=False):
    blocks: list[BlockRecord]


class StrikeRecord(TypedDict):
    """Times of a strike, on the run's clock [s]."""

    block: int
    server: str
    asked_s: float
    since_s: float
    ended_s: float


class Blocks:
    """Measures the blocks; `testbed.keep` writes all data, however the run ends."""

    def __init__(self, testbed: Testbed, section: FailoverSection) -> None:
        self._testbed = testbed
        self._section = section
        self._work = testbed.folder / "clients"
        self._records: list[BlockRecord] = []
        self._strikes: list[StrikeRecord] = []
        self._history: list[Happened] = []
        self._host: list[HostBlock] = []
        self._service = _load_service(testbed, section)
        testbed.keep(self._write)

    def measure(self) -> None:
        self._work.mkdir()
        try:
            for block, fault, clients in cells(self._testbed.design.experiment, self._section):
                self._measure_block(block, fault, clients)
        finally:
            self._testbed.recorder.block = None

    def _measure_block(self, block: Block, fault: Strike, clients: int) -> None:
        testbed, section = self._testbed, self._section
        with testbed.narrator.step(f"{block.arm}: {fault.name}, {clients} clients"):
            testbed.recorder.block = block
            configure(testbed.design, block.arm, testbed.fleet)
            self._await_all()
            stem = self._work / f"{block.repeat:03d}"
            plan, records = stem.with_suffix(".plan.json"), stem.with_suffix(".jsonl")
            strategy = section.strategies[block.arm]
            write_json(plan, plan_of(self._service.plan_view(), clients, strategy, section))
            record: BlockRecord = {
                "arm": block.arm, "fault": fault.name, "clients": clients, "block": block.repeat,
                "audit": None,
            }  # fmt: skip
            self._records.append(record)
            watch = HostWatch(testbed.fleet.platform.cpu_s)
            client = Client(self._service.command(plan, records), stem.with_suffix(".log"))
            try:
                client.await_first_reply()
                self._strike_all(block, fault, client)
                client.finish()
                record["audit"] = dict(self._service.audit(records))
                self._history = list(self._service.history())
            finally:
                client.close()
                self._host.append(watch.block(block))

    def _strike_all(self, block: Block, fault: Strike, client: Client) -> None:
        """Make one strike after the other, each in time, or once all servers are registered again
        and clients have had `warm_up_s` to find theirs."""
        calm_s = time.monotonic()
        begin_s = calm_s + self._section.warm_up_s
        for number, delay_s in enumerate(delays_s(block, self._section)):
            _sleep_until(begin_s + number * self._section.every_s)
            if self._missing():
                self._await_all()
                calm_s = time.monotonic()
            _sleep_until(calm_s + self._section.warm_up_s)
            time.sleep(delay_s)
            self._strike(block, fault, self._targets(fault, number, client))
            calm_s = time.monotonic()
        time.sleep(self._section.every_s)

    def _targets(self, fault: Strike, number: int, client: Client) -> tuple[str, ...]:
        """Return the machines to strike: those of another tier in turn, or the server in use and
        others beside it."""
        nodes = self._testbed.design.fleet.nodes_of(fault.tier or self._section.tier)
        if fault.tier is not None:
            return (nodes[number % len(nodes)],)
        other_nodes = [node for node in nodes if node != client.in_use]
        return (client.in_use, *other_nodes[: fault.servers - 1])

    def _strike(self, block: Block, fault: Strike, servers: Sequence[str]) -> None:
        """Strike these servers for the fault's length, or until others are ordered for them."""
        self._fulfil(servers)  # an earlier order does not belong to this strike

        # The agent kills, then answers: clients feel the strike before its answer.
        asked_at = time.monotonic()
        steps = [Step(fault.kind, server, fault.parameters) for server in servers]
        with active_fault(self._testbed, *steps) as since_at:
            if fault.for_s is not None:
                time.sleep(fault.for_s)
            else:
                self._await_orders(servers)
            ended_at = time.monotonic()
        self._fulfil(servers)
        t0 = self._testbed.clock.monotonic
        self._strikes.append({
            "block": block.repeat, "server": servers[0], "asked_s": asked_at - t0,
            "since_s": since_at - t0, "ended_s": ended_at - t0,
        })  # fmt: skip

    def _fulfil(self, servers: Sequence[str]) -> None:
        for server in servers:
            self._service.fulfil(server)

    def _await_orders(self, servers: Sequence[str]) -> None:
        ordered = set(servers)
        self._await(lambda: ordered <= self._service.orders(), self._section.held_max_s)

    def _missing(self) -> set[str]:
        """Servers that the naming service does not have."""
        nodes = self._testbed.design.fleet.nodes_of(self._section.tier)
        return set(nodes) - self._service.registered()

    def _await_all(self) -> None:
        if not self._await(lambda: not self._missing(), _ALL_S):
            raise MeasurementFailed(
                f"servers of tier {self._section.tier}",
                expected=f"all of them in the naming service within {_ALL_S:g} s",
                got=f"without {', '.join(sorted(self._missing()))}",
                hint="Look into the log of the machine's role.",
            )

    @staticmethod
    def _await(holds: Callable[[], bool], limit_s: float) -> bool:
        """Wait until the condition holds; return False after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def _write(self, folder: Path) -> dict[str, object] | None:
        if not self._records:
            return None
        t0 = self._testbed.clock.monotonic
        tables = []
        for record in self._records:
            records = self._work / f"{record['block']:03d}.jsonl"
            if records.is_file():
                tables.append(read_records(records, t0, **record))
        table = pl.concat(tables) if tables else pl.DataFrame(schema=INVOCATIONS)
        write_table(folder / INVOCATIONS_FILE, table, INVOCATIONS)
        write_json(folder / STRIKES_FILE, self._strikes)
        history = [{**asdict(event), "at": event.at - t0} for event in self._history]
        write_json(folder / HISTORY_FILE, history)
        shutil.rmtree(self._work)
        host = {**manifests.host(), "blocks": [vars(host_block) for host_block in self._host]}
        return {"blocks": self._records, "host": host}


def cells(experiment: Experiment, section: FailoverSection) -> list[tuple[Block, Strike, int]]:
    """Return each arm under each case, as often as the design's order asks.

    Repeats come one after the other, each in a random order drawn from the seed. `repeat` of a
    block is its position in the run.
    """
    cases, length = section.cases(), len(experiment.design.order)
    planned = blocks(experiment)
    run_cells: list[tuple[Block, Strike, int]] = []
    for start in range(0, len(planned), length):
        repeat_cells = [
            (block, *case) for block in planned[start : start + length] for case in cases
        ]
        for index in stream(experiment.design.seed, "cells", start).permutation(len(repeat_cells)):
            block, fault, clients = repeat_cells[index]
            run_cells.append((replace(block, repeat=len(run_cells)), fault, clients))
    return run_cells


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))


def delays_s(block: Block, section: FailoverSection) -> list[float]:
    """Return the delay of each strike of a block [s], uniform up to `phase_s`."""
    rng = stream(block.seed, "phases", block.repeat)
    return [float(delay) for delay in rng.uniform(0.0, section.phase_s, section.strikes)]


def _load_service(testbed: Testbed, section: FailoverSection) -> Service:
    by_role: dict[str, list[Machine]] = defaultdict(list)
    for machine in testbed.fleet.inventory.started:
        by_role[machine.role].append(machine)
    role = testbed.design.roles[testbed.design.fleet.tiers[section.tier].role]
    return adapter_of(role.directory)(section.tier, by_role)
