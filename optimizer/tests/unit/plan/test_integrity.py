"""Silent corruption as a limit: the variants of a plan, against every fleet of every variant."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, chi2

from core import terminal
from core.config_file import ConfigFile
from core.errors import InputError
from optimizer.availability import FailureRates, availability
from optimizer.commands.plan_text import print_plan
from optimizer.integrity import FaultOutcomes, Recovery, integrity
from optimizer.plan.inputs.plan_file import check_plan
from optimizer.plan.inputs.request import PlanRequest, request_from_plan_file
from optimizer.plan.inputs.variants import Figure
from optimizer.plan.planner import make_plan
from optimizer.tests.one_tier import request_of
from random_tests import examples

FAULTS = {"per_node_month": 3.0, "source": "PCRAFT Fig. 7"}
NATIVE = {"name": "native", "nodt": 1.0, "nodt_source": "x", "pcraft": "native"}
WEB = {"name": "web", "role": "r", "processing_s": 0.05, "memory_mb": 512}


def _ilr(corrupt: int = 0, crash: int = 8000, of: int = 12000, **changes: Any) -> dict[str, Any]:
    counts = {"corrupt": corrupt, "crash": crash, "retry": 0, "injections": of, "source": "x"}
    return {"name": "ilr", "nodt": 0.5, "nodt_source": "x", **counts, **changes}


def _asked(
    *variants: dict[str, Any], wrong: float = 1000.0, folder: Path = Path(), **values: Any
) -> PlanRequest:
    """Build the request for a tier with these variants, or with other `values` of plan.toml."""
    defaults = {
        "scheme": "cloud",
        "arrival_per_s": 100.0,
        "slo": {"availability": 0.999, "integrity": {"wrong_per_million": wrong}},
        "limits": {"max_nodes": 6, "max_replicas": 1},
        "transient_faults": FAULTS,
        "tiers": [{**WEB, "variants": list(variants)} if variants else WEB],
    }
    kept = {key: value for key, value in {**defaults, **values}.items() if value}
    return request_of(kept, folder=folder)


def _planned(*variants: dict[str, Any], **values: Any) -> dict[str, Any]:
    return make_plan(_asked(*variants, **values)).plan.to_json_dict()


@pytest.mark.parametrize(("corrupt_p", "faults"), [(0.2619, 3.0), (0.0117, 27.0), (3e-4, 660.0)])
@pytest.mark.parametrize("crash_p", [0.0, 0.7])
def test_the_share_of_wrong_answers_is_the_chains(
    corrupt_p: float, faults: float, crash_p: float
) -> None:
    request = request_from_plan_file(
        _file({"per_node_month": faults}, [_counts(corrupt_p, crash_p)])
    )
    (variant,) = request.hardening.offered[0]
    steady = integrity(FaultOutcomes(corrupt_p, crash_p), faults, Recovery()).steady_state
    share = request.hardening.corrupt_share(variant).middle
    assert share == pytest.approx(steady.corrupt / (steady.corrupt + steady.correct), rel=1e-9)


def _counts(corrupt_p: float, crash_p: float, nodt: float = 1.0, of: int = 10**6) -> dict[str, Any]:
    counts = {"corrupt": round(corrupt_p * of), "crash": round(crash_p * of), "retry": 0}
    stated = {"nodt": nodt, "nodt_source": "x", "source": "x", "injections": of}
    return {"name": f"v{nodt:g}".replace(".", "-"), **stated, **counts}


def _file(faults: dict[str, float], *tiers: list[dict[str, Any]], **slo: Any) -> Any:
    integrity_asked = slo.pop("integrity", {"wrong_per_million": 1e5})
    values = {
        "scheme": "cloud",
        "arrival_per_s": 10.0,
        "slo": {**slo, "integrity": integrity_asked},
        "limits": {"max_nodes": 4, "max_replicas": 1, "max_utilisation": 0.9},
        "transient_faults": {**faults, "source": "x"},
        "tiers": [
            {"name": f"t{i}", "role": "r", "processing_s": 0.03 * (i + 1), "memory_mb": 512,
             "requests_per_copy": 1.0 + i, "instance_types": ["c5.large", "c5.xlarge"],
             "variants": variants}
            for i, variants in enumerate(tiers)
        ],
    }  # fmt: skip
    return check_plan(ConfigFile(Path("plan.toml"), values))


@pytest.mark.parametrize(("hits", "of"), [(0, 12000), (3, 100), (100, 100)])
def test_bounds_are_those_of_clopper_pearson_and_garwood(hits: int, of: int) -> None:
    share = Figure(hits / of, hits, of).bounds(0.975)
    rate = Figure(hits / of, hits, of, is_share=False).bounds(0.975)
    assert share.high == pytest.approx(1.0 if hits == of else beta.ppf(0.975, hits + 1, of - hits))
    assert share.low == pytest.approx(beta.ppf(0.025, hits, of - hits + 1) if hits else 0.0)
    assert rate.high == pytest.approx(chi2.ppf(0.975, 2 * hits + 2) / 2 / of)
    assert rate.low == pytest.approx(chi2.ppf(0.025, 2 * hits) / 2 / of if hits else 0.0)


variants = st.lists(
    st.builds(_counts, st.sampled_from([0.0, 0.002, 0.02, 0.3]), st.sampled_from([0.0, 0.15, 0.6]),
              st.sampled_from([1.0, 0.9, 0.5, 0.2]), st.sampled_from([500, 12_000])),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one["name"],
)  # fmt: skip


@examples(60)
@given(
    st.lists(variants, min_size=1, max_size=2),
    st.sampled_from(["cloud", "on-prem"]),
    st.sampled_from([0.9, 0.999, 0.999999]),
    st.sampled_from([10.0, 100.0, 1000.0, 20_000.0]),
    st.sampled_from([None, 30.0, 2000.0]),
    st.sampled_from([{"per_node_month": 1.0}, {"count": 2, "node_months": 4.0}]),
)
def test_no_fleet_of_any_variants_is_cheaper(
    tiers: list[list[dict[str, Any]]], scheme: str, target: float, wrong: float,
    corrupt_s: float | None, faults: dict[str, float],
) -> None:  # fmt: skip
    limits = {"wrong_per_million": wrong}
    if corrupt_s is not None:
        limits["corrupt_s_per_month"] = corrupt_s
    file = _file(faults, *tiers, availability=target, integrity=limits)
    file = file.having(scheme=scheme, prices=file.stated.prices.model_copy(update={"book": "ec2"}))
    plan = make_plan(request_from_plan_file(file)).plan
    costs = _costs(file, faults)
    assert plan.usd_per_month == (pytest.approx(min(costs), abs=0.01) if costs else None)
    if not costs:
        assert plan.reasons


def _costs(file: Any, faults: dict[str, float]) -> list[float]:
    """List USD a month of each fleet of each choice of variants that keeps all limits."""
    from optimizer.prices import load_prices

    plan, slo = file.stated, file.stated.slo
    machines = [load_prices().instance("us-east-1", n) for n in ("c5.large", "c5.xlarge")]
    counted = "count" in faults
    level = 0.95 ** (1 / (2 * len(plan.tiers) + counted))
    rate = chi2.ppf(level, 6) / 2 / 4.0 if counted else 1.0
    per_page = list(itertools.accumulate((t.requests_per_copy for t in plan.tiers),
                                         lambda a, b: a * b))  # fmt: skip
    costs = []
    for mix in itertools.product(*(tier.variants for tier in plan.tiers)):
        right, ways, keeps = 1.0, [], True
        for tier, variant, k in zip(plan.tiers, mix, per_page, strict=True):
            p, crash = (_upper(getattr(variant, key), variant.injections, level)
                        for key in ("corrupt", "crash"))  # fmt: skip
            x = rate * p * 21_600 / 2_592_000
            right *= (1 / (1 + x)) ** k
            keeps &= slo.integrity.corrupt_s_per_month is None or (
                2_592_000 * x / (1 + x) <= slo.integrity.corrupt_s_per_month
            )
            rates = FailureRates(crash_per_year=1.0 + rate * crash * 365 / 30)
            load = 10.0 * k * tier.processing_s / variant.nodt
            ways.append(_tier_ways(load, rates, plan.scheme, machines))
        if keeps and 1e6 * (1 - right) <= slo.integrity.wrong_per_million:
            costs += [
                sum(usd for usd, _ in fleet)
                for fleet in itertools.product(*ways)
                if math.prod(1.0 - u for _, u in fleet) >= slo.availability
            ]
    return costs


def _upper(hits: int, of: int, level: float) -> float:
    return 1.0 if hits == of else float(beta.ppf(level, hits + 1, of - hits))


def _tier_ways(
    load: float, rates: FailureRates, scheme: str, machines: Any
) -> list[tuple[float, float]]:
    """List cost and unavailability of each way to build a tier of at most four machines."""
    ways = []
    for machine, needed in itertools.product(machines, range(1, 5)):
        if load / (needed * machine.sustained_cores) > 0.9:
            continue
        for mechanism, extra in itertools.product(("ara", "pf"), range(5 - needed)):
            if scheme == "cloud" and mechanism == "pf" and extra:
                continue
            prediction = availability(needed, extra, rates, mechanism=mechanism, scheme=scheme)
            usd = (needed + extra) * machine.usd_per_month
            ways.append((usd, prediction.unavailability_most))
    return ways


def test_a_limit_that_native_breaks_buys_the_hardened_variant_and_says_what_it_costs() -> None:
    native, hardened = (_planned(NATIVE, _ilr(), wrong=wrong) for wrong in (900_000.0, 1000.0))
    assert (native["tiers"]["web"]["variant"], hardened["tiers"]["web"]["variant"]) == (
        "native",
        "ilr",
    )
    usd_less = hardened["usd_per_month"] - native["usd_per_month"]
    assert hardened["integrity"]["without"]["usd_less"] == pytest.approx(usd_less, abs=0.01)
    assert hardened["integrity"]["wrong_per_million"]["high"] <= 1000.0
    assert native["integrity"]["wrong_per_million"]["expected"] > 1000.0
    assert any(text.startswith("integrity:") for text in hardened["binding"])
    assert "# web is built as ilr" in hardened["tfvars"]
    assert any("without counts" in text for text in native["warnings"])
    assert not any("without counts" in text for text in hardened["warnings"])


def test_too_few_injections_do_not_pass_and_more_of_the_same_do() -> None:
    plan = _planned(_ilr(crash=10, of=20), wrong=200.0)
    assert plan["integrity"]["wrong_per_million"]["expected"] == 0.0
    assert not plan["feasible"]
    assert any("too little evidence" in reason for reason in plan["reasons"])
    assert any("tier web binds" in reason for reason in plan["reasons"])
    assert _planned(_ilr(crash=500, of=1000), wrong=200.0)["feasible"]


def test_what_a_run_counted_is_what_its_counts_say(tmp_path: Path) -> None:
    shares = {"corrupt": {"p": 3 / 6000}, "crash": {"p": 0.5}, "retry": {"p": 0.0}}
    body = {
        "outcomes_for_planner": {"ilr": shares},
        "pooled": [{"variant": "ilr", "injections": 6000}],
    }
    head = {"kind": "bitflips", "run": "R", "valid": True}
    (tmp_path / "result.json").write_text(json.dumps({**head, "bitflips": body}))
    by_run = {"name": "ilr", "nodt": 0.5, "nodt_source": "x", "run": ".", "of": "ilr"}
    read, typed = (
        _planned(variant, folder=tmp_path)["integrity"]
        for variant in (by_run, _ilr(corrupt=3, crash=3000, of=6000))
    )
    assert read == typed
    (tmp_path / "result.json").write_text(json.dumps({**head, "valid": False, "bitflips": body}))
    with pytest.raises(InputError) as error:
        _asked(by_run, folder=tmp_path)
    assert "variants" in error.value.place


MACHINE = {"tier": "web", "role": "r", "cpus": 1.0, "memory_mb": 512, "nic_mbps": 200.0,
           "disk_mbps": 80.0}  # fmt: skip


def _write_capacity(folder: Path, **workloads: tuple[float, float]) -> None:
    """Write a capacity run with the low and the high end of each workload's throughput."""
    works = {
        name: {"limit_ms": 100.0, "nodt_per_s": {"low": low, "high": high}, "cv2": None,
               "utilisation": None, "reason": ""}
        for name, (low, high) in workloads.items()
    }  # fmt: skip
    body = {"machine": MACHINE, "workloads": works}
    head = {"kind": "capacity", "experiment": "e", "run": folder.name}
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps({**head, "capacity": body}))


