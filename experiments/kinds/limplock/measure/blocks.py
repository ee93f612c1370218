"""Measurement of rows on a fleet, block by block: a block is a repeat of all rows of one arm."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path

import polars as pl

from core.errors import MeasurementFailed
from experiments.design.schedule import Block, blocks
from experiments.kinds.limplock.clients.process import Clients, Lane, command
from experiments.kinds.limplock.clients.system import MODULE, Node, System, adapter_of
from experiments.kinds.limplock.judge.search import Search, relative_duration
from experiments.kinds.limplock.judge.slowdown import Duration
from experiments.kinds.limplock.judge.zones import search
from experiments.kinds.limplock.measure.repeat import Moved, Repeat, await_whole
from experiments.kinds.limplock.measure.whitebox import Whitebox
from experiments.kinds.limplock.row import Row
from experiments.kinds.limplock.scenarios import Scenario, shuffle
from experiments.kinds.limplock.section import LimplockSection, system_tier
from experiments.kinds.limplock.windows import (
    ASKED,
    ASKED_FILE,
    WHITEBOX,
    WHITEBOX_FILE,
    RunInputs,
    Window,
    client_log,
    write_windows,
)
from experiments.record.records import write_table
from experiments.testbed.settings import configure
from experiments.testbed.testbed import Testbed

_WARM_UP_GAP_S = 0.002
ATTEMPTS_MAX = 3  # at a repeat whose parts moved before any fault


class Rows:
    """The measurement; `testbed.keep` makes sure that results are written, whatever happens."""

    def __init__(self, testbed: Testbed, section: LimplockSection) -> None:
        self._testbed = testbed
        self._section = section
        self._rows = section.chosen_rows()
        self._windows: list[Window] = []
        self._closing: list[Window] = []
        self._abandoned: list[str] = []
        self._lanes: list[tuple[str, Lane]] = []  # with their purpose
        self._whitebox: list[pl.DataFrame] = []  # of each block
        self._clients: dict[tuple[str, str], Clients] = {}  # by arm and system
        self._page_metrics: dict[str, dict[str, object]] = {}
        self._cold: dict[str, bool] = {}  # by system, as its last repeat left it
        testbed.keep(self._write)

    def measure(self) -> None:
        """Measure every block. The clients have ended when this returns."""
        before = ""
        try:
            for block in blocks(self._testbed.design.experiment):
                if self._section.search is not None and block.pair > 0:
                    continue  # all repeats of a value are one after another
                configure(self._testbed.design, block.arm, self._testbed.fleet)
                for name in dict.fromkeys(row.system for row in self._rows):
                    self._measure_system(block, name, fresh=block.arm != before)
                before = block.arm
        finally:
            self._testbed.recorder.block = None
            for clients in self._clients.values():
                clients.close()

    def _measure_system(self, block: Block, name: str, *, fresh: bool) -> None:
        """Measure all rows of one system and arm; `fresh`: it was started since the last block."""
        system = self._adapter(block.arm, name)
        rows = [row for row in self._rows if row.system == name]
        self._page_metrics |= {metric.metric: asdict(metric) for metric in system.shown}
        title = f"{block.arm}, repeat {block.pair + 1}: {', '.join(row.name for row in rows)}"
        watch = Whitebox([system, *self._called_systems(block.arm, name)], self._testbed.recorder)
        try:
            with self._testbed.narrator.step(title), watch:
                look = partial(system.parts, rows[0])
                await_whole(self._testbed, look, self._section.recover_max_s)
                clients = self._client_of(block.arm, name, system, rows)
                if fresh:
                    self._warm_up(system, rows, clients)
                    self._cold.pop(name, None)
                rest = (system, clients, watch)
                if self._section.search is not None:
                    rule = self._section.search
                    search(partial(self._measure_value, rule, block, rows[0], *rest), rule)
                    return
                for row in rows:
                    for part in row.injected:
                        scenarios = self._draw_scenarios(block, row, part)
                        self._measure_row(block, row, part, *rest, scenarios)
        finally:
            self._whitebox.append(watch.table())
            self._abandoned += [f"{title}: {text}" for text in watch.failures()]

    def _measure_value(
        self, search_rule: Search, block: Block, row: Row, system: System, clients: Clients,
        watch: Whitebox, value: float,
    ) -> list[Duration]:  # fmt: skip
        """Measure all repeats of a value, and return their times over the base. Repeats are
        numbered through all values of an arm."""
        scenario, waits, has_windows = search_rule.scenario(value), list[Duration](), False
        first = len({window.repeat for window in self._windows if window.arm == block.arm})
        for number in range(first, first + self._testbed.design.experiment.design.repeats):
            repeat_block = replace(block, pair=number)
            windows = self._measure_row(
                repeat_block, row, row.injected[0], system, clients, watch, (scenario,)
            )
            repeat_waits = (
                relative_duration(windows[0], faulty, search_rule) for faulty in windows[1:]
            )
            waits += [wait for wait in repeat_waits if wait is not None]
            has_windows = has_windows or bool(windows)
        if not waits:
            raise MeasurementFailed(
                f"{row.name} at {scenario.name}",
                expected=f"a {row.injected[0]} that stays so without a fault, and an operation "
                f"that ends within base_max_s, {self._section.base_max_s:g} s, and not before its "
                "fault begins",
                got="longer or shorter ones" if has_windows else "others in each repeat",
                hint="Look into the machines' logs: elections without a fault mean a busy host.",
            )
        return waits

    def _measure_row(
        self, block: Block, row: Row, part: str, system: System, clients: Clients,
        watch: Whitebox, scenarios: Sequence[Scenario],
    ) -> list[Window]:  # fmt: skip
        """Measure a repeat, and return its windows; none if its parts moved in every attempt."""
        for _ in range(ATTEMPTS_MAX):
            repeat = Repeat(
                self._testbed, self._section, block, row, part, system, clients, watch, scenarios,
                cold=self._cold.get(row.system, False), closes=self._section.search is None,
            )  # fmt: skip
            try:
                repeat.measure()
            except Moved as error:
                self._abandoned.append(str(error))
                self._testbed.narrator.detail(str(error))
                continue
            finally:
                self._lanes += repeat.lanes
                self._windows += repeat.windows
                self._closing += repeat.closing
                self._cold[row.system] = repeat.cold
            return repeat.windows
        return []

    def _draw_scenarios(self, block: Block, row: Row, part: str) -> tuple[Scenario, ...]:
        seed = self._testbed.design.experiment.design.seed
        return shuffle(self._section.scenarios, seed, row.name, part, block.arm, block.pair)

    def _adapter(self, arm: str, name: str) -> System:
        design, tiers = self._testbed.design, self._testbed.design.fleet.tiers
        tier = system_tier(design, name)
        system = self._tier_system(arm, tier)
        system.gap_s = 1.0 / self._section.pace_per_s if self._section.pace_per_s else 0.0
        system.called = {
            tiers[called_tier].role: self._nodes(called_tier) for called_tier in tiers[tier].calls
        }
        return system

    def _called_systems(self, arm: str, name: str) -> list[System]:
        """Return the systems of the called tiers, because one of their machines may limp."""
        design, tiers = self._testbed.design, self._testbed.design.fleet.tiers
        return [
            self._tier_system(arm, called_tier)
            for called_tier in tiers[system_tier(design, name)].calls
            if (design.roles[tiers[called_tier].role].directory / MODULE).is_file()
        ]

    def _tier_system(self, arm: str, tier: str) -> System:
        design = self._testbed.design
        role = design.roles[design.fleet.tiers[tier].role]
        stated = design.experiment.arms[arm].of(tier).role
        defaults = {key: setting.default for key, setting in role.settings.items()}
        return adapter_of(role.directory)(self._nodes(tier), {**defaults, **stated})

    def _nodes(self, tier: str) -> list[Node]:
        role = self._testbed.design.fleet.tiers[tier].role
        started = self._testbed.fleet.inventory.started
        return [
            Node.from_machine(machine)
            for machine in started
            if (machine.tier, machine.role) == (tier, role)
        ]

    def _client_of(self, arm: str, name: str, system: System, rows: Sequence[Row]) -> Clients:
        """Return the client, which is started once for each arm, with the data of its rows.

        A later block mends the system, because other arms restarted the servers meanwhile and may
        have moved the data.
        """
        if (clients := self._clients.get((arm, name))) is not None:
            system.mend(clients)
            return clients
        role, folder = self._testbed.design.roles[name], self._testbed.folder
        nodes = chain(system.nodes.values(), *system.called.values())
        names = {node.address: node.name for node in nodes}
        arguments = command(role, system.jars, system.sources, system.opener, names, folder)
        clients = Clients(arguments, folder / client_log(arm, name))
        self._clients[arm, name] = clients
        for row in rows:
            system.prepare(row, self._section.count_of(row), clients)
        return clients

    def _warm_up(self, system: System, rows: Sequence[Row], clients: Clients) -> None:
        """Send each probe to each machine often, so that servers and client compile their code."""
        row_of_probe = {(probe.operation, node): row for row in rows for probe in row.probes
                        for node in system.probed(row, probe.operation)}  # fmt: skip
        tasks = [
            system.probe(row, operation, node) for (operation, node), row in row_of_probe.items()
        ]
        lanes = [clients.start(replace(task, gap_s=_WARM_UP_GAP_S)) for task in tasks]
        time.sleep(self._section.warm_up_s)
        for lane in lanes:
            clients.stop(lane)

    def _write(self, folder: Path) -> dict[str, object] | None:
        if not self._windows:
            return None
        counts = {row.name: self._section.count_of(row) for row in self._rows}
        limits = {
            row.name: self._section.timeout_factor or row.timeout_factor for row in self._rows
        }
        scales = {row.name: self._section.scale_of(row) for row in self._rows}
        inputs = RunInputs(
            self._section.scale, counts, limits, list(self._page_metrics.values()), self._abandoned,
            scales, self._testbed.clock.monotonic, self._closing,
        )  # fmt: skip
        write_windows(folder, inputs, self._windows)
        write_table(folder / ASKED_FILE, self._operation_table(), ASKED)
        whitebox = pl.concat([pl.DataFrame(schema=WHITEBOX), *self._whitebox])
        write_table(folder / WHITEBOX_FILE, whitebox, WHITEBOX)
        return {}

    def _operation_table(self) -> pl.DataFrame:
        t0 = self._testbed.clock.monotonic
        rows = [
            (purpose, lane.task.node, lane.task.operation, operation.start - t0, operation.end - t0,
             operation.outcome)
            for purpose, lane in self._lanes
            for operation in lane.did
        ]  # fmt: skip
        return pl.DataFrame(rows, ASKED, orient="row")
