"""Readers who search the dictionary for a word. The build of the service's image has checked that
each of the words is in at least one entry."""

from __future__ import annotations

from pathlib import Path

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload, lines_of

WORDS = Path(__file__).parent / "roles" / "dictionary" / "words.txt"


def searches() -> Population:
    """Return one search for each word; the answer must be about the word."""
    words = lines_of(WORDS)
    operations = (Operation(word, f"/search?q={word}", f"<title>{word}: ") for word in words)
    return Population(tuple(operations), PAGE_ZIPF)


WORKLOADS = {"dictionary-search": Workload(searches, roles=("nginx", "dictionary"))}
