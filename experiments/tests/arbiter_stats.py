"""The answer of an arbiter to GET /v1/stats."""

STATS = {
    "tier": "web",
    "protocol": "http",
    "policy": "tad",
    "replicas": 2,
    "tokens_per_server": 1,
    "uptime_s": 12.3,
    "requests": {
        "received": 10, "answered": 9, "failed": 1, "cloned": 8, "reads": 8, "reads_of_one": 1,
        "writes": 2,
    },
    "replicas_sent": 18,
    "replicas_not_needed": 2,
    "replicas_wasted": 7,
    "wasted_us": 12345,
    "busy_us": 61725,
    "wasted_percent": 20.0,
    "connections": {"client_accepted": 4, "client_open": 3},
    "token_wait_us_total": 99,
    "token_waits": 3,
    "token_holds": 18,
    "token_hold_us_total": 90_000,
    "server_cores": 0.4,
    "compare": {
        "compared": 8, "equal": 6, "different": 2, "not_compared": 1, "too_large": 0, "refused": 1,
    },
    "recent": {
        "seconds": 12,
        "requests_per_s": 0.8,
        "connections_per_s": 0.3,
        "latency": {
            "count": 10, "mean_us": 5100, "p50_us": None, "p95_us": None, "p99_us": None,
            "p99_9_us": None, "max_us": 9000,
        },
    },
    "tokens": {"total": 2, "in_use": 1},
    "servers": [
        {"name": f"web-{n}", "address": f"198.18.1.1{n}:80", "alive": n == 1, "tokens_free": 1,
         "in_flight": 0, "requests": 9, "wins": 5, "errors": 0,
         "last_latency_us": None if n == 2 else 41234, "latency_us_sum": 90000, "latency_count": 2,
         "processing_us_sum": 4000 * n, "processing_count": 2, "busy_us": 45_000 * n,
         "connections_opened": 1, "connections_reused": 8,
         "compare": {"compared": 8, "minority": n - 1, "disputed": 0}}
        for n in (1, 2)
    ],
}  # fmt: skip
