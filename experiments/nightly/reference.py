"""The reference kernel: a fixed piece of work, timed on this host before each run of a night.

If the host is slower, the fleet is not. The kernel does the work of services on a core: it counts,
hashes, reads memory beyond the caches, and calls the operating system. Its time is wall time, which
includes the time that other guests take from the host.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time

import numpy as np

_REPEATS = 25  # some 2 s in all
_COUNT, _HASHED, _LOOKS, _CALLS = 100_000, 4_000_000, 200_000, 4_000
_TABLE = 4_000_000  # of 8 bytes


def reference_per_s() -> float:
    """Return the rate at which the kernel is done [1/s]; the median of its repeats."""
    rng = np.random.default_rng(1)
    table, indices = rng.permutation(_TABLE), rng.integers(0, _TABLE, _LOOKS)
    text = bytes(_HASHED)
    reading, writing = os.pipe()
    try:
        times_s = []
        for _ in range(_REPEATS):
            began_s = time.perf_counter()
            _kernel(table, indices, text, reading, writing)
            times_s.append(time.perf_counter() - began_s)
    finally:
        os.close(reading)
        os.close(writing)
    return 1.0 / statistics.median(times_s)


def _kernel(
    table: np.ndarray, indices: np.ndarray, text: bytes, reading: int, writing: int
) -> None:
    total = 0
    for number in range(_COUNT):
        total += number
    hashlib.sha256(text).digest()
    table[indices].sum()
    for _ in range(_CALLS):
        os.write(writing, b"x")
        os.read(reading, 1)
