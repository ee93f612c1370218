"""Number of examples that a random test draws: as many as it states, times
SPARECRAFT_TEST_EXAMPLES.

`make test` draws a quarter, `make test-all` the number that is stated.
"""

from __future__ import annotations

import os

from hypothesis import settings

VARIABLE = "SPARECRAFT_TEST_EXAMPLES"


def examples(count: int) -> settings:
    """The decorator of a random test that draws `count` examples where the variable is not set."""
    return settings(max_examples=drawn(count))


def drawn(count: int) -> int:
    """The number of examples that is drawn instead of `count`."""
    return max(5, round(count * share()))


def share() -> float:
    """The share of the stated numbers that is drawn."""
    return float(os.environ.get(VARIABLE, "1"))
