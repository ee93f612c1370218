"""Hardened programs of a design's arms, and the message if one is not available."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import EnvironmentMissing
from experiments.design import load_design
from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.testbed.platforms.local import variants
from experiments.tests.started import executable


@pytest.mark.parametrize(
    ("name", "expected"),
    [("redis-variants", {("redis", "native"), ("redis", "ilr"), ("redis", "tx")}),
     ("redis-capacity", set()), ("mediawiki-noisy", set())],
)  # fmt: skip
def test_what_arms_ask_for(name: str, expected: set[tuple[str, str]]) -> None:
    design = load_design(name)
    roles = find_roles(design.directory)
    assert variants.used_variants(design.directory, design.fleet, roles) == expected


def test_a_fleet_without_arms_asks_for_none(tmp_path: Path) -> None:
    assert (
        variants.used_variants(tmp_path, load_design("redis-variants").fleet, find_roles()) == set()
    )


def test_a_program_that_cannot_be_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '#!/bin/sh\necho "no $1 for $2" >&2\nexit 3\n'
    program = executable(ROOT / "build" / "tst-variants", text)
    monkeypatch.setattr(variants, "BUILD", program)
    try:
        with pytest.raises(EnvironmentMissing) as error:
            variants.build({("redis", "ilr")}, print)
    finally:
        program.unlink()
    assert error.value.place == "redis, variant ilr"
    assert "no redis for ilr" in str(error.value)
