"""The arms of a design, block by block, until all repeats are done or the figure is decided."""

from __future__ import annotations

import time

from experiments.design.schedule import blocks
from experiments.kinds.calibration import calibrate
from experiments.kinds.compare.looks import Looks, look_if_due
from experiments.kinds.compare.retry import measure_once, measure_with_retries
from experiments.record.records import write_bytes
from experiments.run.blocks import blocks_on
from experiments.testbed.testbed import Testbed


def measure(testbed: Testbed) -> None:
    """Run all blocks, or as many as decide; with `--quiet-wait`, disturbed blocks are repeated."""
    design, say = testbed.design, testbed.narrator
    if design.prediction is not None:
        plan = (design.directory / "plan.json").read_bytes()
        write_bytes(testbed.folder / "predicted.json", plan)
    runner = blocks_on(testbed)
    with say.step("Measuring"):
        if design.experiment.load.utilisation is None:
            runner.settle(say)
        else:
            calibrate(testbed, runner)
        planned_blocks = blocks(design.experiment)
        measure_blocks = measure_with_retries if testbed.quiet_wait_s > 0.0 else measure_once
        measured_blocks = measure_blocks(runner, planned_blocks, say)
        order = design.experiment.design
        if order.decide is None:
            for _ in measured_blocks:
                pass
            return
        looks = Looks(order, time.monotonic())
        testbed.keep(lambda _: {"decided": looks.to_json()} if runner.handles else None)
        for count, _ in enumerate(measured_blocks, start=1):
            if count % len(order.order) == 0 and look_if_due(
                looks, count // len(order.order), runner, testbed
            ):
                return
