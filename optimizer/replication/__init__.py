"""Partial replication in multi-tier services (sPARE).

Read `closed_forms` first, then `search`, the paper's Alg. 1 over a callback that measures.
"""

from optimizer.replication.closed_forms import (
    COLLISION_MAX,
    TierLoad,
    collision_probabilities,
    collision_probability,
    least_tokens,
    lookup_probability,
    round_robin_capacity_per_s,
    server_utilisation,
    tad_capacity_per_s,
    token_utilisation,
)
from optimizer.replication.feasible import feasible_replicas
from optimizer.replication.search import Judgement, Replicas, Search, Step, search_replicas

__all__ = [
    "COLLISION_MAX",
    "Judgement",
    "Replicas",
    "Search",
    "Step",
    "TierLoad",
    "collision_probabilities",
    "collision_probability",
    "feasible_replicas",
    "least_tokens",
    "lookup_probability",
    "round_robin_capacity_per_s",
    "search_replicas",
    "server_utilisation",
    "tad_capacity_per_s",
    "token_utilisation",
]
