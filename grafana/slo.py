"""Charts of the SLO, its budgets, and the price: part of the experiment's dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from grafana import queries_slo as queries
from grafana.charts import Chart

_BURN = (
    "{bad}, over the share that may be ({share}), in the last 1 and 5 minutes. At 1 the budget is "
    "used up as fast as it may be. Both windows above 1: it burns now, and has for a while; only "
    "the short one: it has just begun; only the long one: it is over (SRE workbook, chapter 5). 0 "
    "where no request was; the warm-up counts for nothing."
)


def _burn(name: str, bad: str, share: str) -> Chart:
    return Chart(
        queries.BURN[name],
        _BURN.format(bad=bad, share=share),
        units.Short,
        "Times the budget",
        width=8,
        arms=True,
        limit=1.0,
    )


LATENCY = Chart(
    queries.LATENCY,
    "From the intended start to the last byte; a failed request is in it at the load's time-out, "
    "however quickly it failed. Red: the SLO's limits, as the design has them. A bucket of 15 s "
    "holds few requests: the lines show when the tail moved, the report says by how much.",
    units.Milliseconds,
    "Latency (log scale)",
    log=True,
    arms=True,
)
SLO_CHARTS = (
    Chart(
        queries.MIDDLE,
        "The same of the mean and of the median.",
        units.Milliseconds,
        "Latency (log scale)",
        log=True,
        arms=True,
    ),
    Chart(
        queries.SAMPLES,
        "How many requests a bucket's percentiles rest on. A p99 of fewer than 1000 is a guess.",
        units.Short,
        "Requests",
        arms=True,
    ),
    _burn("p95", "Share of requests that were slower than the SLO's p95 or failed", "5 %"),
    _burn("p99", "Share of requests that were slower than the SLO's p99 or failed", "1 %"),
    _burn("errors", "Share of requests that failed", "the SLO's max_error_share"),
)
COST_CHARTS = (
    Chart(
        queries.USD_PER_HOUR,
        "What the tiers' machines cost: their own price, else by the price book. The report says "
        "which.",
        units.Dollars,
        "USD per hour",
    ),
    Chart(
        queries.USD_PER_MILLION,
        "What the fleet cost while the load ran, over the requests that were answered well. It "
        "falls with the load: a fleet that is not used costs the same.",
        units.Dollars,
        "USD per million",
        arms=True,
    ),
)
EXTRA_WORK = Chart(
    queries.EXTRA_WORK,
    "Copies that the arbiter sent beyond one for each request: what replication asks of the "
    "servers. 0 at r = 1, 100 % at r = 2 while there are tokens; writes are sent to more.",
    units.Percent,
    "Beyond the first",
    width=24,
)
