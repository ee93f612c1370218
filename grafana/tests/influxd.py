"""Points for a real InfluxDB on loopback."""

from __future__ import annotations

import httpx

_BATCH_LINES = 5000


def write(url: str, lines: list[str], database: str) -> None:
    """Writes line protocol with ns times into a database, which is made; raises on the first line
    that InfluxDB refuses."""
    response = httpx.post(f"{url}/query", params={"q": f"CREATE DATABASE {database}"})
    response.raise_for_status()
    for start in range(0, len(lines), _BATCH_LINES):
        batch = "\n".join(lines[start : start + _BATCH_LINES])
        answer = httpx.post(
            f"{url}/write", params={"db": database}, content=batch.encode(), timeout=30.0
        )
        if answer.status_code != 204:
            raise RuntimeError(f"expected 204 from /write, got {answer.status_code}: {answer.text}")
