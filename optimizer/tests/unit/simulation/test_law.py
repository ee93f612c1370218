"""The figures that are fitted to a run's arms: which arm, and which source, tells which of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from optimizer.fit import fit, read_results
from optimizer.simulation import fidelity
from optimizer.simulation.arm import Arm, speed_at
from optimizer.simulation.law import SPEED_LEAST, Law, _corrected, call_s

CPU = ("web", "interference.cpu")


def _law(told: float, exponent: float) -> Law:
    return Law(0.04, 0.3, 0.04, {CPU: told}, {"web": exponent}, None, {}, {})


def _arm(name: str, replicas: int, mean_above_median_s: float) -> tuple[Arm, np.ndarray]:
    """An arm whose mean lies so far above its median, and simulated pages where it is 0.1 s."""
    service = SimpleNamespace(tiers=[SimpleNamespace(spec=SimpleNamespace(name="web"))])
    settings = SimpleNamespace(replicas=replicas)
    arm = SimpleNamespace(
        name=name,
        service=service,
        results=SimpleNamespace(settings=lambda _arm, _tier: settings),
        measured_s=np.array([1.0, 1.0, 1.0 + 3.0 * mean_above_median_s]),
        median_s=1.0,
    )
    return cast(Arm, arm), np.array([1.0, 1.0, 1.3])


def _exponent(*arms: tuple[Arm, Any]) -> float:
    found = _corrected(_law(0.1, 1.0), [arm for arm, _ in arms], [pages for _, pages in arms])
    return found["web"]


def test_an_arm_with_copies_does_not_tell_how_slow_a_slowed_server_is() -> None:
    """A second copy answers for the slow one; what else makes its pages slow is another thing."""
    alone, copied = _arm("chosen", 1, 0.1), _arm("copied", 2, 0.3)
    assert _exponent(alone, copied) == pytest.approx(_exponent(alone)) == pytest.approx(1.0)
    assert _exponent(copied) > 1.1  # for want of a better one


def test_behind_the_first_tier_the_run_tells_the_work_and_not_its_calibration(
    run_dir: Path,
) -> None:
    service = fit(read_results(run_dir))
    web_s, db_s = (tier.processing_s.value or math.nan for tier in service.tiers)
    told = {
        tier.spec.name: {"cpu_s_per_copy": 0.5 * seconds}
        for tier, seconds in zip(service.tiers, (web_s, db_s), strict=True)
    }
    calibrated = replace(service, calibration={"tiers": told})
    assert call_s(calibrated, 0) == pytest.approx(0.5 * web_s)
    assert call_s(calibrated, 1) == pytest.approx(db_s)


def test_fits_that_agree_on_a_speed_agree_whatever_exponents_they_need_for_it() -> None:
    speed = 0.04
    laws = [_law(told, math.log(speed) / math.log(told)) for told in (0.06, 0.1, 0.18)]
    spreads = fidelity._spreads(laws[0], laws)
    assert spreads["speed web, interference.cpu"] == fidelity._SPREAD_OTHERS
    drawn = [fidelity._drawn(laws[0], spreads, np.random.default_rng(n)) for n in range(200)]
    scatter = np.std([math.log(one.speed(*CPU)) for one in drawn])
    assert scatter == pytest.approx(fidelity._SPREAD_OTHERS, rel=0.2)
    assert all(SPEED_LEAST <= one.speed(*CPU) <= 1.0 for one in drawn)


def test_a_kind_that_only_one_fit_knows_is_drawn_too() -> None:
    law = _law(0.1, 1.0)
    spreads = fidelity._spreads(replace(law, slowed={}, exponents={}), [])
    assert fidelity._drawn(law, spreads, np.random.default_rng(1)).speed(*CPU) != pytest.approx(0.1)


def test_a_neighbour_is_its_threads_on_a_whole_core_and_what_was_measured_under_the_cap() -> None:
    assert speed_at(0.04, 4, 0.35, 0.35) == pytest.approx(0.04)
    assert speed_at(0.04, 4, 0.35, 1.0) == pytest.approx(1.0 / 5.0)
    assert speed_at(0.04, 4, 0.35, 2.0) == pytest.approx(1.0 / 5.0)
    between = speed_at(0.04, 4, 0.35, 0.6)
    assert 0.04 < between < 0.2
    assert speed_at(0.04, 4, 0.35, 0.25) < 0.04
    assert speed_at(0.5, 4, 0.35, 1.0) == 0.5  # fewer jobs than threads: nothing is told
    assert speed_at(0.04, 4, None, 0.5) == 0.04
    surely, worse = speed_at(0.04, 4, 0.35, 0.35, 1.0), speed_at(0.04, 4, 0.35, 1.0, 1.0)
    assert surely == pytest.approx(0.04)  # the cap of the run
    assert worse < 1.0 / 5.0
