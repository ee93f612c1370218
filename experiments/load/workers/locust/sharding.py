"""A block's plan, split over load workers: worker w of N gets arrivals w, w + N, w + 2 N, ...

So of any N consecutive arrivals each worker has one, and all are equally busy, in a burst too. If
operations were divided, the worker of the most popular one would have more work (10 % of YCSB's
requests are for one key). No order is lost: also within one process a request takes any idle
connection and waits for no earlier request, so there is no order per connection or per key.

A plan with sessions has one worker, because each session is of one user, whose values and cookies
it keeps. `max_in_flight` is divided evenly; together the workers never exceed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.load.plan import LoadPlan


def share(plan: LoadPlan, worker: int, workers: int) -> LoadPlan:
    """Return the share of worker number `worker` of `workers`, with only the operations that it
    asks.
    """
    in_flight, more = divmod(plan.load.max_in_flight, workers)
    load = plan.load.model_copy(
        update={
            "rate_per_s": plan.load.rate_per_s / workers,
            "max_in_flight": in_flight + (worker < more),
            "workers": 1,
        }
    )
    return replace(
        plan,
        load=load,
        offsets_s=plan.offsets_s[worker::workers],
        operation_of=plan.operation_of[worker::workers],
        row_of=plan.row_of[worker::workers],
        remote=None,
        first=worker,
        step=workers,
    ).only_used()


def pool_shares(weights: Sequence[float], size: int) -> list[int]:
    """Return the number of users of each class of a Locust file: `size` by weight, at least one.

    Parameters: weights (n,) > 0; size >= 1. Returns: (n,), whose sum is `size`, or n if that is
    more.
    """
    total = sum(weights)
    counts = [max(1, int(size * weight / total)) for weight in weights]
    while sum(counts) > max(size, len(weights)):  # small classes got more than their share
        most = max(range(len(weights)), key=lambda k: counts[k] / weights[k] * (counts[k] > 1))
        counts[most] -= 1
    while sum(counts) < size:
        least = min(range(len(weights)), key=lambda k: counts[k] / weights[k])
        counts[least] += 1
    return counts
