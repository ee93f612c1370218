"""Result of a run on an endpoint: the clients' view, without data of machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from core.runfiles.manifest import manifest_if_any
from core.runfiles.requests import measured
from core.statistics.percentiles import time_out_of
from experiments.design.target import in_url
from experiments.record.metrics.frames import prepared
from experiments.record.metrics.performability import Ideal, user_metrics
from experiments.record.metrics.summary import summarize_run, without_nan
from experiments.record.records import histograms, write_json
from experiments.record.result import Findings

NOT_MEASURED = (
    "Asked from outside, without agents and arbiters: no figures of CPU, servers, faults and "
    "availability, and no plan."
)
_KEPT = ("arms", "compared", "operations", "sessions", "stages", "load", "host_blocks")


def analyse(folder: Path) -> Findings:
    """Return all figures of the run, of each block and each operation. Writes histograms.json."""
    requests = pl.read_parquet(folder / "requests.parquet")
    manifest = manifest_if_any(folder)
    limit_ms = time_out_of(manifest)
    write_json(folder / "histograms.json", histograms(requests, limit_ms))
    summary = summarize_run(folder)
    spec = manifest.get("spec") or {}
    service = spec.get("endpoint") or {}
    body = {
        "target": _url(service),
        "address": service.get("address", ""),
        "not_measured": NOT_MEASURED,
        "insecure": bool((spec.get("load") or {}).get("insecure")),
        **{key: summary.body[key] for key in _KEPT},
        "blocks": without_nan(_blocks(measured(prepared(requests, limit_ms)), spec)),
    }
    return replace(summary, body=body, slo=_without_availability(summary.slo))


def _url(service: Mapping[str, Any]) -> str:
    if not service:
        return ""
    return f"{service['scheme']}://{in_url(service['host'])}:{service['port']}"


def _blocks(main: pl.DataFrame, spec: Mapping[str, Any]) -> list[dict[str, object]]:
    length_s = float((spec.get("phases") or {}).get("measure") or 0.0)
    ideal = Ideal(None, "")
    return [
        {"repeat": repeat, **user_metrics(rows, length_s, ideal)}
        for (repeat,), rows in main.sort("repeat").group_by("repeat", maintain_order=True)
    ]


def _without_availability(slo: Mapping[str, Any] | None) -> dict[str, object] | None:
    if slo is None:
        return None
    objectives = {
        key: value for key, value in (slo.get("asked") or {}).items() if key != "availability"
    }
    return {**slo, "asked": objectives}
