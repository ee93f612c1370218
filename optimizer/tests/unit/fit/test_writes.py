"""The share of writes: found in a run, planned with, overruled, left out where it is no guide."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from core.errors import InputError
from optimizer.fit import TierFit, fit, read_results
from optimizer.plan.inputs.request import PlanRequest
from optimizer.plan.planner import make_plan
from optimizer.tests.one_tier import request_of
from optimizer.tests.synthetic import DB

SHARE, ONE = 0.2, 0.25  # writes; of the reads, those for one certain machine
Told = Callable[..., Path]


@pytest.fixture(name="told")
def _told(run_dir: Path) -> Told:
    """Copies the run, with arbiters that tell reads from writes.

    Parameters: the new folder; by tier its protocol and the share of writes; of, the part of the
    requests that is told apart; one, the part of the database's reads for one certain machine.
    """

    def copy(
        folder: Path, tiers: dict[str, tuple[str, float]], of: float = 1.0, one: float = 0.0
    ) -> Path:
        shutil.copytree(run_dir, folder)
        table = pl.read_parquet(folder / "arbiters.parquet")
        tier, all_ = pl.col("tier"), (pl.col("received") * of).round()
        share = tier.replace_strict({name: pair[1] for name, pair in tiers.items()})
        table = table.with_columns(
            protocol=tier.replace_strict({name: pair[0] for name, pair in tiers.items()}),
            reads=all_ - (all_ * share).round(),
            writes=(all_ * share).round(),
        )
        of_one = pl.when(tier == "db").then(pl.col("reads") * one).otherwise(0.0)
        table = table.with_columns(reads_of_one=of_one.round())
        table.write_parquet(folder / "arbiters.parquet")
        return folder

    return copy


def database(folder: Path) -> TierFit:
    """Fit the run and return its database tier."""
    return fit(read_results(folder)).tiers[1]


def asked(folder: Path, values: dict[str, Any] | None = None) -> PlanRequest:
    """Build the request about a run from an SLO and further values of a plan.toml."""
    keys = {"slo": {"availability": 0.999}, **(values or {})}
    return request_of(keys, folder)


def test_the_share_is_found_with_its_count_and_spread(told: Told, tmp_path: Path) -> None:
    folder = told(tmp_path / "run", {"web": ("http", 0.1), "db": ("mysql", SHARE)})
    share = database(folder).write_share
    assert share.value == pytest.approx(SHARE, abs=0.01)
    assert share.samples == database(folder).requests_per_copy.samples
    assert share.spread < 0.01


def test_reads_for_one_machine_bound_the_tier_as_writes_do(told: Told, tmp_path: Path) -> None:
    tiers = {"web": ("http", 0.0), "db": ("mysql", SHARE)}
    folder = told(tmp_path / "run", tiers, one=ONE)
    share = database(folder).one_share
    assert share.value == pytest.approx(ONE * (1.0 - SHARE), abs=0.01)
    plan = make_plan(asked(folder)).plan
    body = plan.to_json_dict()["state"]["db"]
    assert body["one_share"] == share.value
    assert any("reads for one certain machine" in text for text in plan.assumptions)
    law = asked(folder).case.tiers[1].latency
    assert law.unspread == pytest.approx(SHARE + ONE * (1.0 - SHARE), abs=0.01)
    spread = asked(folder, {"tiers": [{"name": "db", "reads_of_one": 0.0}]}).case.tiers[1].latency
    assert spread.unspread == law.write_share


def test_what_a_replica_applies_unasked_is_work_that_it_does(told: Told, tmp_path: Path) -> None:
    folder = told(tmp_path / "run", {"web": ("http", 0.0), "db": ("mysql", SHARE)})
    processing_s = database(folder).processing_s.value
    table = pl.read_parquet(folder / "arbiters.parquet")
    # memcached's arbiter asks every machine, and so counts all that each executes.
    table.with_columns(protocol=pl.lit("memcached")).write_parquet(folder / "arbiters.parquet")
    memcached_s = database(folder).processing_s.value
    last = table.filter(pl.col("tier") == "db").sort("time_s").group_by("server").last()
    applied = (len(DB) - 1) * last["writes"][0] / last["requests"].sum()
    assert memcached_s / processing_s == pytest.approx(1.0 + applied, rel=0.03)


def test_the_plan_has_the_share_of_the_run_unless_it_is_stated(told: Told, tmp_path: Path) -> None:
    folder = told(tmp_path / "run", {"web": ("http", 0.0), "db": ("redis", SHARE)})
    plan = make_plan(asked(folder)).plan
    body = json.loads(json.dumps(plan.to_json_dict()))
    share = body["inputs"]["tiers"]["db"]["write_share"]
    assert (share["source"], share["sufficient"]) == ("measured", True)
    assert body["state"]["db"]["write_share"] == share["value"] == pytest.approx(SHARE, abs=0.01)
    count = f"(of {share['samples']:,} in the run)"
    assert any(count in text for text in plan.assumptions)
    for stated in (0.05, 0.0):
        values = {"tiers": [{"name": "db", "writes": stated}]}
        assert asked(folder, values).case.tiers[1].latency.write_share == stated


def test_one_machine_executes_a_write_over_http_unless_it_is_stated(
    told: Told, tmp_path: Path
) -> None:
    folder = told(tmp_path / "run", {"web": ("http", SHARE), "db": ("mysql", 0.0)})
    plan = make_plan(asked(folder)).plan
    assert plan.to_json_dict()["state"] is None
    assert any(text.startswith("tier web: 20.") for text in plan.assumptions)
    values = {"tiers": [{"name": "web", "writes": SHARE}]}
    assert asked(folder, values).case.tiers[0].latency.write_share == SHARE


def test_too_few_requests_say_so_and_count_as_no_writes(told: Told, tmp_path: Path) -> None:
    tiers = {"web": ("tcp", 0.0), "db": ("mysql", SHARE)}
    folder = told(tmp_path / "run", tiers, of=4e-4)
    request = asked(folder)
    assert any("share of writes" in text for text in request.thin)
    assert request.case.tiers[1].latency.write_share == 0.0
    stated_request = asked(folder, {"tiers": [{"name": "db", "writes": 0.1}]})
    assert not any("share of writes" in text and "db" in text for text in stated_request.thin)


def test_a_run_whose_arbiters_told_nothing_has_no_share(run_dir: Path) -> None:
    service = fit(read_results(run_dir))
    assert [tier.write_share.value for tier in service.tiers] == [None, None]
    assert not any("share of writes" in text for text in service.thin)


def test_hours_that_a_written_tier_cannot_follow_are_refused_and_left_out(
    told: Told, tmp_path: Path
) -> None:
    folder = told(tmp_path / "run", {"web": ("http", 0.0), "db": ("mysql", SHARE)})
    day: dict[str, Any] = {"load": {"day": [1.5] * 12 + [0.5] * 12}, "scheme": "cloud"}
    plan = make_plan(asked(folder, day)).plan
    assert plan.schedule is None
    assert any("no hours are planned" in text for text in plan.assumptions)
    with pytest.raises(InputError, match="writes to db"):
        asked(folder, {**day, "schedule": {"start_s": 60.0}})
    unwritten = {**day, "tiers": [{"name": "db", "writes": 0.0}]}
    assert make_plan(asked(folder, unwritten)).plan.schedule is not None
