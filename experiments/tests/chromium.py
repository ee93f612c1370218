"""A real headless Chromium, and pages opened in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

LIMIT_MS = 120_000.0  # of a page and its parts, on a busy host
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
              "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path, args=_ARGUMENTS, timeout=LIMIT_MS
        )
        yield chromium
        chromium.close()


def opened(
    browser: Browser, file: Path, width: int = 1280, **options: Any
) -> tuple[Page, list[str]]:
    """The page, and everything that it complained about or asked the network for."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **options)
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("request", lambda request: trouble.append(request.url)
            if not request.url.startswith(("file:", "data:")) else None)  # fmt: skip
    page.set_default_timeout(LIMIT_MS)
    page.goto(file.as_uri())
    return page, trouble
