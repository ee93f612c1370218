"""Overrides from the command line, for a run's SLO or for a plan.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.config_file import ConfigFile
from core.errors import InputError, require_positive
from core.runfiles.manifest import read_manifest
from core.vocabulary import Scheme
from optimizer.fit import fit, read_results
from optimizer.plan.inputs.capacity import read_capacity
from optimizer.plan.inputs.case import PERCENTILES, slo_from
from optimizer.plan.inputs.plan_file import PlanFile, check_plan, read_plan
from optimizer.plan.inputs.request import PlanRequest, request_for_service, request_from_plan_file
from optimizer.prices import BUILT_IN, price_book

_SLO = ("availability", *PERCENTILES, "confidence")


@dataclass(frozen=True)
class Overrides:
    """Values that replace those of the run or file.

    slo: availability, p95_ms, p99_ms, confidence.
    """

    slo: Mapping[str, float] = field(default_factory=dict)
    scheme: str | None = None
    book: str | None = None
    region: str | None = None


def slo_of_run(run_dir: Path) -> dict[str, float]:
    """Return the SLO of a run: `spec.slo` of its manifest.json.

    Raises: InputError for a folder without a manifest, or a manifest without an SLO.
    """
    slo = (read_manifest(run_dir).get("spec") or {}).get("slo")
    if not isinstance(slo, Mapping):
        place = f"{run_dir / 'manifest.json'}: spec.slo"
        raise InputError(place, expected="the SLO of the run", got=repr(slo))
    return {key: slo[key] for key in _SLO if slo.get(key) is not None}


def request_from_run(run_dir: Path, over: Overrides) -> PlanRequest:
    """Return the request for the service measured in `run_dir`, with the run's own SLO."""
    slo: dict[str, object] = {**slo_of_run(run_dir), **over.slo}
    return request_for_service(
        fit(read_results(run_dir)),
        slo,
        scheme=over.scheme,
        region=over.region,
        book=price_book(over.book) if over.book is not None else None,
    )


def request_from_file(path: Path, run_dir: Path | None, over: Overrides) -> PlanRequest:
    """Return the request of a plan.toml, for its stated service or the measured one."""
    return request_from_plan_file(_override(read_plan(path), over), run_dir)


def request_from_capacity(
    run_dir: Path, workload: str | None, arrival_per_s: float, over: Overrides
) -> PlanRequest:
    """Return PCRAFT's request: this arrival rate, on nodes with the measured throughput."""
    throughput = read_capacity(run_dir, workload, "--capacity")
    require_positive("--arrival", arrival_per_s)
    tier = {"name": throughput.machine.tier, "capacity": str(run_dir.resolve())}
    values = {
        "experiment": f"{throughput.experiment.removesuffix('-capacity')}-planned",
        "scheme": Scheme.on_prem,
        "arrival_per_s": arrival_per_s,
        "slo": dict(over.slo),
        "tiers": [{**tier, "workload": throughput.workload}],
    }
    plan = check_plan(ConfigFile(Path("sparecraft plan"), values))
    return request_from_plan_file(_override(plan, over))


def _override(file: PlanFile, over: Overrides) -> PlanFile:
    plan = file.stated
    slo = slo_from({**plan.slo.model_dump(exclude_unset=True), **over.slo})
    prices: dict[str, object] = {}
    if over.book is not None:
        built_in = over.book in BUILT_IN
        prices["book"] = over.book if built_in else str(Path(over.book).resolve())
    if over.region is not None:
        prices["region"] = over.region
    scheme = over.scheme or plan.scheme
    if prices or scheme != plan.scheme:  # the present machines are not in another book
        file = file.having(tiers=[tier.model_copy(update={"present": None}) for tier in plan.tiers])
    return file.having(slo=slo, scheme=scheme, prices=plan.prices.model_copy(update=prices))
