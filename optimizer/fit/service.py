"""The fitted service: every figure with its sample count and spread, or marked insufficient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizer.fit.spec import TierSpec


@dataclass(frozen=True)
class Estimate:
    """A figure, the samples behind it, and the standard error of the figure over blocks of the run.

    `value` is None without samples. `spread` is None with fewer than two blocks.
    """

    value: float | None
    samples: int
    spread: float | None = None
    least: int = 1

    @property
    def sufficient(self) -> bool:
        return self.value is not None and self.samples >= self.least


@dataclass(frozen=True)
class TierFit:
    """One tier. Rates are per page and per copy executed upstream."""

    spec: TierSpec
    requests_per_copy: Estimate  # requests here per copy executed upstream (1 at the entry)
    connections_per_copy: Estimate  # connections here per copy executed upstream
    processing_s: Estimate  # CPU seconds per executed copy, outside interference
    card_kbit: Estimate  # over the fuller direction of a machine's card per executed copy, likewise
    service_cv2: Estimate  # squared coefficient of variation of a copy's latency, undisturbed
    token_hold_s: Estimate  # how long a connection's copy holds its token
    interference_share: Estimate  # share of machine time with a neighbour's load
    gamma: Estimate  # speed under interference over speed without, in (0, 1]
    interference_run_s: float  # mean length of one neighbour's run, 0 without any
    tokens: int = 1  # of a server, the most that an arm had
    write_share: Estimate = Estimate(None, 0)  # of its requests; none known: taken for reads
    one_share: Estimate = Estimate(None, 0)  # of its requests: reads for one certain machine
    writes_everywhere: bool = True  # every machine executes each write


@dataclass(frozen=True)
class ArmMeasure:
    """Latency [ms] of one arm at the entry without faults, at the run's arrival rate and fleet."""

    name: str
    policy: str
    replicas: tuple[int, ...]  # per tier from the front
    requests: int
    failed: int
    mean_ms: float
    p95_ms: Estimate
    p99_ms: Estimate


@dataclass(frozen=True)
class ServiceFit:
    """A whole service, tiers from the front to the back."""

    experiment: str
    run: str
    scheme: str
    pages_per_s: Estimate
    tiers: tuple[TierFit, ...]
    arms: tuple[ArmMeasure, ...]
    stated_rates: Mapping[str, Any]  # a [rates] table: stated, else measured by fail-overs
    missing: tuple[str, ...]  # without these no plan can be made
    thin: tuple[str, ...]  # these were replaced by a stated assumption
    against: str = ""  # why nothing may be concluded from the run
    calibration: Mapping[str, Any] | None = None  # what set the run's rate, where that was relative
