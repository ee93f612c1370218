"""Parts of images that a script of ours makes when a fleet first needs them: jars of roles that are
Java programs, by Maven; hardened programs of a design's arms."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core.errors import EnvironmentMissing
from experiments.design import load_design
from experiments.design.fleet import Fleet
from experiments.design.roles import Role
from experiments.paths import ROOT
from experiments.testbed.platforms.terraform import Progress

JARS = ROOT / "ci" / "jars"
BUILD = ROOT / "agents" / "harden" / "services" / "build"
SETTING = "VARIANT"
_AS_DEBIAN = "debian"
_TARGET = "bin/variants/"


def fetch_jars(folders: Iterable[Path], progress: Progress) -> None:
    """Ensure that the jars of the roles in these folders are here. Raises EnvironmentMissing."""
    names = sorted({str(folder) for folder in folders if any(folder.rglob("pom.xml"))})
    if not names:
        return
    output = _make(
        [JARS, *names],
        f"jars of {', '.join(Path(folder).name for folder in names)}",
        expected="those that pom.xml and jars.sha256 beside it name",
        hint=f"`ci/jars {' '.join(names)}` tries again; it needs Maven and a repository.",
    )
    for line in output:
        progress(line)


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


def build_variants(variants: set[tuple[str, str]], progress: Progress) -> None:
    """Ensure that these programs are where images copy them from. Raises EnvironmentMissing."""
    for program, variant in sorted(variants):
        progress(f"{program}, variant {variant}: compiled where it is not here (minutes)")
        _make(
            [BUILD, program, variant],
            f"{program}, variant {variant}",
            expected="the program, compiled by sparecraft-cc",
            hint=f"`{BUILD.relative_to(ROOT)} {program} {variant}` tries again; it needs Debian "
            "12, as the images have it.",
        )


def _make(command: Sequence[str | Path], place: str, *, expected: str, hint: str) -> list[str]:
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    if process.returncode != 0:
        got = (process.stdout + process.stderr)[-2000:].strip()
        raise EnvironmentMissing(place, expected=expected, got=got, hint=hint)
    return process.stdout.splitlines()
