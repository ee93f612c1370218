"""Fail-over in the report and on the terminal: what was measured, and what the model says."""

from __future__ import annotations

import json
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from experiments.metrics.strength import schemes
from experiments.metrics.windows import windows
from experiments.report.figures_schemes import STAGES, failover_parts, members_over_time
from experiments.report.folder import RunFolder
from experiments.report.layout import NARROW, WIDE
from experiments.report.schemes import scheme_words, strength_sentence
from experiments.report.terminal import print_summary
from experiments.tests.test_metrics_strength import _cloud, _fleet

LENGTH_S = 600.0


def _run() -> RunFolder:
    events = _cloud(3, 60.0, 10.0, LENGTH_S).lines
    events += [
        {**events[0], "what": "arm", "kind": "tad", "action": "start", "time_s": 0.0},
        {**events[0], "what": "arm", "kind": "tad", "action": "end", "time_s": LENGTH_S},
    ]
    found = windows(events, LENGTH_S)
    manifest: dict[str, Any] = {"spec": {"failover": {"heartbeat_s": 1.0}}}
    summary = {
        "schemes": schemes(events, found, manifest, _fleet("cloud", 2, 0), np.random.default_rng(1))
    }
    return RunFolder(
        Path("results"), manifest=manifest, summary=summary, events=events, windows=found
    )


def _rows(drawn: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    """A layer's data, which Altair keeps at the top of the drawing, as text."""
    rows: list[dict[str, Any]] = json.loads(drawn["datasets"][layer["data"]["name"]])
    return rows


def test_bars_are_the_parts_of_each_fail_over_in_their_order() -> None:
    run = _run()
    whole = run.summary["schemes"]["failovers"]
    for one in whole:
        one.update(detection_s=1.0, boot_s=2.0, start_s=one["total_s"] - 3.0)
    for size in (WIDE, NARROW):
        drawn = failover_parts(run, size).to_dict(validate=False)
        first = _rows(drawn, drawn)[: len(STAGES)]
        assert [row["t"] for row in first[1:]] == [row["end"] for row in first[:-1]]
        assert abs(first[-1]["end"] - whole[0]["total_s"]) < 1e-9


def test_steps_count_the_machines_that_serve() -> None:
    run = _run()
    drawn = members_over_time(run, WIDE).to_dict(validate=False)
    _, line = drawn["vconcat"][0]["layer"]
    rows = _rows(drawn, line)
    assert (rows[0]["t"], rows[0]["v"]) == (0.0, 2)
    assert {row["v"] for row in rows} <= {0, 1, 2}
    crashes = run.summary["schemes"]["tiers"]["web"]["crashes"]
    falls = sum(a["v"] > b["v"] for a, b in pairwise(rows))
    assert falls == crashes


def test_measured_and_predicted_are_said_with_their_intervals() -> None:
    run = _run()
    found = run.summary["schemes"]
    sentence = strength_sentence(found)
    assert "Tier web was at full strength" in sentence
    assert "PCRAFT's model says" in sentence
    words = scheme_words(run)
    assert words is not None
    cells = [cell.text for cell in words["strength"].rows[0]]
    assert cells[0] == "web: cloud"
    assert cells[1] == "2 needed"
    assert cells[2].endswith(f"({found['tiers']['web']['crashes']})")
    text = StringIO()
    print_summary(run.summary, Console(file=text, width=140))
    assert "Time at full strength" in text.getvalue()


def test_an_empty_pool_is_said_and_not_hidden() -> None:
    run = _run()
    run.summary["schemes"]["pool_empty"] = {"count": 2, "total_s": 12.5}
    run.summary["schemes"]["errors"] = 1
    words = scheme_words(run)
    assert words is not None
    assert any("empty 2 times" in note and "12.5 s" in note for note in words["notes"])
    assert any("1 steps of fail-overs failed" in note for note in words["notes"])
