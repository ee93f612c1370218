"""The site: every design, every night, also those that went wrong."""

from __future__ import annotations

import fcntl
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from experiments.nightly import site as site_module
from experiments.nightly.feed import feed_values
from experiments.nightly.history import FILE, History, Run, read_history
from experiments.nightly.planted import Planted, made_up_nights, report_changes
from experiments.nightly.site import build_site
from experiments.nightly.suite import Suite, load_suite
from experiments.report import palette
from experiments.report.text import MISSING
from experiments.tests.nightly_fixture import T0, levels, made_up_run, suite_file, write_nights

ATOM = "{http://www.w3.org/2005/Atom}"


def _site(
    folder: Path, nights: Sequence[list[Run]], *designs: str, entries: Sequence[str] = (),
    **last: Any,
) -> Path:  # fmt: skip
    path = suite_file(folder, *(designs or ("mediawiki-noisy",)))
    names = entries or [design.split(":")[0] for design in designs] or ["mediawiki-noisy"]
    write_nights(folder / "nightly", nights, names, **last)
    suite = load_suite(path)
    return build_site(suite).parent


def _words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_every_link_within_the_site_leads_to_a_page(tmp_path: Path) -> None:
    run = made_up_run(1, folder="mediawiki-noisy/one")
    folder = tmp_path / "results" / "mediawiki-noisy" / "one"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<h1>the run</h1>")
    site = _site(tmp_path, [run])
    pages = list(site.glob("*.html")) + list(site.glob("designs/*.html"))
    assert len(pages) == 5
    for page in pages:
        for link in re.findall(r'href="([^"#:]+)"', page.read_text()):
            assert (page.parent / link).is_file(), (page, link)
    assert (site / "runs/mediawiki-noisy/one/report.html").read_text() == "<h1>the run</h1>"


def test_a_run_that_is_not_valid_is_drawn_hollow_and_the_answer_is_the_newest_valid_one_s(
    tmp_path: Path,
) -> None:
    nights = [made_up_run(1), made_up_run(2, p95_ms=700.0), made_up_run(3, valid=False)]
    site = _site(tmp_path, nights)
    drawing = _drawing(site, "p95-nights")
    hollow = re.findall(rf'<path[^>]*fill="{palette.PAPER.light}"[^>]*stroke="#', drawing)
    assert len(hollow) == 2  # both arms of the third night
    spark = (site / "index.html").read_text().split('class="figure spark"', 1)[1]
    assert spark.split("</svg>", 1)[0].count(f'fill="{palette.PAPER.light}"') == 1
    assert "none of 1 runs was valid" in _words((site / "index.html").read_text())
    words = _words((site / "designs" / "mediawiki-noisy.html").read_text())
    assert "replicated missed the SLO in night 2" in words
    assert "over 2 runs" in words
    assert "3 runs in 3 nights, 2 valid" in words


def _drawing(site: Path, identity: str) -> str:
    page = (site / "designs" / "mediawiki-noisy.html").read_text()
    figure = page.split(f'id="{identity}"', 1)[1].split("</figure>", 1)[0]
    return figure.split('<div class="drawing">', 1)[1].split("<template>", 1)[0]


