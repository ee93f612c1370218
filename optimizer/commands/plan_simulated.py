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
    """`simulation` and `predicted.distribution` of plan.json."""
    found, shown = body["simulation"], body["predicted"].get("distribution")
    if shown:
        print_table(_distribution(shown))
    for line in _words(found, shown):
        out.print(Text(line))


def _words(found: Mapping[str, Any], shown: Distribution | None) -> Iterator[str]:
    if found.get("verdict") not in ("kept", "undecided"):
        return
    if shown:
        kept = f"{shown['kept_share']:.0%} of {shown['runs']} simulated runs keep the SLO"
        asked = f"asked are {found['confidence']:.0%}"
        yield f"{found['verdict'].capitalize()}: {kept}; {asked}."
    fleets = found["fleets"]
    counts = {
        word: sum(one["verdict"] == word for one in fleets) for word in ("broken", "undecided")
    }
    text = f"Of {found['screened']} fleets in short simulated runs the best of each cost were"
    text += f" tested, {len(fleets)}: {counts['broken']} are shown to break it"
    text += f" and {counts['undecided']} are not shown to keep it"
    if found["not_looked_at"]:
        text += f"; {found['not_looked_at']} cheaper ones were not looked at"
    yield f"{text}."
    law = found["law"]
    if found["moved"]:
        yield f"The law had proposed {law['fleet']}, {law['usd_per_month']:.2f} USD."


def _distribution(shown: Distribution) -> Table:
    """Return each figure of one run with its interval, also without faults if that differs."""
    faults, calm = shown["with_faults"], shown["without_faults"]
    both = faults != calm
    head = f"of a run of {shown['pages']} requests"
    at = f"{shown['confidence']:.0%} of runs"
    columns = ["predicted", at, *(["without faults", at] if both else [])]
    table = plain_table(head, *columns)
    for name, one, other in _rows(faults, calm):
        table.add_row(name, *one, *(other if both else ()))
    return table


def _rows(faults: Figures, calm: Figures) -> Iterator[tuple[str, tuple[str, str], tuple[str, str]]]:
    for name, one, other in (
        ("p50", faults["p50_ms"], calm["p50_ms"]),
        ("p95", faults["p95_ms"], calm["p95_ms"]),
        ("p99", faults["p99_ms"], calm["p99_ms"]),
    ):
        yield name, _cells(one, "{:.0f} ms"), _cells(other, "{:.0f} ms")
    for limit, one in faults["share_beyond"].items():
        other = calm["share_beyond"][limit]
        yield f"beyond {limit} ms", _cells(one, "{:.2%}"), _cells(other, "{:.2%}")
    for tier, one in faults["cpu"].items():
        yield f"CPU of {tier}", _cells(one, "{:.0%}"), _cells(calm["cpu"][tier], "{:.0%}")


def _cells(one: Interval, text: str) -> tuple[str, str]:
    low, high = text.format(one["low"]), text.format(one["high"])
    return text.format(one["point"]), f"{low} to {high}"
