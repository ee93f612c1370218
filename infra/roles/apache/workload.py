"""Requests to Apache without a database: a static file, and a PHP loop to 1,000."""

from __future__ import annotations

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload


def static_file() -> Population:
    return Population((Operation("static", "/static/style.css", "sparecraft"),), PAGE_ZIPF)


def php_loop() -> Population:
    """Return requests of one page that uses CPU time."""
    return Population((Operation("loop", "/loop.php", "<title>1000"),), PAGE_ZIPF)


WORKLOADS = {
    "static-file": Workload(static_file, ("apache",)),
    "php-loop": Workload(php_loop, ("apache",)),
}
