"""Searches for a word, by the front end's page."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload, lines_of

WORDS = Path(__file__).parents[1] / "mariadb" / "titles.txt"  # of the same dictionary


def searches() -> Population:
    return Population(
        tuple(Operation(word, f"/?q={quote(word)}", f"<title>{word}:") for word in lines_of(WORDS)),
        PAGE_ZIPF,
    )


WORKLOADS = {"word-search": Workload(searches, ("solr-ui",))}
