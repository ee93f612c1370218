"""The hardening compiler for tests: made once, and the reason where this host cannot have it."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.kinds.bitflips.build import HARDEN, Built, compile_c
from experiments.kinds.bitflips.inject import Golden, Injection, Limits, inject
from experiments.paths import ROOT

VARIANTS = ("native", "ilr", "tx", "log")
SAID = "no hardware transactions"
_MISSING = 3  # the exit status of a script that lacks something of the environment


@functools.cache
def _made() -> tuple[int, str]:
    process = subprocess.run([ROOT / "ci" / "harden"], capture_output=True, text=True)
    return process.returncode, process.stderr or process.stdout


def need_compiler() -> None:
    """Skip the test where there is no LLVM; fail it where the pass does not build."""
    status, output = _made()
    if status == _MISSING:
        pytest.skip(f"ci/harden: {output.strip()}")
    assert status == 0, output


def built(source: Path, variant: str, folder: Path, sites: str = "results") -> Built:
    """A program of agents/harden, only with sites for flips."""
    target = folder / f"{source.stem}-{variant}"
    compile_c(source, target, variant, sites=sites)
    return Built(source.stem, variant, target, target)


def injected(
    program: Built, golden: Golden, limits: Limits, folder: Path, seed: int, count: int
) -> Iterator[Injection]:
    """The first injections of a seed, of one bit each."""
    for number in range(count):
        yield inject(program, golden, limits, folder, seed=seed, number=number, bits=1)


def trouble(name: str) -> Path:
    """A program of agents/harden/tests."""
    return HARDEN / "tests" / f"{name}.c"


@functools.cache
def has_transactions() -> bool:
    """True if programs compiled as `tx` have hardware transactions here, by what they say."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "tx"
        compile_c(trouble("signals"), program, "tx")
        process = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    return SAID not in process.stderr
