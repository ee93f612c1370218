"""Repetition of disturbed blocks on a shared host.

Only with `--quiet-wait`, and only for reasons that are independent of the arms: other guests or
other work on this host took the cores, or the load was late. Discarded blocks are kept
(`discarded.parquet`), counted and named in the report; their latencies play no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from core.runfiles.requests import measured
from experiments.console import Narrator
from experiments.design.schedule import Block
from experiments.record.disturbed import taken_words
from experiments.record.metrics.saturation import saturation
from experiments.run.block import BlockRun
from experiments.testbed.host import HostBlock

TRIES_MAX = 3  # of one block
_HOST_LIMITS = ("lag", "pace")  # the plan or the fleet causes a generator's other limits


def measure_once(runner: BlockRun, blocks: Sequence[Block], narrator: Narrator) -> Iterator[Block]:
    """Measure every block once, and yield it afterwards."""
    for block in blocks:
        runner.run(block, narrator)
        yield block


def measure_with_retries(
    runner: BlockRun, blocks: Sequence[Block], narrator: Narrator
) -> Iterator[Block]:
    """Measure every block at most three times; the run repeats at most half of its blocks, or two.

    `repeat` counts on, so a discarded block keeps a number of its own. A block is yielded when it
    is measured and counts.
    """
    retries_left = max(2, len(blocks) // 2)
    number = 0
    for block in blocks:
        for attempt in range(1, TRIES_MAX + 1):
            current = replace(block, repeat=number)
            runner.run(current, narrator)
            number += 1
            reason = spoiled_by(runner.host[-1], runner.handles[-1].records())
            if not reason:
                break
            if attempt == TRIES_MAX or retries_left == 0:
                narrator.detail(f"{reason}; it counts all the same: that was the last try")
                break
            retries_left -= 1
            narrator.detail(f"{reason}; the block is set aside and measured again")
            runner.set_aside(current, reason)
        yield block


def spoiled_by(host: HostBlock, records: pl.DataFrame) -> str:
    """Return the reasons to measure the block again; "" if there is none.

    Parameters: records (n,) as in requests.parquet; their warm-up does not count.
    """
    reasons = taken_words(host.stolen_share, host.others_share)
    verdict = saturation(measured(records), [])
    reasons += [
        reason
        for limit, reason in zip(verdict.limits, verdict.reasons, strict=True)
        if limit in _HOST_LIMITS
    ]
    return " and ".join(reasons)
