"""YCSB's core workloads (Cooper et al., SoCC 2010) on the records of make-content.sh.

They read whole records, and update one field of a record.
"""

from __future__ import annotations

from functools import lru_cache

from experiments.design.workloads import KEY_ZIPF, Operation, Population, Workload, numbered

FIELDS = 10


@lru_cache
def ycsb(name: str, count: int, size: int, update_share: float) -> Population:
    """Return reads and updates of `count` hashes of `size` bytes each."""
    keys = numbered(name, count)
    # The first field names the record, so that a mixed-up reply is noticed: it stays.
    fields = [f"field{1 + number % (FIELDS - 1)} {size // FIELDS}" for number in range(count)]
    return Population(
        tuple(Operation(key, f"HGETALL {key}", key) for key in keys),
        KEY_ZIPF,
        tuple(
            Operation(key, f"HSET {key} {field}", "0")
            for key, field in zip(keys, fields, strict=True)
        ),
        update_share,
    )


WORKLOADS = {
    "ycsb-a": Workload(lambda: ycsb("entry", 20_000, 1000, 0.5), ("redis",)),
    "ycsb-b-medium": Workload(lambda: ycsb("fragment", 1_000, 16_000, 0.05), ("redis",)),
    "ycsb-b-large": Workload(lambda: ycsb("page", 400, 50_000, 0.05), ("redis",)),
}
