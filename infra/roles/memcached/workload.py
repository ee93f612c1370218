"""Readers of a cache with values of one size, and one set in thirty gets.

The ratio is that of Facebook's ETC (Atikoglu et al., SIGMETRICS 2012). The records are those of
make-content.sh.
"""

from __future__ import annotations

from functools import lru_cache

from experiments.design.workloads import KEY_ZIPF, Operation, Population, Workload, numbered

SET_SHARE = 1 / 31


@lru_cache
def cache(name: str, count: int, size: int) -> Population:
    """Return gets and sets of `count` values of `size` bytes."""
    keys = numbered(name, count)
    return Population(
        tuple(Operation(key, f"get {key}", key) for key in keys),
        KEY_ZIPF,
        tuple(Operation(key, f"set {key} {size}", "STORED") for key in keys),
        SET_SHARE,
    )


WORKLOADS = {
    "cache-reader": Workload(lambda: cache("entry", 20_000, 1000), ("memcached",)),
    "cached-fragments": Workload(lambda: cache("fragment", 1_000, 16_000), ("memcached",)),
    "cached-pages": Workload(lambda: cache("page", 400, 64_000), ("memcached",)),
}
