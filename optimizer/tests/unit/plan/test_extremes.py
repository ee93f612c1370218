"""Whatever numbers a plan or a model is asked with, it answers or refuses by name: no traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config_file import ConfigFile
from core.errors import InputError, SparecraftError
from optimizer.availability import FailureRates, availability
from optimizer.plan.inputs.plan_file import checked
from optimizer.plan.inputs.request import request_from_plan_file
from optimizer.plan.planner import make_plan
from optimizer.plan.solve import table
from random_tests import examples

NUMBERS = st.sampled_from([5e-324, 1e-320, 1e-300, 1e-15, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e15, 1e300])
FINITE = st.one_of(NUMBERS, st.floats(-20, 20).map(lambda x: 10.0**x))


@examples(150)
@given(
    FINITE,
    FINITE,
    st.one_of(st.none(), FINITE),
    st.sampled_from(["ara", "pf"]),
    st.sampled_from(["cloud", "on-prem"]),
    st.booleans(),
)
def test_the_availability_of_any_numbers_is_a_share_or_refused(
    crash: float, failover: float, repair: float | None, mechanism: str, scheme: str, shocks: bool
) -> None:
    try:
        rates = FailureRates(crash, failover, repair, common_cause=0.3 if shocks else 0.0)
        found = availability(3, 2, rates, mechanism=mechanism, scheme=scheme)
    except SparecraftError:
        return
    assert 0 <= found.unavailability <= 1
    assert found.error_bound < 1e-9


def _stated(**changes: Any) -> dict[str, Any]:
    tier = {"name": "web", "role": "r", "processing_s": 0.03, "memory_mb": 900, "cv2": 1.0}
    tier |= {"gamma": 1.0, "interference_share": 0.1, "run_s": 0.0, "requests_per_copy": 1.0}
    values: dict[str, Any] = {
        "scheme": "cloud",
        "arrival_per_s": 20.0,
        "slo": {"availability": 0.999, "p99_ms": 400.0},
        "limits": {"max_nodes": 4, "max_replicas": 1},
        "rates": {"crash_per_year": 1.0, "failover_s": 15.0},
    }
    for key, value in changes.items():
        place = next(
            (t for t in (tier, values["slo"], values["rates"], values) if key in t), values
        )
        place[key] = value
    return {**values, "tiers": [tier]}


@examples(60)
@given(
    st.dictionaries(
        st.sampled_from(
            (
                *("arrival_per_s", "processing_s", "cv2", "gamma", "run_s", "requests_per_copy"),
                *("p99_ms", "crash_per_year", "failover_s", "interference_share"),
            )
        ),
        FINITE,
        min_size=1,
        max_size=3,
    )
)
def test_a_plan_of_any_numbers_is_made_or_refused(changes: dict[str, float]) -> None:
    try:
        found = make_plan(
            request_from_plan_file(checked(ConfigFile(Path("plan.toml"), _stated(**changes))))
        )
    except SparecraftError:
        return
    found.plan.to_json_dict()


def test_more_machines_than_a_table_holds_are_refused() -> None:
    values = _stated()
    values["limits"]["max_nodes"] = 100_000
    with pytest.raises(InputError, match=r"limits\.max_nodes.*200"):
        checked(ConfigFile(Path("plan.toml"), values))


def test_a_tier_with_more_ways_to_build_it_than_fit_is_refused_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "ROWS_MAX", 10)
    asked = request_from_plan_file(checked(ConfigFile(Path("plan.toml"), _stated())))
    with pytest.raises(InputError, match="at most 10 ways"):
        asked.case.problem()
