"""Live samples to InfluxDB, without loss.

Read `writer.py` first. `line.py` is the line protocol, `spool.py` the file of undelivered points,
`points.py` the measurements of Sparecraft, `account.py` what an SLO and a price add to them;
`query.py` reads back. `bulk.py` and `local.py` are for runs that are over.
"""

from experiments.record.telemetry.account import Account
from experiments.record.telemetry.line import Point
from experiments.record.telemetry.points import (
    Annotations,
    arbiter_points,
    look_point,
    request_point,
    verdict_point,
)
from experiments.record.telemetry.query import InfluxQuery
from experiments.record.telemetry.writer import InfluxWriter, TelemetryStats

__all__ = [
    "Account",
    "Annotations",
    "InfluxQuery",
    "InfluxWriter",
    "Point",
    "TelemetryStats",
    "arbiter_points",
    "look_point",
    "request_point",
    "verdict_point",
]
