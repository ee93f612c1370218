"""Effects of neighbours and faults on a tier's server, as events of a scenario.

A run shows how much longer a copy takes with each of them. A limping part of the machine is a
slower server. A neighbour's threads are jobs beside the server's own, because a fair scheduler
gives each job the same time; the rest of the delay is waiting. A piece of work begins when its
process wakes up, and under a cap the neighbour has used up the period's CPU time by then. So a page
waits at each of its queries. A neighbour on the network card costs a wait too, and no CPU time.

If the work takes more than a period's CPU time, each copy is a job of its own, as of a process. If
it takes less, all copies of a server together have the share of `own_jobs`, however many wait. A
process of one thread with 1.34 ms of work a request beside four threads, under a cap of 0.25 cores,
answered in 47 ms at 0.2 of a job's share, in 84 to 105 at 0.6, in 300 to 751 at 0.9, and fell
behind at 1.3 (docs/results/2026-12-01-crowded-cap.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from optimizer.simulation.forms import Effect

CROWD = "interference.cpu"  # its threads are jobs beside a server's own
QUOTA_PERIOD_S = 0.01  # period of a cap on CPU time, as `fleet_machine` sets it
_NEIGHBOUR = "interference."
_CAP_SPREAD = 0.5  # of the logarithm of a neighbour's waits, for a cap that is e times as high


@dataclass(frozen=True)
class Visited:
    """A copy at a server of the run without any neighbour, and its neighbours' threads."""

    calm_s: float | None  # time of the copy there, mean of the run; None: unknown
    work_s: float
    delay_s: float  # time that needs no core
    pieces: int  # of its work
    cores: float  # of the server, its cap
    burst_cores: float  # cores that it uses at once
    threads: int  # of a neighbour that takes CPU time
    own_jobs: float  # of a server whose requests are short

    @property
    def alone_s(self) -> float:
        """Time of the copy there [s], without neighbours: of the run, else of the mean work."""
        return self.calm_s or self.delay_s + capped_s(self.work_s, self.cores)

    def effects(
        self, kind: str, speed: float, cores: float | None = None, deviation: float = 0.0
    ) -> list[Effect]:
        """Return the effects of a neighbour or fault that leaves the server `speed` [-] of its
        speed.

        Parameters: kind; speed in (0, 1]; cores of the machine, None: as in the run; deviation, in
        standard errors. Under another cap a neighbour has as many threads, and waits are in
        proportion to the time without CPU time after all cores were used: (cores / cap - 1). That
        proportion was not measured, so `deviation` has more effect the further the cap is from that
        of the run.
        """
        more_s = self.alone_s * (1.0 / speed - 1.0)
        if kind != CROWD:
            if not kind.startswith(_NEIGHBOUR):
                return [{"kind": "limp", "speed": speed}]
            return [{"kind": "crowd", "jobs": 0.0, "wait_s": more_s / self.pieces}]
        crowded_s = self.alone_s + more_s - self.delay_s
        is_long = self.work_s > self.cores * QUOTA_PERIOD_S
        own_jobs = 1.0 if is_long else self.own_jobs
        job_s = self.work_s / min(1.0, self.cores)  # a crowded server has no bursts
        jobs = min(float(self.threads), own_jobs * max(0.0, crowded_s / job_s - 1.0))
        wait_s = max(0.0, crowded_s - (1.0 + jobs / own_jobs) * job_s) / self.pieces
        most = max(self.burst_cores, self.cores)
        caps = self.cores, min(most, cores or self.cores)
        if caps[0] < most:
            wait_s *= (most / caps[1] - 1.0) / (most / caps[0] - 1.0)
        error = math.exp(deviation * _CAP_SPREAD * abs(math.log(caps[1] / caps[0])))
        if is_long:
            return [{"kind": "crowd", "jobs": jobs * error, "wait_s": wait_s * error}]
        return [
            {"kind": "limp", "speed": 1.0 / (1.0 + jobs * error / own_jobs)},
            {"kind": "crowd", "jobs": 0.0, "wait_s": wait_s * error},
        ]


def capped_s(work_s: float, cores: float) -> float:
    """Return the time [s] of work [core s] alone under a cap [cores] with a quota per period."""
    if cores >= 1.0:
        return work_s
    each_s = cores * QUOTA_PERIOD_S
    periods = max(0, math.ceil(work_s / each_s) - 1)
    return periods * QUOTA_PERIOD_S + (work_s - periods * each_s)