def _titles(site: Path) -> list[str | None]:
    feed = ET.fromstring((site / "feed.xml").read_text())
    ids = [entry.findtext(f"{ATOM}id") for entry in feed.iter(f"{ATOM}entry")]
    assert len(set(ids)) == len(ids)
    return [entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")]


@pytest.mark.parametrize(
    ("designs", "nights", "last", "entry", "said"),
    [
        (("memcached-noisy",), [made_up_run(1)], {}, "mediawiki-noisy", "no longer in the suite"),
        (("memcached-noisy", "given-up"), [made_up_run(1, "given-up")], {}, "given-up",
         "cannot be read"),
        (("mediawiki-noisy", "memcached-noisy"), [made_up_run(1)],
         {"left_out": ("memcached-noisy",)}, "memcached-noisy", "left for the next"),
        (("mediawiki-noisy",), [made_up_run(1, valid=False)], {}, "mediawiki-noisy",
         "no run was valid"),
        (("mediawiki-noisy",), [[]], {}, "mediawiki-noisy", "not run yet"),
    ],
)  # fmt: skip
def test_a_design_that_has_no_news_says_why(
    tmp_path: Path, designs: tuple[str, ...], nights: list[list[Run]], last: dict[str, object],
    entry: str, said: str,
) -> None:  # fmt: skip
    entries = {run.entry for night in nights for run in night} | {entry}
    site = _site(tmp_path, nights, *designs, entries=sorted(entries), **last)
    tile = (site / "index.html").read_text().split(f'id="tile-{entry}"', 1)[1].split("</li>", 1)[0]
    assert said in _words(tile)
    assert said in _words((site / "designs" / f"{entry}.html").read_text())


def test_the_feed_s_title_says_that_a_design_is_incomplete(tmp_path: Path) -> None:
    nights = [[*made_up_run(1), *made_up_run(1, "redis-noisy", number=2, valid=False)],
              [*made_up_run(2), *made_up_run(2, "redis-noisy", number=2)]]  # fmt: skip
    names = ("mediawiki-noisy", "redis-noisy")
    write_nights(tmp_path, nights, names)
    titles = [entry["title"] for entry in feed_values(read_history(tmp_path))]
    assert titles == ["Night 2: SLO met", "Night 1: 1 of 2 designs incomplete, SLO met"]


def test_a_site_is_built_by_one_at_a_time_of_the_history_as_it_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = load_suite(suite_file(tmp_path, "mediawiki-noisy"))
    write_nights(suite.folder, [made_up_run(1)])
    last_nights = []

    def write(_: Suite, history: History, into: Path) -> None:
        with (suite.folder / ".site.lock").open("a") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        last_nights.append(history.last_night)
        into.mkdir()

    monkeypatch.setattr(site_module, "_write", write)
    build_site(suite)
    assert last_nights == [1]


def test_a_change_is_told_in_its_own_unit_on_every_page(tmp_path: Path) -> None:
    nights = made_up_nights(Planted("", dearer=3.0), nights=34)
    changes_by_night = report_changes(nights, lambda *_: None)
    site = _site(tmp_path, nights, told=changes_by_night, changes=tuple(changes_by_night[32]))
    for page in ("index.html", "changes.html", "designs/mediawiki-noisy.html"):
        words = _words((site / page).read_text())
        assert "100.00 USD" in words
        assert "300.00 USD" in words
    history = json.loads((site / "history.json").read_text())
    assert {(row["figure"], row["direction"], row["night"]) for row in history["changes"]} == {
        ("plan_usd_per_month", "up", 31), ("usd_per_million_good", "up", 31),
    }  # fmt: skip


def test_nights_stay_in_their_order_when_the_clock_went_backwards(tmp_path: Path) -> None:
    early = T0 - timedelta(days=9)
    site = _site(tmp_path, [made_up_run(1), made_up_run(2, at=early, started=early, p95_ms=800.0)])
    index = _words((site / "index.html").read_text())
    assert "Night 2: 1 of 1 runs valid, SLO missed" in index
    assert "SLO missed by mediawiki-noisy" in index
    page = _words((site / "designs" / "mediawiki-noisy.html").read_text())
    assert "replicated missed the SLO in night 2, the newest valid one" in page
    assert _titles(site) == ["Night 2: SLO missed", "Night 1: SLO met"]


def test_a_run_without_arms_shows_what_it_found(tmp_path: Path) -> None:
    finding = "NodT: cache-reader 437/s"
    plain = made_up_run(1, "redis-capacity", kind="capacity", found=finding, slo={}, judged=None)
    line = plain[0].model_copy(
        update={"arm": None, "p50": None, "p95": None, "p99": None, "plan": {}, "baseline": None}
    )
    site = _site(tmp_path, [[line]], "redis-capacity")
    words = _words((site / "index.html").read_text())
    assert words.count(finding) == 2  # on its tile, and in the table of the night
    page = _words((site / "designs" / "redis-capacity.html").read_text())
    assert page.count(finding) == 2  # in the headline, and in the table of runs
    assert "SLO undecided" not in words + page


def test_a_run_that_its_guard_stopped_is_seen_everywhere(tmp_path: Path) -> None:
    reasons = ("measurement: stopped by guard: p99 900 ms of 93 requests in 15 s, limit 800",)
    stopped = made_up_run(2, valid=False, stopped="guard", reasons=reasons, slo_met=None)
    site = _site(tmp_path, [made_up_run(1), stopped])
    words = _words((site / "index.html").read_text())
    assert "Stopped by guard: mediawiki-noisy." in words
    assert "stopped by guard, night 2" in words
    page = _words((site / "designs" / "mediawiki-noisy.html").read_text())
    assert page.count("stopped by guard") >= 3  # a row for each arm, and why it is not valid


def test_a_halted_night_says_so_in_headline_and_feed_and_what_was_not_read_is_named(
    tmp_path: Path,
) -> None:
    site = _site(tmp_path, [made_up_run(1)], halted="too hot")
    index = _words((site / "index.html").read_text())
    assert "Halted: too hot. Night 1: 1 of 1 runs valid" in index
    assert _titles(site) == ["Night 1: halted, SLO met"]
    page = (site / "designs" / "mediawiki-noisy.html").read_text()
    rows = re.findall(r"<tr>.*?</tr>", page.split('id="pooled"')[1].split("</table>")[0], re.S)
    spreads = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)[-2] for row in rows[1:]]
    assert {re.sub(r"<[^>]+>", "", cell).strip() for cell in spreads} == {MISSING}, "of one run"
    assert "close = true" in (site / "predictions.html").read_text(), "it says how to get one"
    with (tmp_path / "nightly" / FILE).open("a") as file:
        file.write('{"schema": 9}\n')
    site.rename(site.with_name(".site.old"))  # as where the renaming was cut short
    page = build_site(load_suite(tmp_path / "nightly.toml")).read_text()
    assert "later version" in page
    assert not site.with_name(".site.old").exists()


