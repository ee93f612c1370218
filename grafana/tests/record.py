"""Records one run out of an InfluxDB as line protocol: the fixture of the tests here.

`python -m grafana.tests.record --url http://127.0.0.1:18086 --experiment E --run R` writes
grafana/tests/data/run.lp.gz. Use it while a fleet is kept up after a run (`sparecraft run --keep`).
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import Any

from grafana.influx import Influx, view_of

RECORDED = Path(__file__).parent / "data" / "run.lp.gz"
_OF_RUN = ("request", "arbiter", "arbiter_server", "event", "slo", "cost")


def _field(value: Any, field_type: str) -> str:
    if field_type == "integer":
        return f"{int(value)}i"
    if field_type == "string":
        text = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return repr(float(value))


def _tag(value: str) -> str:
    for special in (",", "=", " "):
        value = value.replace(special, f"\\{special}")
    return value


def _lines(influx: Influx, measurement: str, where: str) -> list[str]:
    types = {
        name: field_type
        for series in influx.series(f'SHOW FIELD KEYS FROM "{measurement}"')
        for name, field_type in series["values"]
    }
    lines = []
    for series in influx.series(
        f'SELECT * FROM "{measurement}" WHERE {where} GROUP BY *', epoch="ns"
    ):
        tags = "".join(f",{key}={_tag(value)}" for key, value in series["tags"].items() if value)
        for at_ns, *values in series["values"]:
            fields = ",".join(
                f"{name}={_field(value, types[name])}"
                for name, value in zip(series["columns"][1:], values, strict=True)
                if value is not None
            )
            lines.append(f"{measurement}{tags} {fields} {at_ns}")
    return lines


def record(url: str, database: str, experiment: str, run: str) -> list[str]:
    """The run's points, one measurement after the other."""
    experiment_filter = f"\"experiment\" = '{experiment}'"
    lines = []
    with Influx(url, database) as influx:
        view = view_of(influx, experiment, run)
        time_filter = f"time >= {view.from_ms}ms AND time <= {view.to_ms}ms"
        for measurement in _OF_RUN:
            lines += _lines(influx, measurement, f"{experiment_filter} AND \"run\" = '{run}'")
        # `host` has no run tag: the run's time range picks its points.
        return lines + _lines(influx, "host", f"{experiment_filter} AND {time_filter}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m grafana.tests.record", description=__doc__)
    for name in ("--url", "--experiment", "--run"):
        parser.add_argument(name, required=True)
    parser.add_argument("--database", default="sparecraft")
    arguments = parser.parse_args()
    lines = record(arguments.url, arguments.database, arguments.experiment, arguments.run)
    text = "".join(f"{line}\n" for line in lines)
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(lines)} points in {RECORDED}")


if __name__ == "__main__":
    main()
