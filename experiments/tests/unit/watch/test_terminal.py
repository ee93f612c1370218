"""A snapshot on a terminal, without an InfluxDB."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from experiments.watch.terminal import render

ARM = {"arm": "replicated", "requests": 5_000, "failed": 3, "mean": 80.0, "p50": 70.0, "p90": 120.0,
       "p95": 231.0, "p99": 874.0, "max": 2_000.0, "usd_per_million": 3.4, "last_minute": None,
       "burn": {"p95": {"1 min": 0.4, "5 min": 0.6, "said": "within"}}}  # fmt: skip
SNAPSHOT: dict[str, Any] = {
    "experiment": "mediawiki-noisy", "run": "20261129T120000Z", "live": False, "arm": None,
    "phase": None, "from_ms": 0, "to_ms": 1_796_000_000_000, "slo": {"p95": 300.0},
    "usd_per_hour": 0.12, "faults": [], "failures": {"connection_error": 1_203},
    "extra_work_percent": {}, "windows": [], "arms": [ARM], "verdicts": {},
}  # fmt: skip


def printed(width: int, **changes: Any) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(render({**SNAPSHOT, **changes}, width))
    return output.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_that_is_over_has_its_date_and_its_failures_in_words(width: int) -> None:
    text = printed(width)
    assert "over since 2026-11-" in text
    assert "1,203 connection error" in text
    assert "connection_error" not in text
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert any(line.startswith("Burn rate") and "allows" in line for line in text.splitlines())


def test_a_guess_is_marked_and_the_mark_explained() -> None:
    few = {**ARM, "requests": 40}
    assert "?" not in printed(120)
    text = printed(120, arms=[few])
    assert "874 ?" in text
    assert "\n?: " in text


def test_a_long_fault_is_told_in_the_unit_that_fits() -> None:
    fault = {"title": "net.limp on web-1", "start_ms": SNAPSHOT["to_ms"] - 5_400_000}
    assert "net.limp on web-1 for 1.5 h" in printed(120, live=True, faults=[fault])
