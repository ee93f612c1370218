"""Blocks of load on a testbed, for kinds that measure a service: load workers and records."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import polars as pl

from core.runfiles.requests import measured
from core.statistics.percentiles import percentile_of
from experiments.load.generator import LoadGenerator, LoadHandle, remote_workers
from experiments.load.lateness import less_late
from experiments.record import manifest as manifests
from experiments.record.metrics.saturation import lost_text
from experiments.record.records import REQUESTS, write_table
from experiments.run.block import BlockRun
from experiments.testbed.host import HostBlock
from experiments.testbed.testbed import Testbed


class Sent(Protocol):
    """Blocks that were sent: their records, the records set aside, and the use of the host."""

    @property
    def handles(self) -> Sequence[LoadHandle]: ...
    @property
    def discarded(self) -> Sequence[LoadHandle]: ...
    @property
    def host(self) -> Sequence[HostBlock]: ...


def blocks_on(testbed: Testbed) -> BlockRun:
    """Return the runner of blocks on the testbed's fleet, whose records become requests.parquet
    and discarded.parquet.
    """
    load = testbed.design.experiment.load
    waiting = testbed.platform.load_helpers() if load.workers > 1 else 0
    generator = LoadGenerator(
        testbed.folder / "load",
        t0_monotonic_s=testbed.clock.monotonic,
        worker=load.worker,
        design=testbed.design.directory,
        remote=remote_workers(load.workers, waiting),
    )
    runner = BlockRun(
        testbed.design, testbed.fleet, testbed.recorder, testbed.monitor, generator, testbed.tally,
        testbed.quiet_wait_s,
    )  # fmt: skip
    testbed.setup_s["warm_up"] = testbed.design.experiment.phases.warm_up
    testbed.keep(lambda folder: write_blocks(testbed, runner, folder))
    return runner


def write_blocks(testbed: Testbed, runner: Sent, folder: Path) -> dict[str, object] | None:
    """Write the requests of all blocks; returns the manifest's part on load and host, None if no
    block was begun."""
    if not runner.handles:
        return None
    requests = pl.concat([handle.records() for handle in runner.handles])
    write_table(folder / "requests.parquet", requests, REQUESTS)
    if runner.discarded:
        discarded = pl.concat([handle.records() for handle in runner.discarded])
        write_table(folder / "discarded.parquet", discarded, REQUESTS)
    lag_ms = percentile_of(measured(requests)["lag_ms"], 0.99)
    worker = testbed.design.experiment.load.worker
    if advice := less_late(lag_ms, runner.handles[0].plan, worker):
        testbed.narrator.say(advice)
    shutil.rmtree(folder / "load")  # its content is in requests.parquet
    host = {**manifests.host(), "blocks": [vars(block) for block in runner.host]}
    return {"host": host, "load": {"blocks": _describe_loads(testbed, runner, requests)}}


def _describe_loads(
    testbed: Testbed, runner: Sent, requests: pl.DataFrame
) -> list[dict[str, object]]:
    """Return the load's workers, block by block; a lost worker's requests fail the measurement."""
    blocks = []
    for handle in runner.handles:
        plan = handle.plan
        block = {"repeat": plan.repeat, "arm": plan.arm, "start_s": handle.start_s}
        blocks.append({**block, "workers": handle.workers})
        if loss := lost_text(requests.filter(repeat=plan.repeat), handle.workers):
            testbed.verdicts.measurement.fail(f"block {plan.repeat + 1}, {plan.arm}: {loss}")
    return blocks
