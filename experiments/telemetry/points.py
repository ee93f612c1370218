"""The measurements that the runner writes: request, arbiter, arbiter_server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.load.generator import RequestRecord
from experiments.load.plan import LoadPlan
from experiments.telemetry.line import Point


def request_point(
    record: RequestRecord, plan: LoadPlan, *, experiment: str, run: str, t0_ns: int
) -> Point:
    """A request at its intended start. `t0_ns` is the run's t0 on the wall clock."""
    return Point(
        "request",
        {
            "experiment": experiment,
            "run": run,
            "arm": plan.arm,
            "phase": record["phase"],
            "outcome": record["outcome"],
        },
        {
            "latency_ms": record["latency_ms"],
            "lag_ms": record["lag_ms"],
            "status": record["status"],
            "repeat": plan.repeat,
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
    fields = {
        "requests": requests["received"],
        "answered": requests["answered"],
        "failed": requests["failed"],
        "replicas_sent": stats["replicas_sent"],
        "replicas_wasted": stats["replicas_wasted"],
        "tokens_total": stats["tokens"]["total"],
        "tokens_in_use": stats["tokens"]["in_use"],
        "client_open": stats["connections"]["client_open"],
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


def _server_fields(
    server: Mapping[str, Any], before: Mapping[str, Any] | None
) -> dict[str, float | int | None]:
    last_us = server["last_latency_us"]
    mean_ms = None
    if before is not None and server["latency_count"] > before["latency_count"]:
        sum_us = server["latency_us_sum"] - before["latency_us_sum"]
        mean_ms = sum_us / (server["latency_count"] - before["latency_count"]) / 1e3
    return {
        "last_latency_ms": None if last_us is None else last_us / 1e3,
        "mean_latency_ms": mean_ms,
        "tokens_free": server["tokens_free"],
        "in_flight": server["in_flight"],
        "requests": server["requests"],
        "wins": server["wins"],
        "errors": server["errors"],
        "alive": int(server["alive"]),
    }