def test_a_change_is_on_its_page_its_design_s_and_its_tile(tmp_path: Path) -> None:
    logs = levels(20, change_at=14, size=-0.9, spread=0.1, seed=3)
    nights = [made_up_run(night, log=log) for night, log in enumerate(logs, start=1)]
    site = _site(tmp_path, nights)
    for page in ("changes.html", "designs/mediawiki-noisy.html"):
        assert "c0014 to c0015" in _words((site / page).read_text())
    assert "night 15" in _words((site / "index.html").read_text())
    history = json.loads((site / "history.json").read_text())
    assert {change["night"] for change in history["changes"]} == {15}
    assert len(history["runs"]) == 40


def test_fronts_of_the_newest_night_and_of_a_week_before_are_drawn(tmp_path: Path) -> None:
    nights = []
    for night in (1, 2, 9, 10):
        folder = tmp_path / "results" / "mediawiki-noisy" / str(night)
        folder.mkdir(parents=True)
        points = [{"predicted": {"p95_ms": 400.0 - night}, "usd_per_month": 80.0},
                  {"predicted": {"p95_ms": 200.0}, "usd_per_month": 120.0 + night}]  # fmt: skip
        front = {"limit": "p99_ms", "points": points}
        (folder / "plan.json").write_text(json.dumps({"pareto": [front]}))
        nights.append(made_up_run(night, folder=f"mediawiki-noisy/{night}"))
    site = _site(tmp_path, nights)
    page = (site / "designs" / "mediawiki-noisy.html").read_text()
    assert "front of night 2" in page
    figure = page.split('id="cost-slo"', 1)[1].split("<template>", 1)[0]
    assert re.search(rf'stroke="{palette.INTERFERENCE.light}"[^>]*stroke-dasharray', figure)
