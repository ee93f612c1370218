"""Queries of latency beside the SLO, burn rates of its budgets, and the cost of good requests."""

from __future__ import annotations

from grafana.panel_query import THIS_RUN, THIS_TIER, PanelQuery, by_bucket, rate_of

LATENCY = "p95 and p99 per arm"
MIDDLE = "Mean and median per arm"
SAMPLES = "Requests per bucket and arm"
BURN = {
    "p95": "Burn rate of the p95",
    "p99": "Burn rate of the p99",
    "errors": "Burn rate of the errors",
}
USD_PER_HOUR = "USD per hour"
USD_PER_MILLION = "USD per million good requests"
EXTRA_WORK = "Extra work of replicas, tier $tier"

WINDOWS_MIN = (1, 5)  # of burn rates: what goes on now, and whether it has lasted
_BUCKET_S = 5
_TAIL_S = 15
_COST_S = 15  # the runner tells the cost every 5 s of a block
_MEASURED = f"{THIS_RUN} AND \"phase\" <> 'warm-up'"
_OLD_RUN = "written by a runner that did not tell it yet, or the design has no SLO"
_NO_PRICE = "a machine of the fleet has no price"


def _per_arm(panel: str, *columns: str) -> PanelQuery:
    query = by_bucket(", ".join(columns), "request", THIS_RUN, "arm")
    return PanelQuery(panel, "A", query, "$tag_arm $col", interval_s=_TAIL_S)


def _percentile(number: int) -> str:
    return f'percentile("latency_ms", {number}) AS "p{number}"'


def _limit(name: str, ref: str) -> PanelQuery:
    """Return a query of the SLO's limit, which the runner writes during the load."""
    query = by_bucket(f'max("{name}_ms")', "slo", THIS_RUN)
    return PanelQuery(LATENCY, ref, query, f"SLO {name}", interval_s=_TAIL_S, may_be_empty=_OLD_RUN)


def _burn(name: str, minutes: int, ref: str) -> PanelQuery:
    """Return a query of the burn rate: the share of bad requests over the allowed share.

    The window slides. `burn_*` is 1 / share for a bad request and 0 for another, so its mean is the
    burn rate. It is 0 without requests. As in the verdict the warm-up is left out.
    """
    buckets = minutes * 60 // _BUCKET_S
    where = _MEASURED.replace(
        "$timeFilter", f"time >= ${{__from}}ms - {minutes}m AND time <= ${{__to}}ms"
    )
    query = (
        f'SELECT moving_average(sum("burn_{name}"), {buckets}) / '
        f'moving_average(count("burn_{name}"), {buckets}) FROM "request" '
        f'WHERE {where} GROUP BY time({_BUCKET_S}s), "arm" fill(0)'
    )
    alias = f"$tag_arm {minutes} min"
    return PanelQuery(BURN[name], ref, query, alias, interval_s=_BUCKET_S, may_be_empty=_OLD_RUN)


SLO_QUERIES = (
    _per_arm(LATENCY, _percentile(95), _percentile(99)),
    _limit("p95", "B"),
    _limit("p99", "C"),
    _per_arm(MIDDLE, 'mean("latency_ms") AS "mean"', _percentile(50)),
    _per_arm(SAMPLES, 'count("latency_ms") AS "requests"'),
    *(
        _burn(name, minutes, ref)
        for name in BURN
        for minutes, ref in zip(WINDOWS_MIN, "AB", strict=True)
    ),
)
COST_QUERIES = (
    PanelQuery(
        USD_PER_HOUR,
        "A",
        by_bucket('max("usd_per_hour")', "cost", THIS_RUN),
        "the tiers' machines",
        interval_s=_COST_S,
        may_be_empty=_NO_PRICE,
    ),
    PanelQuery(
        USD_PER_MILLION,
        "A",
        by_bucket('1000000 * sum("usd") / sum("good")', "cost", THIS_RUN, "arm"),
        "$tag_arm",
        interval_s=_COST_S,
        may_be_empty=_NO_PRICE,
    ),
)
EXTRA = PanelQuery(
    EXTRA_WORK,
    "A",
    by_bucket(
        f"100 * {rate_of('replicas_sent')} / {rate_of('requests')} - 100",
        "arbiter",
        THIS_TIER,
        "tier",
    ),
    "copies beyond the first",
    interval_s=10,
)
