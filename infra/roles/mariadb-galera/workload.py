"""YCSB's core workload A (Cooper et al., SoCC 2010) on the records of make-content.sh.

It reads whole records. An update counts itself, so that the sum over all records is the number of
executed updates.
"""

from __future__ import annotations

from experiments.design.workloads import KEY_ZIPF, Operation, Population, Workload, numbered


def ycsb_a() -> Population:
    """Return reads and updates of 2,000 rows, as many of each."""
    keys = numbered("entry", 2_000)
    return Population(
        tuple(
            Operation(key, f"SELECT * FROM usertable WHERE ycsb_key = '{key}'", key) for key in keys
        ),
        KEY_ZIPF,
        tuple(
            Operation(
                f"update {key}",
                f"UPDATE usertable SET updates = updates + 1 WHERE ycsb_key = '{key}'",
                "1",
            )
            for key in keys
        ),
        0.5,
    )


WORKLOADS = {"ycsb-a-mysql": Workload(ycsb_a, ("mariadb-galera",))}
