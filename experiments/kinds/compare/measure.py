"""The arms of a design, block by block."""

from __future__ import annotations

from experiments.design.schedule import blocks
from experiments.kinds.blocks import blocks_on
from experiments.kinds.calibration import calibrate
from experiments.kinds.compare.again import measure_again
from experiments.record.records import write_bytes
from experiments.stage.stage import Stage


def measure(stage: Stage) -> None:
    """All blocks; with `--quiet-wait`, those that the host spoils again."""
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
        if stage.quiet_wait_s > 0.0:
            measure_again(runner, asked, say)
            return
        for block in asked:
            runner.run(block, say)
