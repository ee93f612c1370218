"""PCRAFT's Tables II and III: each cell in two readings of "6/year".

fitted   one crash every six months, 183 days; at exactly 2 a year all cells come out as well,
         except those of Table II(b), which then have one node more
literal  six crashes a year
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from core.json_object import JsonObject
from core.vocabulary import Scheme
from optimizer.availability import (
    FailureRates,
    Sizing,
    least_extra_nodes,
    least_pool,
    passive_failover,
)
from optimizer.reproduce.published import published

READINGS = {"fitted": "columns", "literal": "literal_columns"}
TABLES = {
    "table_ii_a": "table_ii_a_cloud_extra_ara",
    "table_ii_b": "table_ii_b_on_prem_extra_ara",
    "table_iii": "table_iii_on_prem_pool_pf",
}
NODES = ("native", "ft_ilr", "ft_tx")


@dataclass(frozen=True)
class Cell:
    """One number of a table: extra nodes or pool; None if no number reaches the target.

    at_any_size: None if there is a number, True if fail-over alone uses up the downtime, False if
    only the search was bounded.
    """

    table: str
    node: str
    column: str
    reading: str
    paper: int | None
    ours: int | None
    reason: str
    at_any_size: bool | None
    explanation: str

    @property
    def matches(self) -> bool:
        """True if the numbers are equal, or the cell is infeasible and the paper has a cross."""
        return self.paper == self.ours and self.at_any_size is not False


def all_cells(reading: str) -> list[Cell]:
    """Return every cell of the three tables in one reading.  Source: PCRAFT Tables II and III."""
    data = published("pcraft")
    return [cell for table in TABLES for cell in _table(data, table, reading)]


def table_ii_b_at_two_a_year() -> dict[str, int | None]:
    """Return the 6/year column of Table II(b) at exactly two crashes a year, by node type."""
    data = published("pcraft")
    target = data["availability_target"]
    return {n: _sizing("table_ii_b", data["needed"][n], 2.0, target).extra for n in NODES}


def _table(data: JsonObject, table: str, reading: str) -> Iterator[Cell]:
    body = data[TABLES[table]]
    target = data["availability_target"]
    for node in NODES:
        for index, printed in enumerate(body["printed_columns"]):
            needed, paper = data["needed"][node], body[node][index]
            column = _hashable(body[READINGS[reading]][index])
            sizing = _sizing(table, needed, column, target)
            at_any_size = None
            if sizing.extra is None:
                at_any_size = _unlimited(table, needed, column) < target
            explanation = ""
            if sizing.extra != paper or at_any_size is False:
                fitted = _sizing(table, needed, _hashable(body["columns"][index]), target)
                explanation = _explain(printed, column, sizing, paper, fitted)
            yield Cell(
                table,
                node,
                printed,
                reading,
                paper,
                sizing.extra,
                sizing.reason,
                at_any_size,
                explanation,
            )


def _hashable(column: Any) -> Any:
    return tuple(column) if isinstance(column, list) else column


@lru_cache(maxsize=256)
def _sizing(table: str, needed: int, column: Any, target: float) -> Sizing:
    sizes: dict[str, Callable[[], Sizing]] = {
        "table_ii_a": lambda: least_extra_nodes(
            needed, target, FailureRates(*column), scheme=Scheme.cloud
        ),
        "table_ii_b": lambda: least_extra_nodes(
            needed, target, FailureRates(column), scheme=Scheme.on_prem
        ),
        "table_iii": lambda: least_pool(needed, target, FailureRates(*column)),
    }
    return sizes[table]()


def _unlimited(table: str, needed: int, column: Any) -> float:
    """Return the availability with unlimited spare nodes; 1 for active nodes."""
    if table != "table_iii":
        return 1.0
    return passive_failover(needed, None, FailureRates(*column), scheme=Scheme.cloud).availability


def _explain(printed: str, column: Any, sizing: Sizing, paper: int | None, fitted: Sizing) -> str:
    crash_per_year = column[0] if isinstance(column, tuple) else column
    text = f"at {crash_per_year:g} crashes a year: {sizing.reason}"
    if fitted.extra == paper and printed.startswith("6/year"):
        text += f"; the printed {paper} is what one crash every six months gives"
    return text
