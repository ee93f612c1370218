"""report.html in a real headless Chromium: desk, phone, dark, print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser

from experiments.kinds.compare.page import write_page
from experiments.kinds.limplock.page.report import write_page as write_limplock_page
from experiments.tests.capacity_fixture import capacity_page_of, measured_steps
from experiments.tests.chromium import browser as browser
from experiments.tests.chromium import opened
from experiments.tests.limplock_fixture import SLOW_FOLLOWER, SLOW_LEADER, Made
from experiments.tests.performability_fixture import write_run as write_performability_run
from experiments.tests.planned_fixture import planned_run
from experiments.tests.report_fixture import fake_run

FIGURES = {"improvement", "over-time", "boxes", "tail", "servers", "hosts", "front-availability",
           "front-p99"}  # fmt: skip
_CONTRAST = """
() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const numbers = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const weights = [0.2126, 0.7152, 0.0722];
  const light = (rgb) => rgb.map(channel).reduce((s, v, i) => s + v * weights[i], 0);
  const paper = light(numbers(getComputedStyle(document.body).backgroundColor));
  const ratio = (rgb) => {
    const ink = light(rgb);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  };
  const found = {text: [], graphic: []};
  for (const node of document.querySelectorAll("p, td, th, dt, dd, li, figcaption, a, h1, h2")) {
    if (node.textContent.trim()) found.text.push(ratio(numbers(getComputedStyle(node).color)));
  }
  for (const node of document.querySelectorAll("figure svg.figure text")) {
    const own = node.getAttribute("fill");
    if (own && own !== "#fefefe") found.text.push(ratio(numbers(getComputedStyle(node).fill)));
  }
  for (const node of document.querySelectorAll(".legend svg [fill^='#']")) {
    found.graphic.push(ratio(numbers(getComputedStyle(node).fill)));
  }
  return {text: Math.min(...found.text), graphic: Math.min(...found.graphic)};
}
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    return write_page(fake_run(seed=4, measure_s=30.0).write(folder))


@pytest.fixture(scope="module")
def planned_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = planned_run(measure_s=20.0)
    return write_page(run.write(tmp_path_factory.mktemp("planned")))


