"""Runs every comparison and keeps the result: `python -m bench`."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import availability, http, provision
from experiments.runner.manifest import host, versions

FOLDER = Path(__file__).parent


def main() -> None:
    """Measure, write, and print one line for each ratio."""
    date = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="sparecraft-bench-") as work:
        Path(work).chmod(0o755)
        result: dict[str, Any] = {
            "date": date.isoformat(timespec="seconds"),
            "command": "make bench",
            "host": host(),
            "versions": versions(),
            "http": http.measure(Path(work)),
            "availability": availability.measure(),
            "provision": provision.measure(),
        }
    text = json.dumps(result, indent=1) + "\n"
    runs = FOLDER / "runs"
    runs.mkdir(exist_ok=True)
    (runs / f"{date:%Y%m%dT%H%M%SZ}.json").write_text(text)
    (FOLDER / "latest.json").write_text(text)
    for line in _lines(result):
        sys.stdout.write(line + "\n")


def _lines(result: dict[str, Any]) -> list[str]:
    lines = [
        f"http, {count:>3} connections: arbiter {row['arbiter_rps']:.0f}/s, HAProxy "
        f"{row['haproxy_rps']:.0f}/s, ratio {row['ratio']:.2f}; r = 2: {row['ratio_r2']:.2f}"
        for count, row in result["http"].items()
    ]
    solver, fleet = result["availability"], result["provision"]
    lines.append(
        f"availability: {solver['ours_s'] * 1e3:.1f} ms, dense expm "
        f"{solver['dense_s'] * 1e3:.0f} ms, {solver['ratio']:.0f} times faster, "
        f"{solver['difference']:.0e} apart"
    )
    lines.append(
        f"provision: {fleet['machines']} machines in {fleet['apply_s']:.1f} s, plain docker run "
        f"{fleet['docker_run_s']:.1f} s, ratio {fleet['ratio']:.2f}"
    )
    return lines


if __name__ == "__main__":
    main()
