"""sparecraft-cc: hardened programs keep their output, and detect or correct a flipped bit."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from experiments.kinds.bitflips.build import HARDEN, KERNELS, compile_c
from experiments.kinds.bitflips.inject import STOPPED, Limits, run_golden
from experiments.tests.harden_fixture import (
    SAID,
    VARIANTS,
    built,
    has_transactions,
    injected,
    need_compiler,
    trouble,
)

pytestmark = pytest.mark.long

TROUBLE = ("assembly", "frozen", "jumps", "local", "signals", "threads")
LIMITS = Limits(cpu_s=20, wall_s=120.0, memory_bytes=1 << 30, output_bytes=8 << 20)
_WALL_S = 300


@pytest.fixture(autouse=True)
def _compiler() -> None:
    need_compiler()


def ran(program: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {"SPARECRAFT_TX": "auto", **environment}
    return subprocess.run(
        [program], capture_output=True, text=True, timeout=_WALL_S, check=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def outputs(source: Path, folder: Path) -> dict[str, str]:
    stdouts = {}
    for variant in VARIANTS:
        compile_c(source, folder / variant, variant)
        stdouts[variant] = ran(folder / variant).stdout
    stdouts["tx, without RTM"] = ran(folder / "tx", SPARECRAFT_TX="none").stdout
    return stdouts


@pytest.mark.parametrize(
    "source", [*sorted(KERNELS.glob("*.c")), *map(trouble, TROUBLE)], ids=lambda path: path.stem
)
def test_a_hardened_program_says_what_the_native_one_says(source: Path, tmp_path: Path) -> None:
    stdouts = outputs(source, tmp_path)
    assert stdouts["native"]
    assert set(stdouts.values()) == {stdouts["native"]}


def test_what_is_left_alone_is_said(tmp_path: Path) -> None:
    process = subprocess.run(
        [HARDEN / "sparecraft-cc", "-O2", "-Rpass-missed=sparecraft", "-c", trouble("jumps"),
         "-o", tmp_path / "jumps.o"],
        capture_output=True, text=True, check=True, env={**os.environ, "SPARECRAFT_HARDEN": "ilr"},
    )  # fmt: skip
    assert "main is not hardened" in process.stderr


def test_without_hardware_transactions_a_program_says_so_and_runs(tmp_path: Path) -> None:
    compile_c(trouble("threads"), tmp_path / "tx", "tx")
    without_tx = ran(tmp_path / "tx", SPARECRAFT_TX="none")
    assert without_tx.stdout
    assert without_tx.stderr == ""
    automatic = ran(tmp_path / "tx", SPARECRAFT_TX="auto")
    assert automatic.stdout == without_tx.stdout
    assert (SAID in automatic.stderr) == (not has_transactions())


def test_transactions_are_counted_where_there_are_any(tmp_path: Path) -> None:
    program = KERNELS / "word_count.c"
    compile_c(program, tmp_path / "tx", "tx")
    counts = tmp_path / "counts"
    ran(tmp_path / "tx", SPARECRAFT_TX_COUNTS=str(counts))
    assert counts.exists() == has_transactions()
    if has_transactions():
        transactions = json.loads(counts.read_text())
        assert transactions["begun"] > 1000
        assert transactions["difference"] == 0


def test_an_unknown_variant_is_refused(tmp_path: Path) -> None:
    process = subprocess.run(
        [HARDEN / "sparecraft-cc", "-c", trouble("jumps"), "-o", tmp_path / "x.o"],
        capture_output=True, text=True, env={**os.environ, "SPARECRAFT_HARDEN": "twice"},
    )  # fmt: skip
    assert process.returncode == 2
    assert "twice" in process.stderr


@pytest.mark.parametrize("variant", ["native", "ilr", "tx", "log"])
def test_a_difference_stops_ilr_and_is_tried_again_in_a_transaction(
    variant: str, tmp_path: Path
) -> None:
    program = built(KERNELS / "linear_regression.c", variant, tmp_path)
    golden = run_golden(program, LIMITS, tmp_path)
    lines = list(injected(program, golden, LIMITS, tmp_path, seed=7, count=40))
    outcomes = {line["outcome"] for line in lines}
    statuses = {line["status"] for line in lines if line["outcome"] == "detected"}
    if variant == "native":
        assert "detected" not in outcomes
        assert "silent" in outcomes
    elif variant == "log" or (variant == "tx" and has_transactions()):
        assert "corrected" in outcomes
    else:
        assert statuses == {STOPPED}
        assert "corrected" not in outcomes


@pytest.mark.parametrize("name", ["local", "frozen"])
def test_what_is_not_computed_of_values_alone_is_compared_too(name: str, tmp_path: Path) -> None:
    program = built(trouble(name), "ilr", tmp_path)
    golden = run_golden(program, LIMITS, tmp_path)
    lines = injected(program, golden, LIMITS, tmp_path, seed=7, count=300)
    assert [line for line in lines if line["outcome"] == "silent"] == []


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_generated_programs_say_what_they_say_unhardened(seed: int, tmp_path: Path) -> None:
    source = tmp_path / "generated.c"
    options = ["--max-funcs", "4", "--max-block-depth", "3", "--no-packed-struct"]
    subprocess.run(
        ["csmith", "--seed", str(seed), *options, "-o", source], check=True, cwd=tmp_path
    )
    text = source.read_text()
    include = next(Path("/usr/include").glob("csmith*"))
    source.write_text(text.replace('#include "csmith.h"', f'#include "{include}/csmith.h"'))
    stdouts = outputs(source, tmp_path)
    assert set(stdouts.values()) == {stdouts["native"]}
