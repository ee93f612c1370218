"""Blocks of load on a stage, for kinds that measure a service: who sends, and what is kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl

from experiments.load.block import BlockRun
from experiments.load.generator import LoadGenerator, remote_workers
from experiments.record import manifest as manifests
from experiments.record.metrics.saturation import lost_text
from experiments.record.records import REQUESTS, write_table
from experiments.stage.stage import Stage


def blocks_on(stage: Stage) -> BlockRun:
    """What runs blocks on the stage's fleet; requests.parquet and spoiled.parquet come of it."""
    load = stage.design.experiment.load
    waiting = stage.platform.load_helpers() if load.workers > 1 else 0
    generator = LoadGenerator(
        stage.folder / "load",
        t0_monotonic_s=stage.clock.monotonic,
        worker=load.worker,
        design=stage.design.directory,
        remote=remote_workers(load.workers, waiting),
    )
    runner = BlockRun(
        stage.design, stage.fleet, stage.recorder, stage.monitor, generator, stage.tally,
        stage.quiet_wait_s,
    )  # fmt: skip
    stage.setup_s["warm_up"] = stage.design.experiment.phases.warm_up
    stage.keep(lambda folder: _write(stage, runner, folder))
    return runner


def _write(stage: Stage, runner: BlockRun, folder: Path) -> dict[str, Any] | None:
    """The requests of all blocks, and what the manifest says of load and host."""
    if not runner.handles:
        return None
    requests = pl.concat([handle.records() for handle in runner.handles])
    write_table(folder / "requests.parquet", requests, REQUESTS)
    if runner.spoiled:
        spoiled = pl.concat([handle.records() for handle in runner.spoiled])
        write_table(folder / "spoiled.parquet", spoiled, REQUESTS)
    shutil.rmtree(folder / "load")  # its content is in requests.parquet
    host = {**manifests.host(), "blocks": [vars(block) for block in runner.host]}
    return {"host": host, "load": {"blocks": _loads(stage, runner, requests)}}


def _loads(stage: Stage, runner: BlockRun, requests: pl.DataFrame) -> list[dict[str, Any]]:
    """The load's workers, block by block; a request lost with one fails the measurement."""
    blocks = []
    for handle in runner.handles:
        plan = handle.plan
        blocks.append({"repeat": plan.repeat, "arm": plan.arm, "workers": handle.workers})
        if lost := lost_text(requests.filter(repeat=plan.repeat), handle.workers):
            stage.verdicts.measurement.fail(f"block {plan.repeat + 1}, {plan.arm}: {lost}")
    return blocks
