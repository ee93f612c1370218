"""Unit tests of experiments/ have bootstraps that are quick rather than exact."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from experiments.record.metrics import bootstrap


@pytest.fixture(scope="package", autouse=True)
def few_draws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "DRAWS_MAX", 120)
        patch.setattr(bootstrap, "DRAWS_MIN", 120)
        yield
