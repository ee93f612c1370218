"""The host under all machines: how busy it was in each block, and how fast its cores ran.

Every machine of a local fleet runs on the same few cores. Where these are full, the machines' caps
are not what limits them; and a core that is shared with strangers, or with its own other thread,
changes its speed from second to second. Neither voids a run, and both stand beside its figures,
because both move them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.design.schedule import Block

_LOOPS = 40_000  # 3 ms: of one core, 0.3 % at a sample a second
_SAMPLE_EVERY_S = 1.0
QUIET_STOLEN_MAX = 0.05
_QUIET_SAMPLE_S = 3.0
_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class HostBlock:
    """One block: shares of all cores' time; the median speed, 10^6 additions per CPU second."""

    repeat: int
    arm: str
    busy_share: float
    stolen_share: float
    core_speed: float
    speed_samples: int
    waited_s: float = 0.0  # for a quiet host, before the block
    spoiled: str = ""  # why the block was set aside


@dataclass(frozen=True)
class CpuTimes:
    """Ticks since boot, summed over all cores; `stolen` went to other guests of the host."""

    total: int
    idle: int
    stolen: int

    @staticmethod
    def read(stat: Path = _STAT) -> CpuTimes:
        """The first line of /proc/stat: user nice system idle iowait irq softirq steal."""
        ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
        return CpuTimes(total=sum(ticks), idle=ticks[3] + ticks[4], stolen=ticks[7])

    def shares_until(self, later: CpuTimes) -> tuple[float, float]:
        """Busy and stolen share of the time between."""
        total = max(1, later.total - self.total)
        idle, stolen = later.idle - self.idle, later.stolen - self.stolen
        return (total - idle - stolen) / total, stolen / total


class HostWatch:
    """From its making, which is the block's start, to `block`."""

    def __init__(self) -> None:
        self._before = CpuTimes.read()
        self._speeds = [core_speed()]
        self._sampled_s = time.monotonic()

    def tick(self) -> None:
        """Call it often; it takes a sample a second."""
        if time.monotonic() - self._sampled_s >= _SAMPLE_EVERY_S:
            self._sampled_s = time.monotonic()
            self._speeds.append(core_speed())

    def block(self, block: Block, waited_s: float = 0.0) -> HostBlock:
        """What was seen until now."""
        busy_share, stolen_share = self._before.shares_until(CpuTimes.read())
        speed = statistics.median(self._speeds)
        count = len(self._speeds)
        return HostBlock(block.repeat, block.arm, busy_share, stolen_share, speed, count, waited_s)


def wait_until_quiet(
    limit_s: float,
    *,
    read: Callable[[], CpuTimes] = CpuTimes.read,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Seconds until other guests took at most 5 % of the cores' time for 3 s; at most `limit_s`.

    It is seen in the little that an idle fleet runs, and is no promise of the seconds that follow.
    """
    waited_s = 0.0
    before = read()
    while waited_s < limit_s:
        sample_s = min(_QUIET_SAMPLE_S, limit_s - waited_s)
        sleep(sample_s)
        waited_s += sample_s
        now = read()
        if before.shares_until(now)[1] <= QUIET_STOLEN_MAX:
            break
        before = now
    return waited_s


def core_speed() -> float:
    """Millions of additions per second of this thread's CPU time: the core, not its queue."""
    began_s = time.thread_time()
    total = 0
    for number in range(_LOOPS):
        total += number
    return _LOOPS / (time.thread_time() - began_s) / 1e6
