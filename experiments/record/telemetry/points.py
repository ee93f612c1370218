"""The measurements that the runner writes: request, arbiter, arbiter_server, event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.statistics.percentiles import counted_ms
from experiments.design.schedule import Block
from experiments.record.records import RequestRecord
from experiments.record.telemetry.account import Account
from experiments.record.telemetry.line import Point

_EVENT_KEYS = ("what", "kind", "machine", "arm", "repeat", "id")
_SERVER_COUNTS = ("busy_us", "tokens_free", "in_flight", "requests", "wins", "errors")
_VERDICTS = {True: "SLO met", False: "SLO missed", None: "SLO undecided"}


def request_point(
    record: RequestRecord, block: Block, account: Account, *, experiment: str, run: str, t0_ns: int
) -> Point:
    """Return a request at its intended start, which a record has to 1 us.

    `t0_ns` is the run's t0 on the wall clock. The latency is the counted one
    (`core.statistics.percentiles`), because dashboards compute percentiles of it. A point replaces
    another with the same tags and time, so the nanoseconds come from the request's number: the same
    record is the same point, however often it is written.
    """
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
            "latency_ms": counted_ms(record["outcome"], record["latency_ms"], account.limit_ms),
            "lag_ms": record["lag_ms"],
            "status": record["status"],
            "repeat": block.repeat,
            **account.burn(record["outcome"], record["latency_ms"]),
        },
        t0_ns + round(record["intended_s"] * 1e9) + record["index"] % 1000,
    )


def arbiter_points(
    stats: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
    *,
    experiment: str,
    run: str,
    time_ns: int,
) -> list[Point]:
    """Return one poll of an arbiter's statistics; `previous` is the poll before it, for means."""
    tags = {"experiment": experiment, "run": run, "tier": stats["tier"]}
    requests = stats["requests"]
    # No file of a run has these two.
    latency = (stats.get("recent") or {}).get("latency") or {}
    compared = stats.get("compare") or {}
    fields = {
        "requests": requests["received"],
        "answered": requests["answered"],
        "failed": requests.get("failed"),
        "replicas_sent": stats["replicas_sent"],
        "replicas_wasted": stats["replicas_wasted"],
        "tokens_total": stats["tokens"]["total"],
        "tokens_in_use": stats["tokens"]["in_use"],
        "client_open": stats["connections"].get("client_open"),
        "connections": stats["connections"]["client_accepted"],
        "token_hold_ms": _grown_ratio(stats, previous, "token_hold_us_total", "token_holds", 1e-3),
        "wasted_percent": _grown_ratio(stats, previous, "wasted_us", "busy_us", 100.0),
        "latency_samples": latency.get("count"),
        **{key: compared.get(key) for key in ("equal", "different", "not_compared", "refused")},
        **{
            f"{name}_ms": _ms(latency.get(f"{name}_us"))
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


class Annotations:
    """Events as points. A window has a point when it opens, which is replaced by one with its end
    when it closes."""

    def __init__(self, names: Mapping[str, str], ns_at: Callable[[float], int]) -> None:
        self._names = names
        self._ns_at = ns_at
        self._open: dict[tuple[Any, ...], float] = {}

    def point(self, event: Mapping[str, Any]) -> Point:
        """Return the next line of events.jsonl."""
        key = tuple(event[name] for name in _EVENT_KEYS)
        time_s = float(event["time_s"])
        closes = event["action"] in ("end", "revert")
        start_s = self._open.pop(key, time_s) if closes else time_s
        if event["action"] in ("start", "inject"):
            self._open[key] = time_s
        title = " ".join(part for part in (event["kind"], event["machine"]) if part)
        if event["action"] == "error":
            title = f"error: {title}"
        end = {"duration_ms": (time_s - start_s) * 1e3, "end_ms": self._ns_at(time_s) // 1_000_000}
        tags = {
            **self._names,
            "what": event["what"],
            "kind": event["kind"],
            "machine": event["machine"] or "all",
        }
        fields = {"title": title, "text": event["text"] or title, **(end if closes else {})}
        return Point("event", tags, fields, self._ns_at(start_s))


def verdict_point(
    names: Mapping[str, str], kind: str, met: bool | None, reasons: Sequence[str], time_ns: int
) -> Point:
    """Return the result of an arm, or the `run`, by then, as an event of no length."""
    title = f"{kind}: {_VERDICTS[met]}"
    if kind == "run":
        title = "run: nothing against it" if met else "run: not valid"
    mark = _mark(names, kind, title, "; ".join(reasons), time_ns)
    return replace(mark, fields={**mark.fields, "met": -1 if met is None else int(met)})


def look_point(names: Mapping[str, str], title: str, text: str, time_ns: int) -> Point:
    """Return a look at a run that goes on until it is decided, as an event of no length."""
    return _mark(names, "look", title, text, time_ns)


def _mark(names: Mapping[str, str], kind: str, title: str, text: str, time_ns: int) -> Point:
    tags = {**names, "what": "verdict", "kind": kind, "machine": "all"}
    end = {"end_ms": time_ns // 1_000_000, "duration_ms": 0.0}
    return Point("event", tags, {"title": title, "text": text or title, **end}, time_ns)


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1e3


def _grown_ratio(
    current: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
    above: str,
    below: str,
    scale: float,
) -> float | None:
    """Return the growth of `above` over that of `below`; None if `below` did not grow or a value is
    missing.
    """
    if previous is None or None in (
        current[above],
        current[below],
        previous[above],
        previous[below],
    ):
        return None
    if current[below] <= previous[below]:
        return None
    return scale * float(current[above] - previous[above]) / float(current[below] - previous[below])


def _server_fields(
    server: Mapping[str, Any], before: Mapping[str, Any] | None
) -> dict[str, float | int | None]:
    processing_ms = _grown_ratio(server, before, "processing_us_sum", "processing_count", 1e-3)
    return {
        "last_latency_ms": _ms(server["last_latency_us"]),
        "mean_latency_ms": _grown_ratio(server, before, "latency_us_sum", "latency_count", 1e-3),
        "processing_ms": processing_ms,
        **{name: server[name] for name in _SERVER_COUNTS},
        "alive": int(server["alive"]),
        "minority": (server.get("compare") or {}).get("minority"),
    }
