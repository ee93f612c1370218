"""The start that the simulator chooses."""

from __future__ import annotations

from experiments.design.experiment import Interference
from experiments.kinds.tune.loads import TierWindow
from experiments.kinds.tune.simulated import simulated_optimum
from optimizer.replication import TierLoad

WEB = TierLoad(servers=4, cores=0.4, request_per_s=3.0, processing_s=0.06, connection_per_s=3.0,
               token_hold_s=0.3, tokens_per_server=2, name="web")  # fmt: skip
DB = TierLoad(servers=3, cores=0.25, request_per_s=60.0, processing_s=0.0005, connection_per_s=3.0,
              token_hold_s=0.2, tokens_per_server=12, name="db")  # fmt: skip
SEEN = [TierWindow(), TierWindow(buckets={3_000: 1_000})]
FEASIBLE = [(1, 1), (1, 2), (2, 1)]


def optimum(pattern: str, web: TierLoad = WEB) -> tuple[int, ...]:
    noise = Interference.model_validate(
        {"pattern": pattern, "kinds": ("cpu",), "mean_gap_s": 20.0, "mean_run_s": 10.0}
    )
    return simulated_optimum([web, DB], SEEN, noise, "round-robin", FEASIBLE, "p95", seed=3)


def test_the_tier_with_neighbours_is_replicated_first() -> None:
    """sPARE section 6.2.2: replication is raised in those tiers that experience interference."""
    assert optimum("front") == (2, 1)


def test_a_front_tier_that_is_almost_full_is_not_replicated() -> None:
    front = TierLoad(**{**vars(WEB), "request_per_s": 19.0})
    store = TierLoad(**{**vars(DB), "request_per_s": 380.0})
    noise = Interference(pattern="none")
    placement = simulated_optimum(
        [front, store], SEEN, noise, "round-robin", FEASIBLE, "p95", seed=3
    )
    assert placement[0] == 1
