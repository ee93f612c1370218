"""Readers of PRESS's pages.

The trace of the report is not public. Popularity follows Zipf's law with the exponent 0.8, as for
other pages of this project; Breslau et al. (Web caching and Zipf-like distributions, INFOCOM 1999)
found 0.64 to 0.83.
"""

from __future__ import annotations

from functools import cache

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload

PAGES = 18_000  # as in pages.py


def page(number: int) -> Operation:
    """Return the request of a page; the answer must have its key as its title."""
    key = f"page:{number:06d}"
    return Operation(key, f"/{number:06d}.html", f"<title>{key}</title>")


@cache
def readers() -> Population:
    """Return the requests of all pages, the most popular first."""
    return Population(tuple(page(number) for number in range(PAGES)), PAGE_ZIPF)


WORKLOADS = {"page-reader": Workload(readers, ("press",))}
