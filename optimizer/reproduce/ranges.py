"""PCRAFT's Fig. 5, 6 and 7: the curves, and the claims of its text beside the models' values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from core.json_object import JsonObject
from core.vocabulary import Scheme
from optimizer.availability import FailureRates, passive_failover
from optimizer.integrity import NODE_TYPES, FaultOutcomes, Integrity, integrity
from optimizer.reproduce.published import Claim, is_printed_as, published

CLOUD_S = 15.0  # to fail over, in Fig. 6
FIGURE_6_NODES = (*range(1, 21), *range(25, 101, 5))
RULE = "Match: less than one unit of the last printed digit off, or 5 %."


def unavailability(nodes: int, crash_per_year: float, failover_s: float | None) -> float:
    """Return the unavailability over a year of `nodes` without spares.

    failover_s None: on-premises with an empty pool.

    Source: PCRAFT Fig. 5 and 6.
    """
    if failover_s is None:
        return passive_failover(nodes, 0, FailureRates(crash_per_year)).unavailability
    rates = FailureRates(crash_per_year, failover_s)
    return passive_failover(nodes, None, rates, scheme=Scheme.cloud).unavailability


def integrity_nodes() -> dict[str, FaultOutcomes]:
    """Return the node types of Fig. 7.

    ft_tx comes twice: with the corruption probability of Table I, and with the one that fits the
    text."""
    fits = published("pcraft")["figure_7_corrupt_percent_of_month"]["ft_tx_corrupt_p_that_fits"]
    ft_tx = NODE_TYPES["ft_tx"]
    return {
        "native": NODE_TYPES["native"],
        "ft_ilr": NODE_TYPES["ft_ilr"],
        f"ft_tx ({_format_probability(ft_tx.corrupt_p)})": ft_tx,
        f"ft_tx ({_format_probability(fits)})": replace(ft_tx, corrupt_p=fits),
    }


def claims() -> list[Claim]:
    """Compare the text of section V-C on Fig. 5, 6 and 7 with the models."""
    data = published("pcraft")
    return [*_figure_5(data["figure_5"]), *_figure_6(data["figure_6"]), *_figure_7(data)]


def _figure_5(figure: JsonObject) -> Iterator[Claim]:
    low, high = figure["crash_per_year"]
    for failover_s in figure["failover_s"]:
        slow = failover_s == max(figure["failover_s"])
        least = figure["slow_cloud_at_least" if slow else "cloud_at_least"]
        allowed = 1.0 - least
        worst = unavailability(1, high, failover_s)
        explanation = ""
        if worst > allowed:
            rates = [c for c in range(low, high + 1) if unavailability(1, c, failover_s) <= allowed]
            explanation = (
                f"With a fail-over of {failover_s} s it holds up to {max(rates, default=0)} "
                "crashes a year; the text does not say for which fail-over time it speaks."
            )
        yield Claim(
            "Fig. 5",
            f"cloud, fail-over {failover_s} s",
            f"at least {_format_percent(least)}",
            f"{_format_percent(1 - unavailability(1, low, failover_s))} at {low} a year, "
            f"{_format_percent(1 - worst)} at {high}",
            worst <= allowed,
            explanation,
        )
    best, worst = unavailability(1, low, None), unavailability(1, high, None)
    yield Claim(
        "Fig. 5",
        "on-premises",
        f"below {_format_percent(figure['on_prem_below'])} at any rate",
        f"{_format_percent(1 - best)} at {low} a year, {_format_percent(1 - worst)} at {high}",
        1 - best < figure["on_prem_below"],
    )


def _figure_6(figure: JsonObject) -> Iterator[Claim]:
    low, high = figure["crash_per_year"]
    most = FIGURE_6_NODES[-1]
    worst = 1 - unavailability(most, high, CLOUD_S)
    yield Claim(
        "Fig. 6",
        "cloud",
        "remains high with more nodes",
        f"{_format_percent(worst)} with {most} nodes at {high} a year",
        worst >= 0.999,
    )
    percent = 100 * (1 - unavailability(10, low, None))
    yield Claim(
        "Fig. 6",
        "on-premises, 10 nodes",
        f"{figure['on_prem_10_nodes_percent']} %",
        f"{percent:.1f} % at {low} a year ({100 * (1 - unavailability(10, high, None)):.1f} % "
        f"at {high})",
        is_printed_as(percent, figure["on_prem_10_nodes_percent"]),
    )


def _figure_7(data: JsonObject) -> Iterator[Claim]:
    figure = data["figure_7_corrupt_percent_of_month"]
    for name, outcomes in integrity_nodes().items():
        for unit, ends in figure["faults_per_month"].items():
            printed = figure[name.partition(" ")[0]][unit]
            ours = [100 * integrity(outcomes, faults).corrupt for faults in ends]
            matches = all(is_printed_as(o, p) for o, p in zip(ours, printed, strict=True))
            yield Claim(
                "Fig. 7",
                f"{name}, corrupt, faults {_format_faults(unit, ends)}",
                f"{printed[0]} to {printed[1]} %",
                f"{ours[0]:.2g} to {ours[1]:.3g} %",
                matches,
                "" if matches else _explain_ft_tx(figure),
            )
    high = max(figure["faults_per_month"]["day"])
    yield from _ft_tx_against_ft_ilr(high)


def _ft_tx_against_ft_ilr(faults_per_month: float) -> Iterator[Claim]:
    results = {n: integrity(o, faults_per_month) for n, o in integrity_nodes().items()}
    ilr = results["ft_ilr"]
    for name, tx in results.items():
        if not name.startswith("ft_tx"):
            continue
        matches = tx.correct > ilr.correct and tx.corrupt < ilr.corrupt and tx.down < ilr.down
        yield Claim(
            "Fig. 7",
            f"{name} against ft_ilr, {faults_per_month / 30:g} faults a day",
            "more correct, less corrupt, less down",
            f"{_format_shares(tx)}, against {_format_shares(ilr)}",
            matches,
            ""
            if matches
            else _explain_ft_tx(published("pcraft")["figure_7_corrupt_percent_of_month"]),
        )


def _explain_ft_tx(figure: JsonObject) -> str:
    printed = _format_probability(NODE_TYPES["ft_tx"].corrupt_p)
    return (
        f"Table I prints a corruption probability of {printed}, with "
        "which ft_tx is corrupt for longer than ft_ilr; the text's numbers come out at "
        f"{_format_probability(figure['ft_tx_corrupt_p_that_fits'])}."
    )


def _format_faults(unit: str, ends: Sequence[float]) -> str:
    per_unit = [e / (30 if unit == "day" else 1) for e in ends]
    return f"{per_unit[0]:g} to {per_unit[1]:g} a {unit}"


def _format_probability(value: float) -> str:
    return f"{100 * value:.2f} %"


def _format_shares(state: Integrity) -> str:
    return " / ".join(f"{100 * s:.3g} %" for s in (state.correct, state.corrupt, state.down))


def _format_percent(availability: float) -> str:
    """Format per cent, with enough digits to distinguish nines."""
    unavailable = 100 * (1 - availability)
    digits = 1
    while digits < 7 and unavailable < 3 * 10.0 ** (1 - digits):
        digits += 1
    text = f"{100 * availability:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')} %"
