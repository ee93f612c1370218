"""A fault that a machine's kernel cannot inject is refused before any load, with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.paths import ROOT
from experiments.testbed.fleet import check_capabilities
from experiments.testbed.live_fleet import Fleet
from experiments.tests.fake_fleet import fake_fleet

SMALL = ROOT / "experiments" / "tests" / "designs" / "small"
REASON = "this kernel has no tbf"


class Offers:
    """Answers `GET /v1/capabilities` as an agent does."""

    def __init__(self, available: bool) -> None:
        self._available = available

    def capabilities(self) -> dict[str, dict[str, Any]]:
        entry = {"available": True} if self._available else {"available": False, "reason": REASON}
        return {"net.limp": entry}


def _design() -> Design:
    design = load_design(SMALL)
    quiet = design.experiment.interference.model_copy(update={"pattern": "none"})
    return replace(design, experiment=design.experiment.model_copy(update={"interference": quiet}))


def _fleet(available: bool) -> Fleet:
    return fake_fleet({"db-1": Offers(available)})


def test_what_the_kernel_cannot_inject_is_named_with_machine_and_reason() -> None:
    with pytest.raises(InputError) as refused:
        check_capabilities(_design(), _fleet(available=False))
    assert f"net.limp: {REASON} (on db-1)" in str(refused.value)
    assert refused.value.exit_code == 2


def test_what_the_kernel_can_inject_is_accepted() -> None:
    check_capabilities(_design(), _fleet(available=True))
