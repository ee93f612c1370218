"""Requests to Solr for a word, with excerpts."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload, lines_of

WORDS = Path(__file__).parents[1] / "mariadb" / "titles.txt"  # of the same dictionary
EXCERPTS = "rows=20&fl=id,headword,source&hl=true&hl.fl=text&hl.snippets=3"
SELECT = f"/solr/dictionary/select?echoParams=explicit&{EXCERPTS}&q="


def selects() -> Population:
    return Population(
        tuple(Operation(word, SELECT + quote(word), f'"q":"{word}"') for word in lines_of(WORDS)),
        PAGE_ZIPF,
    )


WORKLOADS = {"solr-select": Workload(selects, ("solr",))}
