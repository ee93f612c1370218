"""Looks at a run between its blocks: the times of looks, and their record in the manifest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from core.runfiles.requests import measured
from core.statistics.percentiles import time_out_of
from experiments.design.experiment import Order
from experiments.record.manifest import spec_json
from experiments.record.metrics.frames import prepared
from experiments.record.metrics.looks import OPEN, Look, levels, look, look_words
from experiments.record.metrics.summary import compared_arms
from experiments.run.block import BlockRun
from experiments.testbed.testbed import Testbed


class DatedLook(Look):
    """A look with its time, its number of repeats, and its levels."""

    look: int
    repeats: int
    blocks: int
    at_s: float
    level: float
    slo_level: float


@dataclass
class Looks:
    """The looks so far in a run that ends once its figure is decided."""

    order: Order
    since: float  # when the first block began [monotonic s]
    records: list[DatedLook] = field(default_factory=list)
    end_reason: str = ""  # "figure", "slo", "repeats" or "budget"

    def due(self, repeats: int, now: float) -> bool:
        """Tell whether a look is due after so many repeats; the last one is due when the budget is
        spent."""
        spent_s = now - self.since
        if repeats == self.order.repeats:
            self.end_reason = "repeats"
        elif self.order.budget_s and spent_s * (repeats + 1) / repeats > self.order.budget_s:
            self.end_reason = "budget"
        return bool(self.end_reason) or repeats in self.order.looked_after

    def add(
        self, repeats: int, requests: pl.DataFrame, manifest: Mapping[str, Any], at_s: float
    ) -> None:
        """Look at the requests of all blocks that count; at_s on the run's clock."""
        shares = [earlier_look["repeats"] / self.order.repeats for earlier_look in self.records]
        level, slo_level = levels(
            [*shares, repeats / self.order.repeats], ends=bool(self.end_reason)
        )
        frame = measured(prepared(requests, time_out_of(manifest)))
        names = list(manifest["spec"]["arms"])
        baseline, _ = compared_arms(names)
        arms = [baseline, *(arm for arm in names if arm != baseline)]
        figures = look(frame, arms, manifest, level, slo_level)
        self.end_reason = figures["decided_by"] or self.end_reason
        self.records.append({
            "look": len(self.records) + 1,
            "repeats": repeats,
            "blocks": requests["repeat"].n_unique(),
            "at_s": round(at_s, 3),
            "level": level,
            "slo_level": slo_level,
            **figures,
        })  # fmt: skip

    def to_json(self) -> dict[str, object]:
        """`decided` of the manifest."""
        last = self.records[-1] if self.records else None
        decided_by = last["decided_by"] if last else None
        compared = last["comparisons"] if last else {}
        open_arms = [arm for arm, comparison in compared.items() if comparison["decided"] == OPEN]
        return {
            "figure": self.order.decide,
            "planned": list(self.order.looked_after),
            "budget_s": self.order.budget_s,
            "ended_by": self.end_reason,
            "decided_by": decided_by,
            "missing": [] if decided_by else open_arms,
            "looks": self.records,
        }


def look_if_due(looks: Looks, repeats: int, runner: BlockRun, testbed: Testbed) -> bool:
    """Look if a look is due; return True if the run is decided, or out of repeats or time."""
    now = time.monotonic()
    if not looks.due(repeats, now):
        return False
    design = testbed.design
    manifest = {"seed": design.experiment.design.seed, "spec": spec_json(design)}
    requests = pl.concat([handle.records() for handle in runner.handles])
    looks.add(repeats, requests, manifest, testbed.clock.since_s(now))
    title, text = look_words(looks.to_json(), len(looks.records) - 1)
    testbed.narrator.detail(f"{title}: {text}")
    testbed.recorder.look(now, title, text)
    return bool(looks.end_reason)
