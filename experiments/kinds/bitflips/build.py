"""Builds of programs: each variant as it is, and with results that can be flipped."""

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
    program: str
    variant: str
    plain: Path  # as in normal use: its speed is measured
    flipped: Path  # with a site at every result

    @property
    def copies(self) -> int:
        """Number of nodes that serve together; one of them is struck."""
        return copies_of(self.variant)

    @property
    def digest(self) -> str:
        """Digest of the injected program, and of the arbiter in front of it."""
        parts = [self.flipped, ARBITER] if self.copies > 1 else [self.flipped]
        return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


def copies_of(variant: str) -> int:
    """Return 2 for `compared-2`; 1 for a variant without an arbiter in front."""
    scheme, _, copies = variant.partition("-")
    return int(copies) if scheme == "compared" else 1


def make_compiler() -> None:
    """Call `ci/harden`, which does nothing if the compiler exists. Raises EnvironmentMissing if it
    cannot be built.
    """
    process = subprocess.run(
        [ROOT / "ci" / "harden"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if process.returncode != 0:
        output_lines = (process.stderr or process.stdout).strip().splitlines() or ["nothing"]
        raise EnvironmentMissing(
            "ci/harden",
            expected="the hardening compiler (clang and LLVM 19 of Debian)",
            got=output_lines[-1],
            hint="Call ci/harden and read its output.",
        )


def source_of(program: str) -> Path:
    """Return a kernel's source. Raises InputError, which names the known programs."""
    path = KERNELS / f"{program}.c"
    if not path.is_file():
        programs = sorted([*SERVICES, *(kernel.stem for kernel in KERNELS.glob("*.c"))])
        raise InputError(
            f"program {program}",
            expected=f"one of {', '.join(programs)}",
            got="no such kernel or service",
            hint="Name one of these, or put its source there.",
        )
    return path


def build(program: str, variant: str, folder: Path, sites: str) -> Built:
    """Compile a kernel or a service, twice; `sites`: the kind of values that can be flipped."""
    if program in SERVICES:
        compiled = "native" if copies_of(variant) > 1 else variant
        plain, flipped = (build_service(program, compiled, site_set) for site_set in ("off", sites))
        return Built(program, variant, plain, flipped)
    source = source_of(program)
    built = Built(
        program, variant, folder / f"{program}-{variant}", folder / f"{program}-{variant}-flips"
    )
    compile_c(source, built.plain, variant)
    compile_c(source, built.flipped, variant, sites=sites)
    return built


def build_service(program: str, variant: str, sites: str) -> Path:
    """Call agents/harden/services/build, which takes minutes, or nothing if it is done already.
    Returns the server.

    Raises: EnvironmentMissing with the build's output.
    """
    process = subprocess.run(
        [HARDEN / "services" / "build", program, variant, sites],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SERVICE_S,
    )  # fmt: skip
    if process.returncode != 0:
        raise EnvironmentMissing(
            f"agents/harden/services/build {program} {variant} {sites}",
            expected="a service that compiles",
            got=process.stderr.strip()[-500:],
            hint="Its output names the problem.",
        )
    return Path(process.stdout.splitlines()[-1]) / "server"


def compile_c(source: Path, target: Path, variant: str, *, sites: str = "off") -> None:
    """Call sparecraft-cc with -O2; `sites`: off, results or operands.

    Raises: EnvironmentMissing with the compiler's output.
    """
    environment = {**os.environ, "SPARECRAFT_HARDEN": variant, "SPARECRAFT_FLIPS_BUILD": sites}
    # Linked statically, so that all addresses of the program are the same in each run.
    command = [str(HARDEN / "sparecraft-cc"), "-O2", "-gline-tables-only", "-static", str(source)]
    process = subprocess.run(
        [*command, "-o", str(target), "-lm"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
    )
    if process.returncode != 0:
        raise EnvironmentMissing(
            str(source),
            expected="a program that compiles",
            got=process.stderr.strip()[-500:],
            hint="Correct it, or the compiler.",
        )
