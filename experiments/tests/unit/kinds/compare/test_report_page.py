"""report.html from folders whole, torn and hostile, without a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import polars as pl
import pytest

from core.errors import InputError
from experiments.kinds.compare.folder import read_folder
from experiments.kinds.compare.page import write_page
from experiments.kinds.compare.verdict import gain
from experiments.record.records import REQUESTS, write_table
from experiments.report import marks
from experiments.report.grid import Grid
from experiments.tests.planned_fixture import planned_run
from experiments.tests.report_fixture import FakeRun, fake_run


class _Strict(HTMLParser):
    """Collects ids, and tags left open."""

    void = frozenset({"meta", "link", "br", "hr", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def small_run(title: str = "small") -> FakeRun:
    """A short run without the many small panels, which the browser's tests draw."""
    run = fake_run(seed=4, measure_s=20.0, rate_per_s=4.0, title=title)
    run.arbiters, run.hosts = run.arbiters.head(0), run.hosts.head(0)
    return run


@pytest.fixture
def small() -> FakeRun:
    return small_run()


def well_formed(page: Path) -> str:
    """A page's text, which has no tag left open and no id twice."""
    text = page.read_text()
    parser = _Strict()
    parser.feed(text)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    return text


def test_the_page_is_well_formed_and_names_no_address_but_svgs(
    small: FakeRun, tmp_path: Path
) -> None:
    page = write_page(small.write(tmp_path))
    assert page == tmp_path / "report.html"
    text = well_formed(page)
    assert set(re.findall(r"https?://[^\"' <)]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert well_formed(write_page(tmp_path)) == text, "a second report is the first"
    write_table(tmp_path / "requests.parquet", pl.DataFrame(schema=REQUESTS), REQUESTS)
    assert write_page(tmp_path).read_text() != text
    assert json.loads((tmp_path / "result.json").read_text())["schema"] == 1


def test_a_grid_of_charts_is_the_one_that_altair_makes() -> None:
    x_axis = alt.X("t:Q")
    lines = [marks.line([{"t": time, "v": time}], x_axis, alt.Y("v:Q")) for time in range(3)]
    panels = [
        alt.layer(line, line, title=f"{number}", width=90) for number, line in enumerate(lines)
    ]
    expected = alt.concat(*panels, columns=2, spacing=14).to_dict(validate=False)
    expected.pop("config")  # which `render` puts in its place
    assert Grid(panels, {"columns": 2, "spacing": 14}).to_dict(validate=False) == expected


def test_text_of_users_is_escaped_everywhere(tmp_path: Path) -> None:
    hostile = '<img src=x onerror="alert(1)"></title><script>alert(2)</script>'
    run = small_run(title=hostile)
    run.manifest["verdicts"]["measurement"] = {"ok": False, "reasons": [hostile]}
    run.manifest["command"] = ["sparecraft", "run", hostile]
    for line in run.events:
        line["machine"] = line["machine"] and hostile
    run.plan["binding"] = [hostile, {"constraint": hostile}]
    text = write_page(run.write(tmp_path)).read_text()
    assert "<img" not in text
    assert text.count("<script>") == 1
    assert "&lt;img src=x" in text


@pytest.mark.parametrize(
    "missing",
    [("plan.json", "hosts.parquet", "arbiters.parquet", "events.jsonl"),
     ("result.json", "requests.parquet"), ("manifest.json",)],
)  # fmt: skip
def test_a_missing_file_becomes_a_note(
    small: FakeRun, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    small.write(tmp_path)
    for name in missing:
        (tmp_path / name).unlink()
    text = write_page(tmp_path).read_text()
    assert all(f"{name} is not in the folder." in text for name in missing)


def test_a_torn_file_becomes_a_note(small: FakeRun, tmp_path: Path) -> None:
    small.write(tmp_path)
    names = ("plan.json", "requests.parquet", "result.json")
    for name in names:
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:40])
    text = write_page(tmp_path).read_text()
    assert all(f"{name} could not be read" in text for name in names)


def test_an_empty_folder_gives_a_page_of_notes(tmp_path: Path) -> None:
    text = write_page(tmp_path).read_text()
    assert "No plan was made from this run." in text
    assert "<figure" not in text


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder of a run"):
        write_page(tmp_path / "none")


def test_an_interrupted_run_shows_what_was_measured(small: FakeRun, tmp_path: Path) -> None:
    run = small
    run.requests = run.requests.filter(pl.col("intended_s") < 20.0)
    run.events = [line for line in run.events if line["time_s"] < 20.0]
    run.plan = {}
    run.manifest["verdicts"]["measurement"] = {"ok": False, "reasons": ["interrupted at 20 s"]}
    text = write_page(run.write(tmp_path)).read_text()
    assert "interrupted at 20 s" in text
    assert "nothing may be concluded from it (interrupted at 20 s)." in text
    assert "does not compare two arms" in gain(read_folder(tmp_path))
    assert 'id="over-time" data-figure' in text


@pytest.mark.parametrize(
    ("kept", "change", "said"),
    [(1, {"phase": pl.lit("measure")}, "No improvement factor"),
     (None, {"outcome": pl.lit("connection_error"), "latency_ms": pl.lit(0.0)},
      "requests was answered ok")],
    ids=["one request", "no good one"],
)  # fmt: skip
def test_few_requests_are_enough_for_a_page(
    small: FakeRun, tmp_path: Path, kept: int | None, change: dict[str, pl.Expr], said: str
) -> None:
    small.requests = small.requests.head(kept or small.requests.height).with_columns(**change)
    assert said in write_page(small.write(tmp_path)).read_text()


@pytest.mark.parametrize(
    ("feasible", "reason", "said"),
    [(False, "tier db: p99 800 ms at best", "No fleet within the limits meets the SLO."),
     (None, "prices: expected a book of prices", "No plan was made from this run.")],
)  # fmt: skip
def test_only_an_infeasible_plan_is_called_so_and_each_gives_its_reasons(
    small: FakeRun, tmp_path: Path, feasible: bool | None, reason: str, said: str
) -> None:
    small.plan = {"feasible": feasible, "usd_per_month": None, "tiers": {}, "binding": [],
                  "reasons": [reason]}  # fmt: skip
    text = write_page(small.write(tmp_path)).read_text()
    assert said in text
    assert reason in text
    assert ("No fleet within the limits" in text) is (feasible is False)


def test_what_the_simulator_predicted_stands_beside_what_was_measured(tmp_path: Path) -> None:
    folder = small_run().write(tmp_path)
    simulated = {
        "schema": 1, "fitted_arm": "baseline", "work_s": 0.04, "host_cores": 2.0,
        "busy_cores": 0.3, "speeds": {"web, interference.cpu": 0.12},
        "fitted": {"p50": [0.1, 0.1], "p95": [0.4, 0.41]},
        "predicted": {"replicated": {"requests": 80, "p50": [0.2, 0.17], "p95": [0.4, 0.5]}},
    }  # fmt: skip
    (folder / "simulated.json").write_text(json.dumps(simulated))
    text = well_formed(write_page(folder))
    for phrase in (
        'id="simulated-table"', "170 ms", "-15 %", "+25 %", "40 core ms", "baseline alone",
        "(web, interference.cpu: 0.12)", "2 cores, of which others used 0.3",
    ):  # fmt: skip
        assert phrase in text, phrase
    old_file = {key: simulated[key] for key in simulated if key != "speeds" and "cores" not in key}
    (folder / "simulated.json").write_text(json.dumps(old_file | {"speed": 0.25}))
    assert "under a neighbour (0.25)" in write_page(folder).read_text()
    (folder / "simulated.json").write_text('{"fitted_arm": "baseline", "reason": "too thin"}')
    text = write_page(folder).read_text()
    assert "Not simulated: too thin" in text
    assert "simulated-table" not in text


def test_a_run_of_a_plan_says_what_was_predicted_and_what_was_measured(tmp_path: Path) -> None:
    run = planned_run(measure_s=20.0, rate_per_s=4.0)
    run.arbiters = run.arbiters.head(0)  # its small panels are the browser's to draw
    text = well_formed(write_page(run.write(tmp_path)))
    for phrase in (
        'id="predicted-table"', "The planned fleet, at 70.00 USD a month", "231 ms predicted",
        "below the prediction", "insufficient:", "the planned machines", "one arm, planned",
        "An availability over a year is not measured by a run of",
    ):  # fmt: skip
        assert phrase in text, phrase
    assert "both arms of a pair" not in text


def test_limits_beyond_every_latency_are_drawn_where_they_are(
    small: FakeRun, tmp_path: Path
) -> None:
    small.manifest["spec"]["slo"].update(p95_ms=300_000.0, p99_ms=600_000.0)
    text = write_page(small.write(tmp_path / "run")).read_text()
    figure = text.split('id="over-time"', 1)[1].split("<template>", 1)[0]
    heights = re.findall(r'translate\([\d.]+,(-?[\d.]+)\)"[^>]*>SLO p9[59]<', figure)
    assert len(heights) == len(set(heights)) == 2


def test_shares_of_an_axis_are_written_as_in_the_text(small: FakeRun, tmp_path: Path) -> None:
    text = write_page(small.write(tmp_path)).read_text()
    figure = text.split('id="tail"', 1)[1].split("<template>", 1)[0]
    labels = set(re.findall(r">([\d.]+ ?%)</text>", figure))
    assert {"5 %", "10 %", "100 %"} <= labels
    assert all(" %" in label for label in labels)


def test_each_operation_has_a_row_with_its_verdict(small: FakeRun, tmp_path: Path) -> None:
    is_odd = pl.col("index") % 2 == 1
    small.requests = small.requests.with_columns(
        name=pl.when(is_odd).then(pl.lit("buy")).otherwise(pl.lit("page"))
    )
    small.manifest["spec"]["slo"]["operations"] = {"buy": {"p95_ms": 1.0}}
    text = write_page(small.write(tmp_path)).read_text()
    table = text.split('id="operations-table"', 1)[1].split("</table>", 1)[0]
    rows = re.findall(r'<th scope="row">(\w+)</th>.*?<td[^>]*data-of="arm"><span>([^<]+)<', table)
    arms = list(small.manifest["spec"]["arms"])
    assert rows == [(name, arm) for name in ("buy", "page") for arm in arms]
    assert len(re.findall(r'data-of="SLO"><span>[^<]+missed<', table)) == len(arms)
    assert 'href="#operations"' in text
