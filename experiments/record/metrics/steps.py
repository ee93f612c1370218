"""Effects of single differences: arms that differ from the previous arm in one thing only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from core.config_file import ConfigFile, check
from core.runfiles.manifest import spec_of
from experiments.design.experiment import Arm
from experiments.record.metrics.bootstrap import correlated_s, seeded
from experiments.record.metrics.improvement import improvement, pairs_of
from experiments.record.metrics.looks import levels_of

CHOICE, COPIES = "choice", "copies"  # policies with their own settings; replicas
_POLICY_SETTINGS = {"policy", "tokens", "look_ahead"}


def steps(
    main: pl.DataFrame,
    arms: Sequence[str],
    manifest: Mapping[str, Any],
    factors_by_base: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> list[dict[str, object]]:
    """Compare neighbouring arms that differ in one thing, in the design's order.

    Only for more than two arms. Parameters: factors_by_base, the known factors of arms by their
    base.
    Returns: [{base, arm, thing, factors}]; thing is `choice`, `copies` or the name of a setting.
    """
    stated = _stated_arms(manifest)
    block_s, rng, (level, _) = correlated_s(manifest), seeded(manifest), levels_of(manifest)
    effects: list[dict[str, object]] = []
    for base, arm in pairwise(arms) if len(arms) > 2 else ():
        things = _differences(stated.get(base, Arm()), stated.get(arm, Arm()))
        if len(things) != 1:
            continue
        factors = factors_by_base.get(base, {}).get(arm) or improvement(
            pairs_of(main, base, arm), block_s=block_s, rng=rng, level=level
        )
        [thing] = things
        effects.append({"base": base, "arm": arm, "thing": thing, "factors": factors})
    return effects


def _stated_arms(manifest: Mapping[str, Any]) -> dict[str, Arm]:
    stated = {}
    for name, arm in (spec_of(manifest).get("arms") or {}).items():
        stated[name] = check(ConfigFile(Path("manifest.json"), arm), Arm)
    return stated


def _differences(first: Arm, second: Arm) -> set[str]:
    """Return the things in which two arms differ, over all tiers."""
    tiers = {**first.settings, **second.settings}
    pairs = [(first.of(tier).model_dump(), second.of(tier).model_dump()) for tier in tiers]
    keys = {key for a, b in pairs for key in {**a, **b} if a.get(key) != b.get(key)}
    if "policy" in keys:
        keys = keys - _POLICY_SETTINGS | {CHOICE}
    return keys - {"replicas"} | {COPIES} if "replicas" in keys else keys
