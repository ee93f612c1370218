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
_HOSTS_DOING = ("lag", "pace")  # a generator's other limits are the plan's or the fleet's


def measure_once(runner: BlockRun, asked: Sequence[Block], narrator: Narrator) -> Iterator[Block]:
    """Every block, given once it is measured."""
    for block in asked:
        runner.run(block, narrator)
        yield block


def measure_with_retries(
    runner: BlockRun, asked: Sequence[Block], narrator: Narrator
) -> Iterator[Block]:
    """Every block, each at most three times; in all at most half as many again, and at least two.

    `repeat` counts on, so what was set aside keeps a number of its own. A block is given once it is
    measured and counts.
    """
    left = max(2, len(asked) // 2)
    number = 0
    for block in asked:
        for attempt in range(1, TRIES_MAX + 1):
            current = replace(block, repeat=number)
            runner.run(current, narrator)
            number += 1
            why = spoiled_by(runner.host[-1], runner.handles[-1].records())
            if not why:
                break
            if attempt == TRIES_MAX or left == 0:
                narrator.detail(f"{why}; it counts all the same: that was the last try")
                break
            left -= 1
            narrator.detail(f"{why}; the block is set aside and measured again")
            runner.set_aside(current, why)
        yield block


def spoiled_by(host: HostBlock, records: pl.DataFrame) -> str:
    """Reasons to measure the block again; "" where there is none.

    Parameters: records (n,) as in requests.parquet; their warm-up does not count.
    """
    reasons = taken_words(host.stolen_share, host.others_share)
    verdict = saturation(measured(records), [])
    reasons += [
        reason
        for limit, reason in zip(verdict.limits, verdict.reasons, strict=True)
        if limit in _HOSTS_DOING
    ]
    return " and ".join(reasons)
