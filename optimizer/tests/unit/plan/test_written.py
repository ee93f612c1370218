"""Results that the planner reads: damaged, impossible, or of runs that are not valid."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.errors import InputError
from optimizer.fit.manifest_form import form_of
from optimizer.fit.spec import arms_of, tiers_of
from optimizer.integrity import read_counts, read_measured
from optimizer.limplock import LimpRun, measured_slowdown
from optimizer.plan import Limits, plan_from_results
from optimizer.plan.inputs.capacity import read_capacity
from optimizer.plan.inputs.performability import UsersSlo, bound_of
from optimizer.tests.command_line import invoke
from optimizer.tests.synthetic import Truth, write_run

_HEAD = {"run": "20261122T000000Z", "experiment": "x", "valid": True}
_SHARE = {"p": 0.2, "interval": [0.1, 0.3]}
CAPACITY = {
    **_HEAD,
    "kind": "capacity",
    "capacity": {
        "machine": {"tier": "web", "role": "r", "cpus": 0.25, "memory_mb": 256,
                    "nic_mbps": 200.0, "disk_mbps": 80.0},
        "workloads": {"w": {"limit_ms": 100.0, "cv2": 0.5, "utilisation": 0.4, "reason": "",
                            "nodt_per_s": {"low": 90.0, "value": 100.0, "high": 110.0}}},
    },
}  # fmt: skip
LIMPLOCK = {
    **_HEAD,
    "limplock": {
        "rule": {"confidence": 0.95},
        "scenarios": [{"row": "F8", "part": "d", "scenario": "100", "arm": "a", "repeats": 3,
                       "operation": "yes", "reason": "",
                       "slowdown": {"factor": 60.0, "at_least": True, "low": 40.0, "high": 90.0}}],
    },
}  # fmt: skip
BITFLIPS = {
    **_HEAD,
    "kind": "bitflips",
    "bitflips": {
        "pooled": [{"variant": "v", "injections": 100}],
        "outcomes_for_planner": {"v": {"corrupt": _SHARE, "crash": _SHARE, "retry": _SHARE}},
    },
}
YEAR = {
    **_HEAD,
    "performability": {
        "year": {
            "machines": {"crash on web": 4},
            "arms": {"a": {"goodput": 0.9996, "lost": 3e-4, "demerits": 0.02,
                           "demerits_added": 0.01}},
        }
    },
}  # fmt: skip
READERS: dict[str, tuple[dict[str, Any], Callable[[Path], object]]] = {
    "capacity": (CAPACITY, lambda folder: read_capacity(folder, "w", "--capacity")),
    "limplock": (
        LIMPLOCK,
        lambda folder: measured_slowdown(
            LimpRun(run=".", row="F8", scenario="100"), folder, "--measured"
        ),
    ),
    "counts": (BITFLIPS, lambda folder: read_counts(folder, "v", "run")),
    "shares": (BITFLIPS, lambda folder: read_measured(folder, "v")),
    "year": (
        YEAR,
        lambda folder: bound_of(
            UsersSlo(run=".", arm="a", tier="web", goodput=0.99), folder, "slo.performability"
        ),
    ),
}
_NUMBERS: tuple[Any, ...] = (-1.0, float("nan"), float("inf"), 10**400)
_DAMAGE: tuple[Any, ...] = (None, "x", [5], {}, *_NUMBERS, True)


def _damaged(document: Any) -> Iterator[Any]:
    """Yield the document with each of its parts removed, and in turn damaged."""
    for *outer, last in [place for place in _places(document) if place]:
        for damage in ("lost", *_DAMAGE):
            body = copy.deepcopy(document)
            inner: Any = body
            for part in outer:
                inner = inner[part]
            if damage == "lost":
                del inner[last]
            else:
                inner[last] = damage
            yield body


def _places(value: Any, key: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield key
    names: Iterable[Any] = ()
    if isinstance(value, dict):
        names = value
    elif isinstance(value, list):
        names = range(len(value))
    for name in names:
        yield from _places(value[name], (*key, name))


def _read(folder: Path, text: str, read: Callable[[Path], object]) -> object:
    (folder / "result.json").write_text(text)
    return read(folder)


@pytest.mark.parametrize("name", READERS)
def test_a_whole_result_is_read(name: str, tmp_path: Path) -> None:
    document, read = READERS[name]
    assert _read(tmp_path, json.dumps(document), read)


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_result_is_refused_or_read_never_a_traceback(name: str, tmp_path: Path) -> None:
    """Each value of the file is removed, and in turn replaced by one of another kind or range."""
    document, read = READERS[name]
    for body in _damaged(document):
        with contextlib.suppress(InputError):
            _read(tmp_path, json.dumps(body), read)
    for text in ("", "[1]", "{", '{"a": ' + "9" * 5_000 + "}", "[" * 50_000):
        with pytest.raises(InputError):
            _read(tmp_path, text, read)


def test_a_damaged_manifest_is_refused_by_key_or_read_never_a_traceback(run: Path) -> None:
    """Each value that a plan reads is removed, and in turn replaced by one of another kind."""
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["host"] = {
        "cores": 2,
        "blocks": [
            {"arm": "baseline", "others_share": 0.1, "busy_share": 0.5, "stolen_share": 0.0}
        ],
    }
    places: list[str] = []
    for body in _damaged(manifest):
        try:
            form = form_of(body, run)
            tiers_of(form), arms_of(form)
        except InputError as error:
            places.append(error.place)
    assert len(places) > 300
    assert all("manifest.json" in place for place in places)


def _limp(**changes: Any) -> dict[str, Any]:
    body = copy.deepcopy(LIMPLOCK)
    body["limplock"]["scenarios"][0]["slowdown"].update(changes)  # type: ignore[index]
    return body


def _year(**changes: Any) -> dict[str, Any]:
    body = copy.deepcopy(YEAR)
    body["performability"]["year"]["arms"]["a"].update(changes)  # type: ignore[index]
    return body


def _nodt(**changes: Any) -> dict[str, Any]:
    body = copy.deepcopy(CAPACITY)
    body["capacity"]["workloads"]["w"]["nodt_per_s"].update(changes)  # type: ignore[index]
    return body


@pytest.mark.parametrize(
    ("name", "body", "key"),
    [
        ("limplock", _limp(factor=-3.0), "slowdown.factor"),
        ("limplock", _limp(factor=float("nan")), "slowdown.factor"),
        ("limplock", _limp(low=90.0, high=10.0), "slowdown.high"),
        ("year", _year(goodput=float("nan")), "arms.a.goodput"),
        ("year", _year(lost=-5.0), "arms.a.lost"),
        ("capacity", _nodt(low=0.0), "nodt_per_s.low"),
        ("capacity", _nodt(low=120.0), "nodt_per_s.high"),
    ],
)
def test_impossible_figures_are_refused_by_file_and_key(
    name: str, body: dict[str, Any], key: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        _read(tmp_path, json.dumps(body), READERS[name][1])
    assert "result.json" in error.value.place
    assert error.value.place.endswith(key)


pytestmark = pytest.mark.usefixtures("unexplained")
SLO = {"availability": 0.999, "p95_ms": 400.0, "p99_ms": 700.0}
DISTURBED: dict[str, Any] = {
    "valid": False, "disturbed": {"blocks": 6, "of": 8},
    "verdicts": {"measurement": {"ok": False, "disturbed": True, "reasons": ["others took 74 %"]}},
}  # fmt: skip
LATE: dict[str, Any] = {
    "valid": False, "verdicts": {"measurement": {"ok": False, "reasons": ["sent late"]}}
}  # fmt: skip


@pytest.mark.parametrize(
    ("head", "reason"), [(DISTURBED, "others took 74 %"), (LATE, "measurement: sent late")]
)
def test_a_plan_from_a_run_that_is_not_valid_is_undecided(
    run: Path, head: dict[str, Any], reason: str
) -> None:
    (run / "result.json").write_text(json.dumps(head))
    plan = plan_from_results(run, SLO)
    assert plan.feasible is None
    assert reason in plan.reasons[0]
    assert plan.tiers  # what it would be is there to look at
    assert plan.to_tfvars() == ""


def test_the_command_says_so_first_and_fails(run: Path, tmp_path: Path) -> None:
    (run / "result.json").write_text(json.dumps(DISTURBED))
    tfvars = tmp_path / "fleet.tfvars"
    result = invoke("plan", "--from", str(run), "--tfvars", str(tfvars))
    assert result.exit_code == 1, result.output
    assert result.stdout.index("undecided") < result.stdout.index("USD a month")
    assert "others took 74 %" in result.stdout
    assert not tfvars.exists()


def test_a_result_that_says_valid_goes_before_the_runner_s_own_verdicts(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["verdicts"] = {"injection": {"ok": False, "reasons": ["none"]}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert plan_from_results(run, SLO).feasible is None
    (run / "result.json").write_text(json.dumps({"valid": True}))
    assert plan_from_results(run, SLO).feasible is True


@pytest.mark.parametrize("tier", ["db", "web"])
def test_a_tier_without_an_arbiter_is_named_with_what_to_do(run: Path, tier: str) -> None:
    table = pl.read_parquet(run / "arbiters.parquet").filter(pl.col("tier") != tier)
    table.write_parquet(run / "arbiters.parquet")
    plan = plan_from_results(run, SLO)
    assert plan.feasible is None
    missing, *others = plan.insufficient
    assert f"tier {tier} has no arbiter" in missing
    assert not any("requests per page" in other for other in others)  # of a tier behind it
    assert missing in plan.reasons[0]
    assert len(plan.reasons) == 1  # measuring for longer would not help


def test_thin_evidence_says_what_is_thin_and_that_more_of_it_helps(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", Truth(block_s=8.0, pages_per_s=4.0))
    plan = plan_from_results(run, SLO)
    assert plan.feasible is None
    assert "needed" in plan.insufficient[0]
    for lacking in ("page rate", "processing time"):
        assert any(lacking in text for text in plan.insufficient)
    assert plan.insufficient[0] in plan.reasons[0]
    assert "[design]" in plan.reasons[1]
    assert plan.to_json_dict()["tiers"] == {}


def test_a_percentile_of_few_samples_denies_no_fleet(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", Truth(block_s=40.0))  # about 840 requests per arm
    plan = plan_from_results(run, {"p99_ms": 150.0}, limits=Limits(max_nodes=4))
    assert plan.feasible is None, plan.reasons
    assert "p99 from" in plan.reasons[0]