def test_the_throughput_of_two_runs_is_the_low_end_over_the_high_end(tmp_path: Path) -> None:
    """One run with an arm for each variant says the same."""
    _write_capacity(tmp_path / "hard", w=(60.0, 70.0))
    _write_capacity(tmp_path / "plain", w=(90.0, 100.0))
    _write_capacity(tmp_path / "both", hard=(60.0, 70.0), plain=(90.0, 100.0))
    two: dict[str, Any] = {"nodt_run": "hard", "native_run": "plain"}
    one: dict[str, Any] = {"nodt_run": "both", "workload": "hard", "native_run": "both",
                           "native_workload": "plain"}  # fmt: skip
    for runs in (two, one):
        variant = {k: v for k, v in _ilr(**runs).items() if k not in ("nodt", "nodt_source")}
        plan = _planned(variant, folder=tmp_path)
        assert plan["integrity"]["tiers"]["web"]["nodt"] == pytest.approx(0.6)


_UNASKED = {"availability": 0.999}


@pytest.mark.parametrize(
    ("variants", "values", "place"),
    [
        ([], {"slo": {"availability": 0.999, "integrity": {}}}, "slo.integrity"),
        ([], {"transient_faults": None}, "slo.integrity"),
        ([], {"slo": _UNASKED}, "transient_faults"),
        ([NATIVE], {"slo": _UNASKED, "transient_faults": None}, "variants"),
        ([NATIVE, NATIVE], {}, "name"),
        ([{k: v for k, v in NATIVE.items() if k != "nodt_source"}], {}, "variants"),
        ([{**NATIVE, "of": "x"}], {}, "variants"),
        ([_ilr(corrupt=9, crash=9, of=10)], {}, "variants"),
        ([], {"transient_faults": {"count": 3.0, "source": "x"}}, "transient_faults"),
    ],
)
def test_half_a_question_is_refused_at_its_key(
    variants: list[dict[str, Any]], values: dict[str, Any], place: str
) -> None:
    with pytest.raises(InputError) as error:
        _asked(*variants, **values)
    assert place in error.value.place


