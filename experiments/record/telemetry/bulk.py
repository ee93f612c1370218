"""Many points at once, of runs that are over: one batch after the other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import httpx

from core.errors import EnvironmentMissing, in_words
from experiments.record.telemetry.line import Point
from experiments.record.telemetry.writer import BATCH_LINES, DATABASE
from grafana.address import client_of, without_login

_TIMEOUT_S = 60.0


def deliver(url: str, points: Iterable[Point]) -> int:
    """Write points into an InfluxDB, create its database, and return the number of points.

    The same points again change nothing. Raises EnvironmentMissing if it does not accept them.
    """
    count, rest = 0, iter(points)

    def post(path: str, parameters: dict[str, str], content: bytes = b"") -> None:
        answer = client.post(path, params=parameters, content=content)
        if not answer.is_success:
            got = f"HTTP {answer.status_code}: {answer.text.strip()[:300]}"
            raise _refusal(url, f"to take POST {path}", got)

    try:
        with client_of(url, _TIMEOUT_S) as client:
            post("/query", {"q": f'CREATE DATABASE "{DATABASE}"'})
            while lines := [point.line() for point in islice(rest, BATCH_LINES)]:
                post("/write", {"db": DATABASE, "precision": "ns"}, b"\n".join(lines))
                count += len(lines)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _refusal(url, "an answer", in_words(error)) from error
    return count


def _refusal(url: str, expected: str, got: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"InfluxDB at {without_login(url)}",
        expected=expected,
        got=got,
        hint="Name one that runs, such as http://127.0.0.1:8086 "
        "(http://USER:PASSWORD@127.0.0.1:8086 "
        "where it asks for them), or leave --influxdb out.",
    )
