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

from core.config_file import ConfigFile
from core.errors import InputError
from optimizer.availability import FailureRates, availability
from optimizer.integrity import FaultOutcomes, Recovery, integrity
from optimizer.plan.inputs.plan_file import check_plan, read_plan
from optimizer.plan.inputs.request import request_from_plan_file
from optimizer.plan.inputs.variants import Figure
from optimizer.plan.planner import make_plan
from optimizer.tests.command_line import output_of
from random_tests import examples

HEAD = """
scheme = "cloud"
arrival_per_s = 100.0
[slo]
availability = 0.999
{asked}
[limits]
max_nodes = 6
max_replicas = 1
"""
FAULTS = '[transient_faults]\nper_node_month = 3.0\nsource = "PCRAFT Fig. 7"\n'
TIER = '[[tiers]]\nname = "web"\nrole = "r"\nprocessing_s = 0.05\nmemory_mb = 512\n'
NATIVE = '[[tiers.variants]]\nname = "native"\nnodt = 1.0\nnodt_source = "x"\npcraft = "native"\n'
COUNTED = (
    '[[tiers.variants]]\nname = "ilr"\nnodt = 0.5\nnodt_source = "x"\ncorrupt = {corrupt}\n'
    'crash = {crash}\nretry = 0\ninjections = {of}\nsource = "x"\n'
)
ILR = COUNTED.format(corrupt=0, crash=8000, of=12000)


def _slo(wrong: float = 1000.0, **others: float) -> str:
    limits = {"wrong_per_million": wrong, **others}
    return "[slo.integrity]\n" + "\n".join(f"{key} = {value}" for key, value in limits.items())


def _planned(folder: Path, slo: str, tables: str) -> dict[str, Any]:
    path = folder / "plan.toml"
    path.write_text(HEAD.format(asked=slo) + tables)
    return make_plan(request_from_plan_file(read_plan(path))).plan.to_json_dict()


@pytest.mark.parametrize(("corrupt_p", "faults"), [(0.2619, 3.0), (0.0117, 27.0), (3e-4, 660.0)])
@pytest.mark.parametrize("crash_p", [0.0, 0.7])
def test_the_share_of_wrong_answers_is_the_chains(
    corrupt_p: float, faults: float, crash_p: float
) -> None:
    request = request_from_plan_file(
        _file({"per_node_month": faults}, [_counts(corrupt_p, crash_p)])
    )
    assert request.hardening is not None
    (variant,) = request.hardening.offered[0]
    steady = integrity(FaultOutcomes(corrupt_p, crash_p), faults, Recovery()).steady_state
    assert steady is not None
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


def test_a_limit_that_native_breaks_buys_the_hardened_variant_and_says_what_it_costs(
    tmp_path: Path,
) -> None:
    native = _planned(tmp_path, _slo(900_000.0), FAULTS + TIER + NATIVE + ILR)
    hardened = _planned(tmp_path, _slo(1000.0), FAULTS + TIER + NATIVE + ILR)
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


def test_too_few_injections_do_not_pass_and_more_of_the_same_do(tmp_path: Path) -> None:
    few = COUNTED.format(corrupt=0, crash=10, of=20)
    enough = COUNTED.format(corrupt=0, crash=500, of=1000)
    plan = _planned(tmp_path, _slo(200.0), FAULTS + TIER + few)
    assert plan["integrity"]["wrong_per_million"]["expected"] == 0.0
    assert not plan["feasible"]
    assert any("too little evidence" in reason for reason in plan["reasons"])
    assert any("tier web binds" in reason for reason in plan["reasons"])
    assert _planned(tmp_path, _slo(200.0), FAULTS + TIER + enough)["feasible"]


def test_what_a_run_counted_is_what_its_counts_say(tmp_path: Path) -> None:
    shares = {"corrupt": {"p": 3 / 6000}, "crash": {"p": 0.5}, "retry": {"p": 0.0}}
    body = {
        "outcomes_for_planner": {"ilr": shares},
        "pooled": [{"variant": "ilr", "injections": 6000}],
    }
    head = {"kind": "bitflips", "run": "R", "valid": True}
    (tmp_path / "result.json").write_text(json.dumps({**head, "bitflips": body}))
    by_run = (
        '[[tiers.variants]]\nname = "ilr"\nnodt = 0.5\nnodt_source = "x"\nrun = "."\nof = "ilr"\n'
    )
    by_hand = COUNTED.format(corrupt=3, crash=3000, of=6000)
    read, typed = (
        _planned(tmp_path, _slo(), FAULTS + TIER + variant)["integrity"]
        for variant in (by_run, by_hand)
    )
    assert read == typed
    (tmp_path / "result.json").write_text(json.dumps({**head, "valid": False, "bitflips": body}))
    with pytest.raises(InputError) as error:
        _planned(tmp_path, _slo(), FAULTS + TIER + by_run)
    assert "variants" in error.value.place


