"""How much of a horizon a tier has enough nodes: PCRAFT's availability models (section IV, Fig. 1).

Read `models.py` first (the four models), then `transient.py` (the numerical method and its bound),
then `sizing.py` (the least extra nodes or pool for a target).
"""

from optimizer.availability.models import (
    HORIZON_S,
    Availability,
    FailureRates,
    active_route_anywhere,
    passive_failover,
    passive_failover_by_pool,
    steady_state,
)
from optimizer.availability.sizing import Sizing, least_extra_nodes, least_pool

__all__ = [
    "HORIZON_S",
    "Availability",
    "FailureRates",
    "Sizing",
    "active_route_anywhere",
    "least_extra_nodes",
    "least_pool",
    "passive_failover",
    "passive_failover_by_pool",
    "steady_state",
]
