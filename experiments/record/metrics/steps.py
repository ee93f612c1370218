"""Effects of single differences: arms that differ from the previous arm in one thing only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from core.config_file import ConfigFile, check
from core.errors import InputError
from core.runfiles.manifest import spec_of
from experiments.design.experiment import Arm
from experiments.record.metrics.improvement import improvement, pairs_of

CHOICE, COPIES = "choice", "copies"  # policies with what is theirs alone; replicas
_OF_A_POLICY = {"policy", "tokens", "look_ahead"}


def steps(
    main: pl.DataFrame,
    arms: Sequence[str],
    manifest: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Mapping[str, Any]]],
    *,
    block_s: float,
    rng: np.random.Generator,
    level: float,
) -> list[dict[str, object]]:
    """Compare neighbouring arms that differ in one thing, in the design's order, of more than two.

    Parameters: known, factors of arms by their base; block_s, rng and level as in `improvement`.
    Returns: [{base, arm, thing, factors}]; thing is `choice`, `copies` or the name of a setting.
    """
    stated = _stated(manifest)
    found: list[dict[str, object]] = []
    for base, arm in pairwise(arms) if len(arms) > 2 else ():
        things = _differences(stated.get(base, Arm()), stated.get(arm, Arm()))
        if len(things) != 1:
            continue
        factors = known.get(base, {}).get(arm) or improvement(
            pairs_of(main, base, arm), block_s=block_s, rng=rng, level=level
        )
        [thing] = things
        found.append({"base": base, "arm": arm, "thing": thing, "factors": factors})
    return found


def _stated(manifest: Mapping[str, Any]) -> dict[str, Arm]:
    found = {}
    for name, arm in (spec_of(manifest).get("arms") or {}).items():
        try:
            found[name] = check(ConfigFile(Path("manifest.json"), arm), Arm)
        except InputError:  # of an older version, with settings that are no more
            return {}
    return found


def _differences(one: Arm, other: Arm) -> set[str]:
    """Return the things in which two arms differ, over all tiers."""
    keys = {
        key
        for tier in {**one.settings, **other.settings}
        for key in _unlike(one.of(tier).model_dump(), other.of(tier).model_dump())
    }
    if "policy" in keys:
        keys = keys - _OF_A_POLICY | {CHOICE}
    return keys - {"replicas"} | {COPIES} if "replicas" in keys else keys


def _unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    return {key for key in {**one, **other} if one.get(key) != other.get(key)}
