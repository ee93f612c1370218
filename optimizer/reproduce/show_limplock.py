"""The limplock paper's formulas beside simulations, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from core.terminal import bare_table
from optimizer.limplock import Estimate, Simulated
from optimizer.limplock.protocol import NAMES
from optimizer.reproduce.limplock import Compared

_NOTE = """  average: what the formulas assume. in turn: the protocol, where what timed out is sent
  again and what was copied is safe. 95 % intervals; * where the formula is outside of one."""


def show_compared(out: Console, comparisons: Sequence[Compared]) -> None:
    """Print three lines for each size of the cluster: the formula and two simulations."""
    first = comparisons[0].cluster
    out.print(
        f"\nFormulas and simulations: {first.blocks} blocks to copy, {first.requests} requests",
        style="bold",
        highlight=False,
    )
    names = (name.replace("_regeneration", "").replace("_", " ") for name in NAMES)
    table = bare_table("nodes", "", *names, left=2, gap=1)
    for comparison in comparisons:
        formula = (f"{_format_share(getattr(comparison.formula, name))} " for name in NAMES)
        table.add_row(str(comparison.cluster.nodes), "formula", *formula)
        for label, simulated in (("average", comparison.average), ("in turn", comparison.in_turn)):
            table.add_row("", label, *_intervals(comparison, simulated))
    out.print(table)
    out.print(_NOTE, highlight=False, soft_wrap=True)


def _intervals(comparison: Compared, simulated: Simulated) -> list[str]:
    cells = []
    for name in NAMES:
        estimate: Estimate = getattr(simulated, name)
        sign = " " if estimate.holds(getattr(comparison.formula, name)) else "*"
        cells.append(f"{_format_share(estimate.low)}-{_format_share(estimate.high)}{sign}")
    return cells


def _format_share(share: float) -> str:
    if share in (0.0, 1.0):
        return f"{share:g}"
    if share < 5e-4:
        return f"{share:.0e}".replace("e-0", "e-")
    return ">.999" if share >= 0.9995 else f"{share:.3f}".removeprefix("0")
