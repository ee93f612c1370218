"""The simulated evaluation of sPARE as tables, and what of it is not as in the paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from optimizer.reproduce.published import published
from optimizer.reproduce.simulated import FIG_7, Outcome

_NAMES = {
    "mediawiki": "MediaWiki, 36 + 12 (Table 3, 4, Fig. 8)",
    "solr": "Solr (Table 5, 6, Fig. 10)",
}
_COPIES = {"same": "same work, correlation 1", "independent": "independent work, correlation 0"}
_NOTE = """  Baselines were fitted to the paper's, all else is predicted: work, its variation
  and the speed under a neighbour, which the paper does not give. Nor does it say how far the
  work of a request's copies is the same: both ends are shown. Of a run of ours the correlation is
  fitted (sparecraft simulate --from RUN says it). Factor: baseline over it, above 1 is faster;
  simple is the best of round-robin with r1 = 1, 2, 3. Ratio: to the best pair in F."""


def show_simulated(out: Console, outcomes: Sequence[Outcome], policy: str) -> None:
    """A table for each application and each end of copies' correlation, and the paper's factors."""
    said = published("spare_evaluation")
    out.print(f"\nSection 6, simulated with the policy {policy}", style="bold")
    for application in dict.fromkeys(outcome.application for outcome in outcomes):
        here = [outcome for outcome in outcomes if outcome.application == application]
        for copies in dict.fromkeys(outcome.copies for outcome in here):
            mine = [outcome for outcome in here if outcome.copies == copies]
            out.print(f"{_NAMES[application]}; copies of {_COPIES[copies]}", highlight=False)
            out.print(_table(mine))
            same = sum(outcome.matches for outcome in mine)
            off = max(abs(o.baseline_s / o.baseline_paper_s - 1.0) for o in mine)
            out.print(
                f"  replicas as in the paper: {same} of {len(mine)}; ratio at most "
                f"{max(o.ratio for o in mine):.2f} (paper {max(o.ratio_paper for o in mine):.2f}); "
                f"baselines within {100 * off:.0f} %",
                highlight=False,
                soft_wrap=True,
            )
        out.print("Factors of p95 and p99, by the correlation of copies' work", highlight=False)
        out.print(_factors(here, said[application]["said"]))
    walks = [o for o in outcomes if (o.application, o.rate_per_s, o.pattern, o.metric) == FIG_7]
    if walks:
        out.print(_fig_7(walks), highlight=False, soft_wrap=True)
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


def _factors(outcomes: Sequence[Outcome], said: dict[str, str]) -> Table:
    """Return the range of the tail's factors by pattern and end of the correlation, beside the
    paper's.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    ends = dict.fromkeys(outcome.copies for outcome in outcomes)
    for heading in ("pattern", *(f"{who}, {end}" for who in ("simple", "sPARE") for end in ends)):
        table.add_column(heading, no_wrap=True)
    table.add_column("sPARE, paper", no_wrap=True)
    for pattern, paper in said.items():
        tails = [o for o in outcomes if o.pattern == pattern and o.metric != "mean"]
        simple = [_range(o.simple_factor for o in tails if o.copies == end) for end in ends]
        spare = [_range(o.spare_factor for o in tails if o.copies == end) for end in ends]
        table.add_row(pattern, *simple, *spare, paper)
    return table


def _range(factors: Iterable[float]) -> str:
    found = sorted(factors)
    return f"{found[0]:.2f} to {found[-1]:.2f}" if found else ""


def _fig_7(walks: Sequence[Outcome]) -> str:
    """Return the search of Fig. 7, by each end of the correlation, beside the paper's."""
    paper = [((1, 1), True), ((1, 2), True), ((2, 2), True), ((2, 3), False), ((3, 2), False)]
    rows = [("paper", paper), *((_COPIES[one.copies], one.walk) for one in walks)]
    lines = [f"  {name}: {' '.join(map(_step, walk))}" for name, walk in rows]
    return "\n".join(["Fig. 7, the search of pattern 2 at 20/s for p95; x: not taken", *lines])


def _step(step: tuple[tuple[int, int], bool]) -> str:
    replicas, taken = step
    return f"({_pair(replicas)}){'' if taken else 'x'}"


def _pair(pair: tuple[int, int]) -> str:
    return f"{pair[0]},{pair[1]}"
