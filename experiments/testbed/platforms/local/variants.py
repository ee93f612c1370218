"""Hardened programs of a design's arms, compiled when a fleet first needs them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.design import load_design
from experiments.design.fleet import Fleet
from experiments.design.roles import Role
from experiments.paths import ROOT
from experiments.testbed.platforms.local.on_demand_build import make
from experiments.testbed.platforms.terraform import Progress

BUILD = ROOT / "agents" / "harden" / "services" / "build"
SETTING = "VARIANT"
_AS_DEBIAN = "debian"
_TARGET = "bin/variants/"


def used_variants(folder: Path, fleet: Fleet, roles: Mapping[str, Role]) -> set[tuple[str, str]]:
    """Return the programs and variants of a design's arms: {("redis", "ilr"), ...}."""
    if not (folder / "experiment.toml").is_file():
        return set()
    variants = set()
    for arm in load_design(str(folder)).experiment.arms.values():
        for tier, settings in arm.settings.items():
            variant = settings.role.get(SETTING, _AS_DEBIAN)
            if tier not in fleet.tiers or variant == _AS_DEBIAN:
                continue
            role = roles[fleet.tiers[tier].role]
            pattern = roles[role.image_of or fleet.tiers[tier].role].build.get(_TARGET)
            if pattern is not None:
                variants.add((Path(pattern).parent.name, str(variant)))
    return variants


def build(variants: set[tuple[str, str]], progress: Progress) -> None:
    """Ensure that these programs are where images copy them from. Raises EnvironmentMissing."""
    for program, variant in sorted(variants):
        progress(f"{program}, variant {variant}: compiled where it is not here (minutes)")
        make(
            [BUILD, program, variant],
            f"{program}, variant {variant}",
            expected="the program, compiled by sparecraft-cc",
            hint=f"`{BUILD.relative_to(ROOT)} {program} {variant}` tries again; it needs Debian "
            "12, as the images have it.",
        )