@pytest.fixture(scope="module")
def many_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run of eight arms, seven of which are alike."""
    run = fake_run(seed=4, measure_s=20.0, rate_per_s=4.0)
    run.arbiters, run.hosts = run.arbiters.head(0), run.hosts.head(0)
    names = [f"least-outstanding-2{number}" for number in range(7)]
    copies = pl.col("arm") == "replicated"
    arm_requests = [run.requests.filter(copies).with_columns(arm=pl.lit(name)) for name in names]
    run.requests = pl.concat([run.requests.filter(~copies), *arm_requests])
    arms = run.manifest["spec"]["arms"]
    run.manifest["spec"]["arms"] = {
        "baseline": arms["baseline"], **dict.fromkeys(names, arms["replicated"])
    }  # fmt: skip
    return write_page(run.write(tmp_path_factory.mktemp("many")))


@pytest.fixture(scope="module")
def faults_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    write_performability_run(folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def limplock_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limplock")
    Made(folder, SLOW_LEADER, SLOW_FOLLOWER).result()
    return write_limplock_page(folder)


@pytest.fixture(scope="module")
def capacity_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capacity_page_of(measured_steps(sweeps=2), tmp_path_factory.mktemp("capacity"))


@pytest.mark.parametrize("width", [1280, 390])
def test_every_figure_is_drawn_and_nothing_complains(
    browser: Browser, report: Path, width: int
) -> None:
    page, trouble = opened(browser, report, width)
    assert {node.get_attribute("id") for node in page.query_selector_all("figure")} == FIGURES
    for identity in FIGURES:
        drawings = page.query_selector_all(f"#{identity} .drawing > svg")
        assert len(drawings) == 1
        box = drawings[0].bounding_box()
        assert box is not None
        assert box["width"] > 250
        assert box["height"] > 80
        assert drawings[0].query_selector_all("path, rect, line"), identity
        assert drawings[0].query_selector("title, desc") is not None
    assert trouble == []
    page.close()


@pytest.mark.parametrize("width", [320, 390, 768, 1100, 1265, 1400])
@pytest.mark.parametrize("kind", ["report", "planned_report", "many_report", "capacity_report",
                                  "faults_report", "limplock_report"])  # fmt: skip
def test_nothing_runs_over_the_edge_and_no_table_is_cut_off(
    browser: Browser, request: pytest.FixtureRequest, kind: str, width: int
) -> None:
    page, _ = opened(browser, request.getfixturevalue(kind), width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    overflowing = page.evaluate(
        """(width) => [...document.querySelectorAll("body *")]
        .filter((node) => !node.closest(".scroll, svg, .quiet"))
        .filter((node) => node.getBoundingClientRect().right > width + 1)
        .map((node) => node.outerHTML.slice(0, 80))""",
        width,
    )
    assert overflowing == []
    cut_tables = page.evaluate(
        """() => [...document.querySelectorAll(".scroll")]
        .filter((node) => node.scrollWidth > node.clientWidth + 1)
        .map((node) => `${node.getAttribute("aria-label")}: ${node.scrollWidth}`)"""
    )
    if width >= 390:  # below, a table scrolls by itself
        assert cut_tables == []
    page.close()


_LABELS = """
() => [...document.querySelectorAll(".drawing > svg")].flatMap((svg) => {
  const shown = [...svg.querySelectorAll("text:not([opacity='0'])")]
    .filter((node) => node.textContent.trim());
  const boxes = shown.map((node) => node.getBoundingClientRect());
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  return shown.filter((node, i) => node.textContent.includes("…")
      || boxes.slice(i + 1).some((box) => meet(boxes[i], box)))
    .map((node) => `${svg.closest("figure").id}: ${node.textContent}`);
})
"""


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("kind", ["report", "faults_report", "limplock_report"])
def test_no_label_of_a_figure_is_cut_or_runs_into_another(
    browser: Browser, request: pytest.FixtureRequest, kind: str, width: int
) -> None:
    page, _ = opened(browser, request.getfixturevalue(kind), width)
    assert page.evaluate(_LABELS) == []
    page.close()


@pytest.mark.parametrize(
    ("width", "height", "shown"),
    [(1400, 900, (".headline", "#slo-table", "#gain-table", "#cost-table")),
     (390, 844, (".headline", ".verdicts", "#slo-table"))],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["report", "many_report"])
def test_the_first_screen_holds_the_verdict(
    browser: Browser,
    request: pytest.FixtureRequest,
    kind: str,
    width: int,
    height: int,
    shown: tuple[str, ...],
) -> None:
    page, _ = opened(browser, request.getfixturevalue(kind), width)
    for selector in shown:
        box = page.locator(selector).bounding_box()
        assert box is not None, selector
        assert box["y"] + box["height"] <= height, selector
    page.close()


@pytest.mark.parametrize("width", [320, 1280])
def test_predicted_and_measured_stand_side_by_side_within_the_page(
    browser: Browser, planned_report: Path, width: int
) -> None:
    page, trouble = opened(browser, planned_report, width, color_scheme="dark")
    table = page.locator("#predicted-table")
    assert table.is_visible()
    heads = table.locator("thead th").all_text_contents()
    assert heads == ["", "predicted", "measured", "95 % interval", "verdict"]
    rows = table.locator("tbody th").all_text_contents()
    assert rows[3:6] == ["p50", "p95", "p99"]
    assert page.get_by_role("link", name="Predicted").get_attribute("href") == "#predicted"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # One arm improves on nothing, and the plan that it would make is not shown.
    assert {node.get_attribute("id") for node in page.query_selector_all("figure")} == (
        FIGURES - {"improvement", "front-availability", "front-p99"}
    )
    assert page.get_by_role("link", name="Plan", exact=True).count() == 0
    assert page.evaluate(_CONTRAST)["text"] >= 4.5
    assert trouble == []
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (1280, "light")])
def test_what_a_node_carries_is_drawn_within_the_page(
    browser: Browser, capacity_report: Path, width: int, scheme: Any
) -> None:
    page, trouble = opened(browser, capacity_report, width, color_scheme=scheme)
    figures = {node.get_attribute("id") for node in page.query_selector_all("figure")}
    assert figures == {"cache-reader-latency", "cache-reader-cpu"}
    for identity in figures:
        box = page.locator(f"#{identity} .drawing > svg").bounding_box()
        assert box is not None
        assert box["width"] > 250
    assert page.locator("#cache-reader-steps tbody tr").count() == 14
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrast = page.evaluate(_CONTRAST)
    assert contrast["text"] >= 4.5
    assert contrast["graphic"] >= 3.0
    assert trouble == []
    page.close()


def test_on_a_phone_the_text_of_figures_is_large_enough(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report, 390)
    heights = page.evaluate(
        """() => [...document.querySelectorAll("figure .drawing text")]
        .map((node) => parseFloat(getComputedStyle(node).fontSize)
             * node.getScreenCTM().a / window.devicePixelRatio)"""
    )
    assert min(abs(height) for height in heights if height) > 9.0
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_colours_stand_out_from_the_paper(
    browser: Browser, report: Path, scheme: Any
) -> None:
    page, _ = opened(browser, report, color_scheme=scheme)
    contrast = page.evaluate(_CONTRAST)
    assert contrast["text"] >= 4.5, contrast
    assert contrast["graphic"] >= 3.0, contrast
    page.close()


def test_dark_mode_recolours_every_colour_of_the_figures(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report, color_scheme="dark")
    unchanged = page.evaluate(
        """() => {
        const hex = (text) => "#" + text.match(/\\d+/g).slice(0, 3)
          .map((v) => Number(v).toString(16).padStart(2, "0")).join("");
        const left = new Set();
        for (const node of document.querySelectorAll("figure svg.figure *")) {
          for (const name of ["fill", "stroke"]) {
            const own = node.getAttribute(name);
            if (own && own.startsWith("#") && hex(getComputedStyle(node)[name]) === own)
              left.add(own);
          }
        }
        return [...left];
        }"""
    )
    assert unchanged == []
    page.close()


def test_paper_is_white_and_nothing_is_cut_off(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report, 700, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(254, 254, 254)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


def test_without_scripts_every_figure_is_still_there(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report, 390, java_script_enabled=False)
    for identity in FIGURES:
        assert page.locator(f"#{identity} .drawing > svg").is_visible()
    page.close()
