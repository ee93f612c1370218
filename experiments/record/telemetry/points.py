"""The measurements that the runner writes: request, arbiter, arbiter_server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.design.schedule import Block
from experiments.record.records import RequestRecord
from experiments.record.telemetry.line import Point


def request_point(
    record: RequestRecord, block: Block, *, experiment: str, run: str, t0_ns: int
) -> Point:
    """A request at its intended start. `t0_ns` is the run's t0 on the wall clock."""
    return Point(
        "request",
        {
            "experiment": experiment,
            "run": run,
            "arm": block.arm,
            "phase": record["phase"],
            "outcome": record["outcome"],
        },
        {
            "latency_ms": record["latency_ms"],
            "lag_ms": record["lag_ms"],
            "status": record["status"],
            "repeat": block.repeat,
        },
        t0_ns + round(record["intended_s"] * 1e9),
    )


def arbiter_points(
    stats: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
    *,
    experiment: str,
    run: str,
    time_ns: int,
) -> list[Point]:
    """One poll of an arbiter's statistics; `previous` is the poll before it, for means."""
    tags = {"experiment": experiment, "run": run, "tier": stats["tier"]}
    requests = stats["requests"]
    recent = stats["recent"]
    fields = {
        "requests": requests["received"],
        "answered": requests["answered"],
        "failed": requests["failed"],
        "replicas_sent": stats["replicas_sent"],
        "replicas_wasted": stats["replicas_wasted"],
        "tokens_total": stats["tokens"]["total"],
        "tokens_in_use": stats["tokens"]["in_use"],
        "client_open": stats["connections"]["client_open"],
        "connections": stats["connections"]["client_accepted"],
        "token_hold_ms": _grown_ratio(stats, previous, "token_hold_us_total", "token_holds", 1e-3),
        "wasted_percent": _grown_ratio(stats, previous, "wasted_us", "busy_us", 100.0),
        "latency_samples": recent["latency"]["count"],
        **{
            f"{name}_ms": _ms(recent["latency"][f"{name}_us"])
            for name in ("mean", "p50", "p95", "p99", "p99_9")
        },
        "replicas": stats["replicas"],
        "policy": stats["policy"],
    }
    before = {server["name"]: server for server in previous["servers"]} if previous else {}
    servers = [
        Point(
            "arbiter_server",
            {**tags, "server": server["name"]},
            _server_fields(server, before.get(server["name"])),
            time_ns,
        )
        for server in stats["servers"]
    ]
    return [Point("arbiter", tags, fields, time_ns), *servers]


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1e3


def _grown_ratio(
    now: Mapping[str, Any], before: Mapping[str, Any] | None, above: str, below: str, scale: float
) -> float | None:
    """How much `above` grew for each one that `below` grew; None where that did not grow."""
    if before is None or now[below] <= before[below]:
        return None
    return scale * float(now[above] - before[above]) / float(now[below] - before[below])


def _server_fields(
    server: Mapping[str, Any], before: Mapping[str, Any] | None
) -> dict[str, float | int | None]:
    processing_ms = _grown_ratio(server, before, "processing_us_sum", "processing_count", 1e-3)
    return {
        "last_latency_ms": _ms(server["last_latency_us"]),
        "mean_latency_ms": _grown_ratio(server, before, "latency_us_sum", "latency_count", 1e-3),
        "processing_ms": processing_ms,
        "busy_us": server["busy_us"],
        "tokens_free": server["tokens_free"],
        "in_flight": server["in_flight"],
        "requests": server["requests"],
        "wins": server["wins"],
        "errors": server["errors"],
        "alive": int(server["alive"]),
    }
