"""Requests of Apache without a database: a file as it is, and PHP that counts to 1,000."""

from __future__ import annotations

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload


def static_file() -> Population:
    """One style sheet."""
    return Population((Operation("static", "/static/style.css", "sparecraft"),), PAGE_ZIPF)


def php_loop() -> Population:
    """One page that costs the processor."""
    return Population((Operation("loop", "/loop.php", "<title>1000"),), PAGE_ZIPF)


WORKLOADS = {
    "static-file": Workload(static_file, ("apache",)),
    "php-loop": Workload(php_loop, ("apache",)),
}
