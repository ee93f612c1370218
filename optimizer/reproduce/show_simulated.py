"""The simulated evaluation of sPARE as a table, and what of it is not as in the paper."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from optimizer.reproduce.published import published
from optimizer.reproduce.simulated import Outcome

_NAMES = {
    "mediawiki": "MediaWiki, 36 + 12 (Table 3, 4, Fig. 8)",
    "solr": "Solr (Table 5, 6, Fig. 10)",
}
_NOTE = """  Baselines were fitted to the paper's, all else is predicted: work, its variation
  and the speed under a neighbour, which the paper does not give. Factor: baseline over it, above
  1 is faster; simple is the best of round-robin with r1 = 1, 2, 3. Ratio: to the best pair in F."""


def show_simulated(out: Console, outcomes: Sequence[Outcome], policy: str) -> None:
    """One table for each application, and the paper's own factors."""
    said = published("spare_evaluation")
    out.print(f"\nSection 6, simulated with the policy {policy}", style="bold")
    for application in dict.fromkeys(outcome.application for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.application == application]
        out.print(_NAMES[application], highlight=False)
        out.print(_table(mine))
        same = sum(outcome.matches for outcome in mine)
        off = max(abs(o.baseline_s / o.baseline_paper_s - 1.0) for o in mine)
        factors = "; ".join(f"pattern {k}: {v}" for k, v in said[application]["said"].items())
        out.print(
            f"  replicas as in the paper: {same} of {len(mine)}; baselines within "
            f"{100 * off:.0f} %\n  factors that the paper tells: {factors}",
            highlight=False,
            soft_wrap=True,
        )
    out.print(_NOTE, highlight=False, soft_wrap=True)


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("/s", "pattern", ""):
        table.add_column(heading, no_wrap=True, min_width=len(heading))
    for heading in ("base ms", "paper", "simple", "sPARE", "r", "paper", "steps", "ratio", "paper"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for outcome in outcomes:
        table.add_row(
            f"{outcome.rate_per_s:g}",
            outcome.pattern,
            outcome.metric,
            f"{1e3 * outcome.baseline_s:.0f}",
            f"{1e3 * outcome.baseline_paper_s:.0f}",
            f"{outcome.simple_factor:.2f}",
            f"{outcome.spare_factor:.2f}",
            _pair(outcome.chosen),
            _pair(outcome.chosen_paper),
            str(outcome.iterations),
            f"{outcome.ratio:.2f}",
            f"{outcome.ratio_paper:.2f}",
        )
    return table


def _pair(pair: tuple[int, int]) -> str:
    return f"{pair[0]},{pair[1]}"
