"""Fixtures that several tests of experiments/ use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.tests.disks import mounted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    with mounted(tmp_path / "small") as directory:
        yield directory