MACHINE = {"tier": "web", "role": "r", "cpus": 1.0, "memory_mb": 512, "nic_mbps": 200.0,
           "disk_mbps": 80.0}  # fmt: skip


def test_the_throughput_of_two_runs_is_the_low_end_over_the_high_end(tmp_path: Path) -> None:
    for name, low, high in (("hard", 60.0, 70.0), ("plain", 90.0, 100.0)):
        work = {"limit_ms": 100.0, "nodt_per_s": {"low": low, "high": high}, "cv2": None,
                "utilisation": None, "reason": ""}  # fmt: skip
        head = {"kind": "capacity", "experiment": "e", "run": name}
        body = {"machine": MACHINE, "workloads": {"w": work}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps({**head, "capacity": body}))
    runs = 'nodt_run = "hard"\nnative_run = "plain"\n'
    tier = FAULTS + TIER + ILR.replace('nodt = 0.5\nnodt_source = "x"\n', runs)
    plan = _planned(tmp_path, _slo(), tier)
    assert plan["integrity"]["tiers"]["web"]["nodt"] == pytest.approx(0.6)
    # One run with an arm for each variant says the same.
    works = {
        f"w-{name}": json.loads((tmp_path / name / "result.json").read_text())["capacity"][
            "workloads"
        ]["w"]
        for name in ("hard", "plain")
    }
    body = {"machine": MACHINE, "workloads": works}
    head = {"kind": "capacity", "experiment": "e", "run": "both"}
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "result.json").write_text(json.dumps({**head, "capacity": body}))
    variant = (
        'nodt_run = "both"\nworkload = "w-hard"\nnative_run = "both"\nnative_workload = "w-plain"\n'
    )
    repeated = _planned(tmp_path, _slo(), tier.replace(runs, variant))
    assert repeated["integrity"]["tiers"]["web"]["nodt"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("asked", "rest", "place"),
    [
        ("[slo.integrity]", FAULTS + TIER, "slo.integrity"),
        (_slo(), TIER, "slo.integrity"),
        ("", FAULTS + TIER, "transient_faults"),
        ("", TIER + NATIVE, "variants"),
        (_slo(), FAULTS + TIER + NATIVE + NATIVE, "name"),
        (_slo(), FAULTS + TIER + NATIVE.replace('nodt_source = "x"\n', ""), "variants"),
        (_slo(), FAULTS + TIER + NATIVE + "of = 'x'\n", "variants"),
        (_slo(), FAULTS + TIER + COUNTED.format(corrupt=9, crash=9, of=10), "variants"),
        (_slo(), FAULTS.replace("per_node_month", "count") + TIER, "transient_faults"),
    ],
)
def test_half_a_question_is_refused_at_its_key(
    tmp_path: Path, asked: str, rest: str, place: str
) -> None:
    with pytest.raises(InputError) as error:
        _planned(tmp_path, asked, rest)
    assert place in error.value.place


def test_the_terminal_shows_the_variant_and_the_wrong_answers(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(HEAD.format(asked=_slo()) + FAULTS + TIER + NATIVE + ILR)
    text = output_of("plan", "--input", str(path))
    assert "ilr" in text
    assert "wrong answers per million" in text
    assert "Without it: web native" in text


def test_the_tier_that_a_page_asks_most_often_is_the_one_that_binds(tmp_path: Path) -> None:
    few = COUNTED.format(corrupt=0, crash=10, of=20)
    db = TIER.replace('"web"', '"db"').replace("0.05", "0.001") + "requests_per_copy = 14.0\n"
    plan = _planned(tmp_path, _slo(200.0), FAULTS + TIER + few + db + few)
    assert not plan["feasible"]
    assert any("tier db binds" in reason for reason in plan["reasons"])


ZONES = (
    '[[domains]]\nname = "zone"\ncount = 3\nbeta = 0.1\nrepair_s = 14400.0\nsource = "x"\n'
    "survive = true\n"
)


@pytest.mark.parametrize("per_month", [1e-9, 3.0])
def test_over_zones_faults_crash_machines_in_the_search_as_in_what_is_said_of_it(
    tmp_path: Path, per_month: float
) -> None:
    path = tmp_path / "plan.toml"
    faults = f'\n[transient_faults]\nper_node_month = {per_month}\nsource = "x"\n'
    path.write_text(HEAD.format(asked=_slo()) + faults + ZONES + TIER + ILR)
    outcome = make_plan(request_from_plan_file(read_plan(path)))
    assert outcome.solution is not None
    assert outcome.solution.path is not None
    (option,), (tier,) = outcome.solution.path, outcome.case.tiers
    assert (tier.crash_more_per_year > 1.0) is (per_month > 1.0)
    assert outcome.case.unavailability(option) == pytest.approx(option.unavailability, rel=1e-12)
    spread = outcome.plan.to_json_dict()["domains"]["spread"]["web"]["zone"]
    assert sum(spread) == option.needed + option.extra
