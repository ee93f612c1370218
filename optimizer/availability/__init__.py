"""Share of a horizon with enough nodes in a tier: PCRAFT's availability models (section IV, Fig.
1).

Read `rates.py` (the input), `chain.py` (states and transitions), `models.py` (the four models),
`transient.py` (the numerical method and its bound); then `steady.py`, `course.py` (the long run and
the time course), `sizing.py` (the least extra nodes or pool for a target), `placement.py` and
`domains.py` (machines in zones and on hosts that fail as a whole), `state.py` (a primary, copies).
"""

from optimizer.availability.course import TimeCourse, time_course
from optimizer.availability.models import (
    active_route_anywhere,
    availability,
    passive_failover,
    passive_failover_by_pool,
)
from optimizer.availability.placement import (
    Level,
    TooManyPlacementsError,
    lit_law,
    placements,
    sizes_at,
)
from optimizer.availability.rates import HORIZON_S, Availability, FailureRates
from optimizer.availability.sizing import Sizing, least_extra_nodes, least_pool, sizes
from optimizer.availability.state import data_lost, writes_lost
from optimizer.availability.steady import steady_state

__all__ = [
    "HORIZON_S",
    "Availability",
    "FailureRates",
    "Level",
    "Sizing",
    "TimeCourse",
    "TooManyPlacementsError",
    "active_route_anywhere",
    "availability",
    "data_lost",
    "least_extra_nodes",
    "least_pool",
    "lit_law",
    "passive_failover",
    "passive_failover_by_pool",
    "placements",
    "sizes",
    "sizes_at",
    "steady_state",
    "time_course",
    "writes_lost",
]
