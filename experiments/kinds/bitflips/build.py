"""Builds of programs: each variant unchanged, and one whose results can be flipped."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from core.errors import EnvironmentMissing, InputError
from experiments.kinds.bitflips.services import SERVICES
from experiments.paths import ROOT

HARDEN = ROOT / "agents" / "harden"
KERNELS = HARDEN / "kernels"
ARBITER = ROOT / "build" / "bin" / "arbiter"
_BUILD_S = 600.0
_SERVICE_S = 7200.0  # on a host that does much else


@dataclass(frozen=True)
class Built:
    """A program in a variant."""

    program: str
    variant: str
    plain: Path  # as it is used: its speed is measured
    flipped: Path  # with a site at every result

    @property
    def copies(self) -> int:
        """Nodes that serve together, one of which is struck."""
        return copies_of(self.variant)

    @property
    def digest(self) -> str:
        """Digest of the injected program, and of the arbiter in front of it."""
        parts = [self.flipped, ARBITER] if self.copies > 1 else [self.flipped]
        return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


def copies_of(variant: str) -> int:
    """2 of `compared-2`, 1 of one that has no arbiter in front of it."""
    word, _, copies = variant.partition("-")
    return int(copies) if word == "compared" else 1


def make_compiler() -> None:
    """`ci/harden`: nothing where it was made. Raises EnvironmentMissing if it cannot be."""
    made = subprocess.run(
        [ROOT / "ci" / "harden"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if made.returncode != 0:
        said = (made.stderr or made.stdout).strip().splitlines() or ["nothing"]
        raise EnvironmentMissing(
            "ci/harden",
            expected="the hardening compiler (clang and LLVM 19 of Debian)",
            got=said[-1],
            hint="Call ci/harden and read its output.",
        )


def source_of(program: str) -> Path:
    """Return a kernel's source. Raises InputError naming those there are."""
    path = KERNELS / f"{program}.c"
    if not path.is_file():
        there = sorted([*SERVICES, *(one.stem for one in KERNELS.glob("*.c"))])
        raise InputError(
            f"program {program}",
            expected=f"one of {', '.join(there)}",
            got="no such kernel or service",
            hint="Name one of these, or put its source there.",
        )
    return path


def build(program: str, variant: str, folder: Path, sites: str) -> Built:
    """Compile a kernel or a service, twice; `sites`: what of it can be flipped."""
    if program in SERVICES:
        compiled = "native" if copies_of(variant) > 1 else variant
        plain, flipped = (build_service(program, compiled, one) for one in ("off", sites))
        return Built(program, variant, plain, flipped)
    source = source_of(program)
    built = Built(
        program, variant, folder / f"{program}-{variant}", folder / f"{program}-{variant}-flips"
    )
    compile_c(source, built.plain, variant)
    compile_c(source, built.flipped, variant, sites=sites)
    return built


def build_service(program: str, variant: str, sites: str) -> Path:
    """agents/harden/services/build: minutes, nothing where it was done. Returns the server.

    Raises: EnvironmentMissing with what it says.
    """
    made = subprocess.run(
        [HARDEN / "services" / "build", program, variant, sites],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SERVICE_S,
    )  # fmt: skip
    if made.returncode != 0:
        raise EnvironmentMissing(
            f"agents/harden/services/build {program} {variant} {sites}",
            expected="a service that compiles",
            got=made.stderr.strip()[-500:],
            hint="Its output names the problem.",
        )
    return Path(made.stdout.splitlines()[-1]) / "server"


def compile_c(source: Path, target: Path, variant: str, *, sites: str = "off") -> None:
    """sparecraft-cc with -O2; `sites`: off, results or operands.

    Raises: EnvironmentMissing with what the compiler says.
    """
    environment = {**os.environ, "SPARECRAFT_HARDEN": variant, "SPARECRAFT_FLIPS_BUILD": sites}
    # Linked statically, so that all addresses of the program are the same in each run.
    command = [str(HARDEN / "sparecraft-cc"), "-O2", "-gline-tables-only", "-static", str(source)]
    made = subprocess.run(
        [*command, "-o", str(target), "-lm"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
    )
    if made.returncode != 0:
        raise EnvironmentMissing(
            str(source),
            expected="a program that compiles",
            got=made.stderr.strip()[-500:],
            hint="Correct it, or the compiler.",
        )
