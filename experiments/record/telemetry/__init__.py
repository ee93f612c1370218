"""Live samples to InfluxDB, none lost.

Read `writer.py` first. `line.py` is the line protocol, `spool.py` the file for what could not be
delivered yet, `points.py` the measurements of Sparecraft, `query.py` reads back.
"""

from experiments.record.telemetry.line import Point
from experiments.record.telemetry.points import arbiter_points, request_point
from experiments.record.telemetry.query import InfluxQuery
from experiments.record.telemetry.writer import InfluxWriter, TelemetryStats

__all__ = [
    "InfluxQuery",
    "InfluxWriter",
    "Point",
    "TelemetryStats",
    "arbiter_points",
    "request_point",
]
