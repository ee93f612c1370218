"""Where to begin: the optimum of a simulation with what was measured at r = (1, ..., 1)."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.errors import EnvironmentMissing
from experiments.tune.evidence import Target
from optimizer.replication import Replicas, TierLoad


def simulated_optimum(
    loads: Sequence[TierLoad], feasible: Sequence[Replicas], target: Target
) -> Replicas:
    """The feasible r with the least simulated target."""
    del loads, feasible, target
    raise EnvironmentMissing(
        "--start simulated", expected="the simulator", came="none", do="Begin with --start ones."
    )
