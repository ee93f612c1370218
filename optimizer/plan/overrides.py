"""What the command line puts in the place of a run's own SLO, or of what a plan.toml asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optimizer.errors import InputError, require_positive
from optimizer.fit import fit, read_results
from optimizer.plan.capacity import read_capacity
from optimizer.plan.case import PERCENTILES, slo_from
from optimizer.plan.planner import Asked, asked_as_stated, asked_of_service
from optimizer.plan.source import Stated, StatedTier, read_plan
from optimizer.prices import BUILT_IN, price_book

_SLO = ("availability", *PERCENTILES)


@dataclass(frozen=True)
class Overrides:
    """Values that go before those of the run or file. slo: availability, p95_ms, p99_ms,
    confidence."""

    slo: Mapping[str, float] = field(default_factory=dict)
    scheme: str | None = None
    book: str | None = None
    region: str | None = None


def slo_of_run(run_dir: Path) -> dict[str, float]:
    """The SLO that a run was held to: `spec.slo` of its manifest.json.

    Raises: InputError for a folder without a manifest, or a manifest without an SLO.
    """
    file = run_dir / "manifest.json"
    try:
        own = json.loads(file.read_text(encoding="utf-8"))["spec"]["slo"]
        return {key: own[key] for key in _SLO if own.get(key) is not None}
    except OSError as error:
        raise InputError(
            str(run_dir),
            expected="a run's folder with manifest.json in it",
            came="none",
            do="`sparecraft list` shows the runs.",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(str(file), expected="JSON with spec.slo in it", came="none") from error


def asked_of_run(run_dir: Path, over: Overrides) -> Asked:
    """The question for the service measured in `run_dir`, held to the run's own SLO."""
    slo: dict[str, Any] = {**slo_of_run(run_dir), **over.slo}
    return asked_of_service(
        fit(read_results(run_dir)),
        slo,
        scheme=over.scheme,
        region=over.region,
        book=price_book(over.book) if over.book is not None else None,
    )


def asked_of_file(path: Path, run_dir: Path | None, over: Overrides) -> Asked:
    """The question of a plan.toml, for the service it states or, where not, that was measured."""
    return asked_as_stated(_overruled(read_plan(path), over), run_dir)


def asked_of_capacity(
    run_dir: Path, workload: str | None, arrival_per_s: float, over: Overrides
) -> Asked:
    """PCRAFT's question: so many requests a second, of nodes that carry what was measured."""
    found = read_capacity(run_dir, workload, "--capacity")
    require_positive("--arrival", arrival_per_s)
    values = {"capacity": str(run_dir.resolve()), "workload": found.workload}
    tier = StatedTier(str(found.machine["tier"]), values, "--capacity")
    plan = Stated(
        path=Path("sparecraft plan"),
        slo=slo_from(over.slo),
        experiment=f"{found.experiment.removesuffix('-capacity')}-planned",
        scheme="on-prem",
        arrival_per_s=arrival_per_s,
        tiers=(tier,),
    )
    return asked_as_stated(_overruled(plan, over))


def _overruled(plan: Stated, over: Overrides) -> Stated:
    own = plan.slo
    table: dict[str, Any] = {"availability": own.availability, "confidence": own.confidence}
    table |= {key: own.latency_ms.get(q) for key, q in PERCENTILES.items()}
    slo = replace(slo_from({**table, **over.slo}), degraded=own.degraded)
    changes: dict[str, Any] = {"scheme": over.scheme, "region": over.region}
    if over.book is not None:
        changes["book"] = over.book if over.book in BUILT_IN else str(Path(over.book).resolve())
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(plan, slo=slo, **given)
