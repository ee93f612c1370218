"""`[tune]`, or the options of `sparecraft tune`: the target of the search, and its limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.config_file import Strict
from optimizer.replication import COLLISION_MAX

Target = Literal["mean", "p95", "p99"]
Start = Literal["ones", "simulated"]


class TuneSection(Strict):
    """The goal of the search, and its limits."""

    target: Target
    """Latency to reduce."""
    arm: str | None = None
    """Arm whose policy and tokens are used; by default the last."""
    window_s: Annotated[float, Field(ge=5, le=600)] = 40.0
    """Length of one window."""
    requests_max: Annotated[int, Field(ge=1)] = 3000
    """Largest number of requests of one comparison, both r together."""
    time_max_s: Annotated[float, Field(ge=10, le=86400)] = 5400.0
    """Longest time of all windows."""
    collision_max: Annotated[float, Field(ge=0, le=1)] = COLLISION_MAX
    """Largest collision probability (sPARE Eq. 1)."""
    start: Start = "ones"
    """Start from r = 1 everywhere, or from the simulator's optimum."""
    exhaustive: bool = False
    """Measure every feasible r first, in rounds: the search takes its windows from them."""
