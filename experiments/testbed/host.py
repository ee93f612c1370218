"""The host of all machines: its load in each block, by owner, and its speed.

Every machine of a local fleet runs on the same few cores. If these are full, the machines' caps do
not limit them. A core that is shared with other guests, with other work on this host or with its
own other thread changes its speed from second to second. All of this is recorded beside a run's
figures, because it affects them; other work may make the run a disturbed one
(`record/disturbed.py`).
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from experiments.design.schedule import Block
from experiments.record.disturbed import taken_words

_LOOPS = 40_000  # 3 ms: of one core, 0.3 % at a sample a second
_SAMPLE_EVERY_S = 1.0
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
    # Busy with what is neither the fleet's nor this process's: other work on this host, and what
    # the kernel does for all. None where the fleet is not on this host.
    others_share: float | None = None


# CPU seconds so far of each machine on this host
CpuSeconds = Callable[[], Mapping[str, float]]


def _no_machine() -> Mapping[str, float]:
    return {}


@dataclass(frozen=True)
class CpuTimes:
    """Ticks since boot, summed over all cores; `stolen` went to other guests of the host."""

    total: int
    idle: int
    stolen: int

    @property
    def busy_s(self) -> float:
        """CPU seconds of all cores, neither idle nor stolen."""
        return (self.total - self.idle - self.stolen) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def read(stat: Path = _STAT) -> CpuTimes:
        """Return the first line of /proc/stat: user nice system idle iowait irq softirq steal."""
        ticks = [int(number) for number in stat.read_text().split("\n", 1)[0].split()[1:9]]
        return CpuTimes(total=sum(ticks), idle=ticks[3] + ticks[4], stolen=ticks[7])

    def shares_until(self, later: CpuTimes) -> tuple[float, float]:
        """Busy and stolen share of the time between."""
        total = max(1, later.total - self.total)
        idle, stolen = later.idle - self.idle, later.stolen - self.stolen
        return (total - idle - stolen) / total, stolen / total


class HostWatch:
    """Use of the host from the creation of this object, at the start of a block, to `block`."""

    def __init__(self, fleet_cpu_s: CpuSeconds = _no_machine) -> None:
        self._before = CpuTimes.read()
        self._use = Use(fleet_cpu_s)
        self._speeds = [core_speed()]
        self._sampled_s = time.monotonic()

    def tick(self) -> None:
        """Call it often; it takes a sample a second."""
        if time.monotonic() - self._sampled_s >= _SAMPLE_EVERY_S:
            self._sampled_s = time.monotonic()
            self._speeds.append(core_speed())

    def block(self, block: Block, waited_s: float = 0.0) -> HostBlock:
        """Return the use of the host until now."""
        busy_share, stolen_share = self._before.shares_until(CpuTimes.read())
        speed = statistics.median(self._speeds)
        count = len(self._speeds)
        return HostBlock(
            block.repeat, block.arm, busy_share, stolen_share, speed, count, waited_s,
            others_share=self._use.others_share(),
        )  # fmt: skip


class Use:
    """CPU time of this host by its users, from the creation of this object."""

    def __init__(self, fleet_cpu_s: CpuSeconds) -> None:
        self._fleet_cpu_s = fleet_cpu_s
        self._host, self._fleet, self._own_s = CpuTimes.read(), fleet_cpu_s(), own_cpu_s()

    def others_share(self) -> float | None:
        """Return the share of all cores' time that other software used.

        It excludes idle time, the fleet, this process and its children.
        """
        host, fleet, own_s = CpuTimes.read(), self._fleet_cpu_s(), own_cpu_s()
        if not fleet:
            return None
        explained_s = own_s - self._own_s
        for machine, now_s in fleet.items():
            before_s = self._fleet.get(machine, 0.0)
            explained_s += now_s - before_s if now_s >= before_s else now_s  # started again
        busy_s = host.busy_s - self._host.busy_s
        total_s = max(1, host.total - self._host.total) / os.sysconf("SC_CLK_TCK")
        return max(0.0, busy_s - explained_s) / total_s


def own_cpu_s() -> float:
    """Return the CPU seconds of this process and of its children: the load's workers."""
    this_process = psutil.Process()
    spent_s = 0.0
    for process in (this_process, *this_process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent_s += sum(process.cpu_times()[:4])  # user, system, and of its ended children
    return spent_s


def wait_until_quiet(
    limit_s: float,
    fleet_cpu_s: CpuSeconds = _no_machine,
    *,
    read: Callable[[], CpuTimes] = CpuTimes.read,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Wait until other guests took at most 5 % of the cores' time for 3 s, and other work on this
    host at most 15 %; returns the seconds waited, at most `limit_s`.

    The check sees only the little that an idle fleet runs, and does not promise anything about the
    seconds that follow.
    """
    waited_s = 0.0
    before = read()
    while waited_s < limit_s:
        sample_s = min(_QUIET_SAMPLE_S, limit_s - waited_s)
        use = Use(fleet_cpu_s)
        sleep(sample_s)
        waited_s += sample_s
        now = read()
        stolen_share, others_share = before.shares_until(now)[1], use.others_share() or 0.0
        if not taken_words(stolen_share, others_share):
            break
        before = now
    return waited_s


def core_speed() -> float:
    """Return millions of additions per second of this thread's CPU time: the speed of the core,
    without the wait for it."""
    began_s = time.thread_time()
    total = 0
    for number in range(_LOOPS):
        total += number
    return _LOOPS / (time.thread_time() - began_s) / 1e6
