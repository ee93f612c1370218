"""Readers who search the dictionary for a word. The words are those that the service's image has
checked: each is in an entry at least."""

from __future__ import annotations

from pathlib import Path

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload, lines_of

WORDS = Path(__file__).parent / "roles" / "dictionary" / "words.txt"


def searches() -> Population:
    """One search for each word; the answer must be about it and have an entry."""
    words = lines_of(WORDS)
    found = (Operation(word, f"/search?q={word}", f"<title>{word}: ") for word in words)
    return Population(tuple(found), PAGE_ZIPF)


WORKLOADS = {"dictionary-search": Workload(searches, roles=("nginx", "dictionary"))}
