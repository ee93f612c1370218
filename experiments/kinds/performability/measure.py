"""The blocks on the fleet: each fault alone, the same arrivals for every arm."""

from __future__ import annotations

import time
from contextlib import closing

from experiments.design.experiment import Experiment
from experiments.design.schedule import Block, blocks, pair_seed
from experiments.kinds.performability.fill import Filler
from experiments.kinds.performability.operator import Attendant
from experiments.kinds.performability.section import PerformabilitySection
from experiments.run.blocks import blocks_on
from experiments.testbed.testbed import Testbed


def measure(testbed: Testbed, section: PerformabilitySection) -> None:
    experiment, say = testbed.design.experiment, testbed.narrator
    runner = blocks_on(testbed)
    filler = Filler(testbed, section.fill) if section.fill else None
    with say.step("Measuring each fault alone"):
        runner.settle(say)
        for block, fault in fault_blocks(experiment):
            one_fault = experiment.model_copy(update={"faults": (experiment.faults[fault],)})
            say.detail(one_fault.faults[0].kind)
            if filler is not None:
                filler.fill(block)
            with closing(Attendant(testbed, section, one_fault.faults[0], block)) as attendant:
                runner.run(block, say, one_fault, attendant)
            time.sleep(section.rest_s)


def fault_blocks(experiment: Experiment) -> list[tuple[Block, int]]:
    """Return the blocks, each with the index of its fault: block k has fault k modulo the number of
    faults, and the arms of a pair meet the same arrivals at the same fault."""
    count = len(experiment.faults)
    return [
        (
            Block(
                block.repeat * count + fault,
                block.pair * count + fault,
                block.arm,
                pair_seed(experiment.design.seed, block.pair * count + fault),
            ),
            fault,
        )
        for block in blocks(experiment)
        for fault in range(count)
    ]
