"""The arms of a design, block by block, until all repeats are done or the figure is decided."""

from __future__ import annotations

import time

from experiments.design.schedule import blocks
from experiments.kinds.blocks import blocks_on
from experiments.kinds.calibration import calibrate
from experiments.kinds.compare.again import measure_again, measure_once
from experiments.kinds.compare.looks import Looks, looked
from experiments.record.records import write_bytes
from experiments.stage.stage import Stage


def measure(stage: Stage) -> None:
    """All blocks, or as many as decide; with `--quiet-wait`, those that the host spoils again."""
    design, say = stage.design, stage.narrator
    if design.prediction is not None:
        plan = (design.directory / "plan.json").read_bytes()
        write_bytes(stage.folder / "predicted.json", plan)
    runner = blocks_on(stage)
    with say.step("Measuring"):
        if design.experiment.load.utilisation is None:
            runner.settle(say)
        else:
            calibrate(stage, runner)
        asked = blocks(design.experiment)
        each = measure_again if stage.quiet_wait_s > 0.0 else measure_once
        done = each(runner, asked, say)
        order = design.experiment.design
        if order.decide is None:
            for _ in done:
                pass
            return
        looks = Looks(order, time.monotonic())
        stage.keep(lambda _: {"decided": looks.to_json()} if runner.handles else None)
        for count, _ in enumerate(done, start=1):
            if count % len(order.order) == 0 and looked(
                looks, count // len(order.order), runner, stage
            ):
                return
