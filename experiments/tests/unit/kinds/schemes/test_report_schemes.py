"""Fail-over in the report and on the terminal: what was measured, and what the model says."""

from __future__ import annotations

import html
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.console import Console

from core.runfiles.events import Event, windows
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.schemes import KIND
from experiments.kinds.schemes.strength import strength
from experiments.kinds.schemes.tables import section_values, strength_sentence
from experiments.record.records import write_json
from experiments.record.result import result_of
from experiments.report.text import percent
from experiments.tests.report_fixture import fake_run
from experiments.tests.strength_fixture import cloud_events, fleet_of

LENGTH_S = 600.0


def _run() -> RunFolder:
    lines = cloud_events(3, 60.0, 10.0, LENGTH_S).lines
    lines += [
        {**lines[0], "what": "arm", "kind": "tad", "action": "start", "time_s": 0.0},
        {**lines[0], "what": "arm", "kind": "tad", "action": "end", "time_s": LENGTH_S},
    ]
    events = [cast(Event, line) for line in lines]
    run_windows = windows(events, LENGTH_S)
    manifest: dict[str, Any] = {"spec": {"failover": {"heartbeat_s": 1.0}}}
    summary = {
        "strength": strength(
            events, run_windows, manifest, fleet_of("cloud", 2, 0), np.random.default_rng(1)
        )
    }
    return RunFolder(
        Path("results"), manifest=manifest, summary=summary, events=events, windows=run_windows
    )


def test_measured_and_predicted_are_said_with_their_intervals() -> None:
    run = _run()
    figures = run.summary["strength"]
    sentence = strength_sentence(figures)
    assert "Tier web was at full strength" in sentence
    assert "PCRAFT's model says" in sentence
    values: Any = section_values(run)
    cells = [cell.text for cell in values["strength"].rows[0]]
    assert cells[0] == "web: replaced in the cloud"
    assert cells[1] == "2 needed"
    assert cells[2].endswith(f"({figures['tiers']['web']['crashes']})")
    text = StringIO()
    result = {"kind": "schemes", "schemes": run.summary}
    KIND.print_result(result, Console(file=text, width=140), Path("report.html"))
    assert "Time at full strength" in text.getvalue()


def test_an_empty_pool_is_said_and_not_hidden() -> None:
    run = _run()
    run.summary["strength"]["pool_empty"] = {"count": 2, "total_s": 12.5}
    run.summary["strength"]["errors"] = 1
    values: Any = section_values(run)
    assert any("empty 2 times" in note and "12.5 s" in note for note in values["notes"])
    assert any("1 steps of fail-overs failed" in note for note in values["notes"])


def test_a_run_with_fail_over_has_its_section_beside_the_arms(tmp_path: Path) -> None:
    run = fake_run(order="A", measure_s=30.0, rate_per_s=4.0)
    run.events = cloud_events(3, 20.0, 2.0, 45.0).lines
    run.manifest["spec"] |= {"kind": "schemes", "arms": {"baseline": {}},
                             "failover": {"heartbeat_s": 1.0},
                             "fleet": fleet_of("cloud", 2, 0).model_dump(mode="json")}  # fmt: skip
    run.write(tmp_path)
    result = result_of("schemes", run.manifest, KIND.analyse(tmp_path)) | {"valid": True}
    write_json(tmp_path / "result.json", result)
    assert result["schemes"]["strength"]["tiers"]["web"]["crashes"] > 0
    page = KIND.write_page(tmp_path).read_text()
    for identity in ("strength-table", "members", "failovers", "arm-table"):
        assert f'id="{identity}"' in page
    sentence = strength_sentence(result["schemes"]["strength"])
    assert sentence in html.unescape(page)
    share = percent(result["schemes"]["strength"]["tiers"]["web"]["measured"]["share"])
    assert KIND.row(result)["web at full strength"] == share
    assert "arms" not in KIND.row(result)
    assert KIND.row(result | {"valid": False})["arms"] == 1
    write_json(tmp_path / "result.json", result | {"valid": False})
    assert sentence not in html.unescape(KIND.write_page(tmp_path).read_text())
