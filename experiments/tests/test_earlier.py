"""A single run is told among the earlier ones of its design."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from experiments.record.earlier import among_earlier, earlier_factors
from experiments.tests.nightly_fixture import template_run


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template_run(tmp_path_factory.mktemp("template") / "run")


def _run(template: Path, root: Path, hour: int, factor: float | None, valid: bool = True) -> Path:
    folder = root / f"20261120T{hour:02d}0000Z"
    folder.mkdir(parents=True)
    for name in ("result.json", "manifest.json"):
        shutil.copy(template / name, folder)
    body = json.loads((folder / "result.json").read_text())
    body |= {"valid": valid, "started": f"2026-11-20T{hour:02d}:00:00+00:00"}
    body["compare"]["improvement"]["p95"]["factor"] = factor
    (folder / "result.json").write_text(json.dumps(body))
    return folder


def test_valid_runs_before_this_one_count_and_no_others(template: Path, tmp_path: Path) -> None:
    for hour, factor in ((1, 2.0), (2, 5.03), (3, 1.38)):
        _run(template, tmp_path, hour, factor)
    _run(template, tmp_path, 4, 9.0, valid=False)
    _run(template, tmp_path, 5, None)
    this = _run(template, tmp_path, 6, 2.5)
    _run(template, tmp_path, 7, 7.0)
    (tmp_path / "latest").symlink_to("20261120T020000Z")
    (tmp_path / "20261120T003000Z").mkdir()
    assert earlier_factors(this, "p95") == [2.0, 5.03, 1.38]
    assert among_earlier(this, "p95").endswith("3 earlier runs ranged from 1.38 to 5.03")


def test_runs_of_other_arms_do_not_count(template: Path, tmp_path: Path) -> None:
    other = _run(template, tmp_path, 1, 2.0)
    body = json.loads((other / "result.json").read_text())
    body["compare"]["compared"]["other"] = "hedged"
    (other / "result.json").write_text(json.dumps(body))
    assert earlier_factors(_run(template, tmp_path, 2, 2.0), "p95") == []


def test_a_first_run_says_that_there_is_no_earlier_one(template: Path, tmp_path: Path) -> None:
    first = _run(template, tmp_path, 1, 2.0)
    assert "no earlier" in among_earlier(first, "p95")
    second = _run(template, tmp_path, 2, 3.0)
    assert "2" in among_earlier(second, "p95")
