"""The simulation behind a plan, on a terminal: its verdict, and its prediction of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from core.terminal import out, plain_table, print_table

if TYPE_CHECKING:
    from optimizer.plan.simulate.search import Distribution, Figures, Interval


def print_simulated(body: Mapping[str, Any]) -> None:
    """Print `simulation` and `predicted.distribution` of plan.json."""
    simulation, distribution = body["simulation"], body["predicted"].get("distribution")
    if distribution:
        print_table(_distribution_table(distribution))
    for line in _verdict_lines(simulation, distribution):
        out.print(Text(line))


def _verdict_lines(
    simulation: Mapping[str, Any], distribution: Distribution | None
) -> Iterator[str]:
    if simulation.get("verdict") not in ("kept", "undecided"):
        return
    if distribution:
        verdict, share = simulation["verdict"].capitalize(), distribution["kept_share"]
        yield (
            f"{verdict}: {share:.0%} of {distribution['runs']:,} simulated runs keep the SLO; "
            f"asked are {simulation['confidence']:.0%}."
        )
    fleets = simulation["fleets"]
    counts = {
        verdict: sum(fleet["verdict"] == verdict for fleet in fleets)
        for verdict in ("broken", "undecided")
    }
    text = f"Of {simulation['screened']} fleets in short simulated runs the best of each cost were"
    text += f" tested, {len(fleets)}: {counts['broken']} are shown to break it"
    text += f" and {counts['undecided']} are not shown to keep it"
    if simulation["not_looked_at"]:
        text += f"; {simulation['not_looked_at']} cheaper ones were not looked at"
    yield f"{text}."
    law = simulation["law"]
    if simulation["moved"]:
        yield f"The law had proposed {law['fleet']}, {law['usd_per_month']:.2f} USD."


def _distribution_table(distribution: Distribution) -> Table:
    """Return each figure of one run with its interval; also without faults, if these differ."""
    faults, calm = distribution["with_faults"], distribution["without_faults"]
    differs = faults != calm
    head = f"of a run of {distribution['pages']} requests"
    share_head = f"{distribution['confidence']:.0%} of runs"
    columns = ["predicted", share_head, *(["without faults", share_head] if differs else [])]
    table = plain_table(head, *columns)
    for name, faults_cells, calm_cells in _rows(faults, calm):
        table.add_row(name, *faults_cells, *(calm_cells if differs else ()))
    return table


def _rows(faults: Figures, calm: Figures) -> Iterator[tuple[str, tuple[str, str], tuple[str, str]]]:
    for name, faults_interval, calm_interval in (
        ("p50", faults["p50_ms"], calm["p50_ms"]),
        ("p95", faults["p95_ms"], calm["p95_ms"]),
        ("p99", faults["p99_ms"], calm["p99_ms"]),
    ):
        yield name, _cells(faults_interval, "{:.0f} ms"), _cells(calm_interval, "{:.0f} ms")
    for limit, faults_interval in faults["share_beyond"].items():
        calm_interval = calm["share_beyond"][limit]
        yield (
            f"beyond {limit} ms",
            _cells(faults_interval, "{:.2%}"),
            _cells(calm_interval, "{:.2%}"),
        )
    for tier, faults_interval in faults["cpu"].items():
        yield (
            f"CPU of {tier}",
            _cells(faults_interval, "{:.0%}"),
            _cells(calm["cpu"][tier], "{:.0%}"),
        )


def _cells(interval: Interval, text: str) -> tuple[str, str]:
    low, high = text.format(interval["low"]), text.format(interval["high"])
    return text.format(interval["point"]), f"{low} to {high}"
