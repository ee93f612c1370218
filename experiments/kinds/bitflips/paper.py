"""PCRAFT's Table I (from HAFT, EuroSys 2016) and speeds (section V.B), for comparison."""

from __future__ import annotations

TABLE_I: dict[str, dict[str, float | None]] = {
    "native": {"corrupt": 0.2619, "crash": 0.1249, "retry": None},
    "ilr": {"corrupt": 0.008, "crash": 0.75, "retry": None},
    "tx": {"corrupt": 0.0117, "crash": 0.0772, "retry": 0.6699},
}
"""Shares of the injected faults; the rest was masked. Our ilr is ft_ilr, our tx is ft_tx."""

SPEED = {"native": 1.0, "ilr": 0.92, "tx": 0.71}
"""Throughput of Apache, memcached and Redis as a share of native's, on average."""