def test_the_terminal_shows_the_variant_and_the_wrong_answers() -> None:
    result = make_plan(_asked(NATIVE, _ilr()))
    with terminal.out.capture() as shown:
        print_plan(result.plan, result.plan.to_json_dict(), [], [])
    text = shown.get()
    assert "ilr" in text
    assert "wrong answers per million" in text
    assert "Without it: web native" in text


def test_the_tier_that_a_page_asks_most_often_is_the_one_that_binds() -> None:
    web = {**WEB, "variants": [_ilr(crash=10, of=20)]}
    db = {**web, "name": "db", "processing_s": 0.001, "requests_per_copy": 14.0}
    plan = _planned(tiers=[web, db], wrong=200.0)
    assert not plan["feasible"]
    assert any("tier db binds" in reason for reason in plan["reasons"])


ZONE = {"name": "zone", "count": 3, "beta": 0.1, "repair_s": 14400.0, "source": "x",
        "survive": True}  # fmt: skip


@pytest.mark.parametrize("per_month", [1e-9, 3.0])
def test_over_zones_faults_crash_machines_in_the_search_as_in_what_is_said_of_it(
    per_month: float,
) -> None:
    faults = {"per_node_month": per_month, "source": "x"}
    outcome = make_plan(_asked(_ilr(), transient_faults=faults, domains=[ZONE]))
    (option,), (tier,) = outcome.solution.path, outcome.case.tiers
    assert (tier.crash_more_per_year > 1.0) is (per_month > 1.0)
    assert outcome.case.unavailability(option) == pytest.approx(option.unavailability, rel=1e-12)
    spread = outcome.plan.to_json_dict()["domains"]["spread"]["web"]["zone"]
    assert sum(spread) == option.needed + option.extra
