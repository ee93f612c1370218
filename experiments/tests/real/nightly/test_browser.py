"""The site of nights in a real headless Chromium, at a desk and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from experiments.nightly.history import Run
from experiments.nightly.site import build_site
from experiments.nightly.suite import load_suite
from experiments.tests.chromium import browser as browser
from experiments.tests.chromium import opened
from experiments.tests.nightly_fixture import levels, made_up_run, suite_file, write_nights

_WIDE = """
(width) => [...document.querySelectorAll("body *")]
  .filter((node) => !node.closest("svg, .quiet, thead"))
  .filter((node) => node.getBoundingClientRect().right > width + 1)
  .map((node) => node.outerHTML.slice(0, 80))
"""
_CUT = """
() => [...document.querySelectorAll("table")]
  .filter((table) => table.scrollWidth > table.parentElement.clientWidth + 1)
  .map((table) => table.id)
"""
WIDTHS = pytest.mark.parametrize("width", [1400, 390])
PAGES = pytest.mark.parametrize("name", ["index", "designs/mediawiki-noisy", "changes", "bench"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty nights with a change, runs that are not valid, and a design that was given up."""
    folder = tmp_path_factory.mktemp("nights")
    reason = "measurement: baseline: the generator sent late, lag p99 3.1 ms is above 5% of p50"
    nights: list[list[Run]] = []
    for night, log in enumerate(levels(20, 14, -0.9, 0.1, seed=3), start=1):
        cost = {"usd_per_month": 117.0, "usd_per_million_good": 8.5}
        lines = made_up_run(
            night, log=log, valid=night % 7 > 0, reasons=(reason,), errors=night % 2, cost=cost
        )
        if night < 4:
            lines += [
                run.model_copy(update={"number": 2}) for run in made_up_run(night, "given-up")
            ]
        nights.append(lines)
    path = suite_file(folder, "mediawiki-noisy", "memcached-noisy")
    entries = ["mediawiki-noisy", "memcached-noisy"]
    write_nights(folder / "nightly", nights, entries, left_out=("memcached-noisy",))
    suite = load_suite(path)
    return build_site(suite).parent


@WIDTHS
@PAGES
def test_a_page_fits_and_nothing_complains(
    browser: Browser, site: Path, name: str, width: int
) -> None:
    page, trouble = opened(browser, site / f"{name}.html", width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(_WIDE, width) == []
    assert page.evaluate(_CUT) == []
    assert trouble == []
    page.close()


@WIDTHS
def test_every_figure_of_a_design_is_drawn(browser: Browser, site: Path, width: int) -> None:
    page, _ = opened(browser, site / "designs" / "mediawiki-noisy.html", width)
    figures = {node.get_attribute("id") for node in page.query_selector_all("figure")}
    assert figures == {
        "p95-nights", "p99-nights", "gain-p95", "errors-nights", "burn-nights", "plan-nights",
        "million-nights", "cost-slo",
    }  # fmt: skip
    for identity in figures:
        box = page.locator(f"#{identity} .drawing > svg").bounding_box()
        assert box is not None
        assert box["width"] > 250
        assert box["height"] > 80
    page.close()


def test_one_gets_from_a_tile_to_its_design_and_back(browser: Browser, site: Path) -> None:
    page, _ = opened(browser, site / "index.html", 1400)
    page.get_by_role("link", name="mediawiki-noisy").click()
    assert page.locator("h1").inner_text() == "mediawiki-noisy"
    page.get_by_role("link", name="All designs").click()
    assert page.locator(".designs > li").count() == 3
    page.get_by_role("link", name="Changes").click()
    assert page.locator("#changes tbody tr").count() == 2
    page.close()
