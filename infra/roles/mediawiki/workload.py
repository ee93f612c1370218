"""Readers of the wiki."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import quote

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload, lines_of

TITLES = Path(__file__).parents[1] / "mariadb" / "titles.txt"


def page(title: str) -> Operation:
    """Return a view of a page; the answer must have its title as MediaWiki escapes it."""
    path = "/index.php?title=" + quote(title.replace(" ", "_"), safe="/:(),;@!*")
    return Operation(title, path, f"<title>{html.escape(title, quote=False)}")


def readers() -> Population:
    return Population(tuple(page(title) for title in lines_of(TITLES)), PAGE_ZIPF)


WORKLOADS = {"wiki-reader": Workload(readers, ("mediawiki", "apache"))}
