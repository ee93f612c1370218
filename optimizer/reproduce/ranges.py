"""PCRAFT's Fig. 5, 6 and 7: the curves, and what its text says of them beside what they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from core.json_object import JsonObject
from core.vocabulary import Scheme
from optimizer.availability import FailureRates, passive_failover
from optimizer.integrity import NODE_TYPES, FaultOutcomes, Integrity, integrity
from optimizer.reproduce.published import Claim, is_printed_as, published

FIGURE_6_NODES = (*range(1, 21), *range(25, 101, 5))
RULE = "Match: less than one unit of the last printed digit off, or 5 %."


def single_node(crash_per_year: float, failover_s: float | None) -> float:
    """Unavailability over a year of one node; failover_s None: on-premises with an empty pool.

    Source: PCRAFT Fig. 5.
    """
    return _unavailability(1, crash_per_year, failover_s)


def cluster(nodes: int, crash_per_year: float, scheme: str) -> float:
    """Unavailability over a year of `nodes` without spares; cloud: fail-over in 15 s.

    Source: PCRAFT Fig. 6.
    """
    return _unavailability(nodes, crash_per_year, 15.0 if scheme == Scheme.cloud else None)


def integrity_nodes() -> dict[str, FaultOutcomes]:
    """Fig. 7's node types; ft_tx with Table I's corruption probability and with the one that fits
    the text."""
    fits = published("pcraft")["figure_7_corrupt_percent_of_month"]["ft_tx_corrupt_p_that_fits"]
    ft_tx = NODE_TYPES["ft_tx"]
    return {
        "native": NODE_TYPES["native"],
        "ft_ilr": NODE_TYPES["ft_ilr"],
        f"ft_tx ({_probability(ft_tx.corrupt_p)})": ft_tx,
        f"ft_tx ({_probability(fits)})": replace(ft_tx, corrupt_p=fits),
    }


def claims() -> list[Claim]:
    """Compare the text of section V-C on Fig. 5, 6 and 7 with the models."""
    data = published("pcraft")
    return [*_figure_5(data["figure_5"]), *_figure_6(data["figure_6"]), *_figure_7(data)]


def _unavailability(nodes: int, crash_per_year: float, failover_s: float | None) -> float:
    if failover_s is None:
        return passive_failover(nodes, 0, FailureRates(crash_per_year)).unavailability
    rates = FailureRates(crash_per_year, failover_s)
    return passive_failover(nodes, None, rates, scheme=Scheme.cloud).unavailability


def _figure_5(said: JsonObject) -> Iterator[Claim]:
    low, high = said["crash_per_year"]
    for failover_s in said["failover_s"]:
        slow = failover_s == max(said["failover_s"])
        least = said["slow_cloud_at_least" if slow else "cloud_at_least"]
        allowed = 1.0 - least
        worst = single_node(high, failover_s)
        explanation = ""
        if worst > allowed:
            held = [c for c in range(low, high + 1) if single_node(c, failover_s) <= allowed]
            explanation = (
                f"With a fail-over of {failover_s} s it holds up to {max(held, default=0)} crashes "
                "a year; the text does not say for which fail-over time it speaks."
            )
        yield Claim(
            "Fig. 5",
            f"cloud, fail-over {failover_s} s",
            f"at least {_percent(least)}",
            f"{_percent(1 - single_node(low, failover_s))} at {low} a year, "
            f"{_percent(1 - worst)} at {high}",
            worst <= allowed,
            explanation,
        )
    best, worst = single_node(low, None), single_node(high, None)
    yield Claim(
        "Fig. 5",
        "on-premises",
        f"below {_percent(said['on_prem_below'])} at any rate",
        f"{_percent(1 - best)} at {low} a year, {_percent(1 - worst)} at {high}",
        1 - best < said["on_prem_below"],
    )


def _figure_6(said: JsonObject) -> Iterator[Claim]:
    low, high = said["crash_per_year"]
    most = FIGURE_6_NODES[-1]
    worst = 1 - cluster(most, high, "cloud")
    yield Claim(
        "Fig. 6",
        "cloud",
        "remains high with more nodes",
        f"{_percent(worst)} with {most} nodes at {high} a year",
        worst >= 0.999,
    )
    percent = 100 * (1 - cluster(10, low, "on-prem"))
    yield Claim(
        "Fig. 6",
        "on-premises, 10 nodes",
        f"{said['on_prem_10_nodes_percent']} %",
        f"{percent:.1f} % at {low} a year ({100 * (1 - cluster(10, high, 'on-prem')):.1f} % "
        f"at {high})",
        is_printed_as(percent, said["on_prem_10_nodes_percent"]),
    )


def _figure_7(data: JsonObject) -> Iterator[Claim]:
    said = data["figure_7_corrupt_percent_of_month"]
    for name, outcomes in integrity_nodes().items():
        for unit, ends in said["faults_per_month"].items():
            printed = said[name.partition(" ")[0]][unit]
            ours = [100 * integrity(outcomes, faults).corrupt for faults in ends]
            matches = all(is_printed_as(o, p) for o, p in zip(ours, printed, strict=True))
            yield Claim(
                "Fig. 7",
                f"{name}, corrupt, faults {_faults(unit, ends)}",
                f"{printed[0]} to {printed[1]} %",
                f"{ours[0]:.2g} to {ours[1]:.3g} %",
                matches,
                "" if matches else _of_ft_tx(said),
            )
    high = max(said["faults_per_month"]["day"])
    yield from _ft_tx_against_ft_ilr(high)


def _ft_tx_against_ft_ilr(faults_per_month: float) -> Iterator[Claim]:
    found = {n: integrity(o, faults_per_month) for n, o in integrity_nodes().items()}
    ilr = found["ft_ilr"]
    for name, tx in found.items():
        if not name.startswith("ft_tx"):
            continue
        matches = tx.correct > ilr.correct and tx.corrupt < ilr.corrupt and tx.down < ilr.down
        yield Claim(
            "Fig. 7",
            f"{name} against ft_ilr, {faults_per_month / 30:g} faults a day",
            "more correct, less corrupt, less down",
            f"{_shares(tx)}, against {_shares(ilr)}",
            matches,
            "" if matches else _of_ft_tx(published("pcraft")["figure_7_corrupt_percent_of_month"]),
        )


def _of_ft_tx(said: JsonObject) -> str:
    printed = _probability(NODE_TYPES["ft_tx"].corrupt_p)
    return (
        f"Table I prints a corruption probability of {printed}, with "
        "which ft_tx is corrupt for longer than ft_ilr; the text's numbers come out at "
        f"{_probability(said['ft_tx_corrupt_p_that_fits'])}."
    )


def _faults(unit: str, ends: Sequence[float]) -> str:
    per_unit = [e / (30 if unit == "day" else 1) for e in ends]
    return f"{per_unit[0]:g} to {per_unit[1]:g} a {unit}"


def _probability(value: float) -> str:
    return f"{100 * value:.2f} %"


def _shares(found: Integrity) -> str:
    return " / ".join(f"{100 * s:.3g} %" for s in (found.correct, found.corrupt, found.down))


def _percent(availability: float) -> str:
    """Format per cent, with enough digits to distinguish nines."""
    unavailable = 100 * (1 - availability)
    digits = 1
    while digits < 7 and unavailable < 3 * 10.0 ** (1 - digits):
        digits += 1
    text = f"{100 * availability:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')} %"
