"""Looks at a run between its blocks: their times, and their record in the manifest."""

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
    """A look, after so many repeats, at its levels."""

    look: int
    repeats: int
    blocks: int
    at_s: float
    level: float
    slo_level: float


@dataclass
class Looks:
    """Looks so far, of a design that decides."""

    order: Order
    since: float  # when the first block began [monotonic s]
    done: list[DatedLook] = field(default_factory=list)
    over: str = ""  # why the run ends: "figure", "slo", "repeats" or "budget"

    def due(self, repeats: int, now: float) -> bool:
        """True if a look is due after so many repeats; the last one where the time is over."""
        spent_s = now - self.since
        if repeats == self.order.repeats:
            self.over = "repeats"
        elif self.order.budget_s and spent_s * (repeats + 1) / repeats > self.order.budget_s:
            self.over = "budget"
        return bool(self.over) or repeats in self.order.looked_after

    def add(
        self, repeats: int, requests: pl.DataFrame, manifest: Mapping[str, Any], at_s: float
    ) -> None:
        """Look at the requests of all blocks that count; at_s on the run's clock."""
        shares = [one["repeats"] / self.order.repeats for one in self.done]
        level, slo_level = levels([*shares, repeats / self.order.repeats], ends=bool(self.over))
        frame = measured(prepared(requests, time_out_of(manifest)))
        names = list(manifest["spec"]["arms"])
        baseline, _ = compared_arms(names)
        arms = [baseline, *(arm for arm in names if arm != baseline)]
        found = look(frame, arms, manifest, level, slo_level)
        self.over = found["decided_by"] or self.over
        self.done.append({
            "look": len(self.done) + 1,
            "repeats": repeats,
            "blocks": requests["repeat"].n_unique(),
            "at_s": round(at_s, 3),
            "level": level,
            "slo_level": slo_level,
            **found,
        })  # fmt: skip

    def to_json(self) -> dict[str, object]:
        """`decided` of the manifest."""
        last = self.done[-1] if self.done else None
        by = last["decided_by"] if last else None
        compared = last["comparisons"] if last else {}
        open_ones = [arm for arm, one in compared.items() if one["decided"] == OPEN]
        return {
            "figure": self.order.decide,
            "planned": list(self.order.looked_after),
            "budget_s": self.order.budget_s,
            "ended_by": self.over,
            "decided_by": by,
            "missing": [] if by else open_ones,
            "looks": self.done,
        }


def looked(looks: Looks, repeats: int, runner: BlockRun, testbed: Testbed) -> bool:
    """Look if it is time to; true where the run has what it was for, or its budget is spent."""
    now = time.monotonic()
    if not looks.due(repeats, now):
        return False
    design = testbed.design
    manifest = {"seed": design.experiment.design.seed, "spec": spec_json(design)}
    requests = pl.concat([handle.records() for handle in runner.handles])
    looks.add(repeats, requests, manifest, testbed.clock.since_s(now))
    title, text = look_words(looks.to_json(), len(looks.done) - 1)
    testbed.narrator.detail(f"{title}: {text}")
    testbed.recorder.look(now, title, text)
    return bool(looks.over)
