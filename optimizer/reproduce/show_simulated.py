"""The simulated evaluation of sPARE as tables, and its differences from the paper."""

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
    """Print a table for each application and correlation of copies, and the paper's factors."""
    paper = published("spare_evaluation")
    out.print(f"\nSection 6, simulated with the policy {policy}", style="bold")
    for application in dict.fromkeys(outcome.application for outcome in outcomes):
        app_outcomes = [outcome for outcome in outcomes if outcome.application == application]
        for copies in dict.fromkeys(outcome.copies for outcome in app_outcomes):
            group = [outcome for outcome in app_outcomes if outcome.copies == copies]
            out.print(f"{_NAMES[application]}; copies of {_COPIES[copies]}", highlight=False)
            out.print(_make_table(group))
            same = sum(outcome.matches for outcome in group)
            deviation = max(abs(o.baseline_s / o.baseline_paper_s - 1.0) for o in group)
            out.print(
                f"  replicas as in the paper: {same} of {len(group)}; ratio at most "
                f"{max(o.ratio for o in group):.2f} "
                f"(paper {max(o.ratio_paper for o in group):.2f}); "
                f"baselines within {100 * deviation:.0f} %",
                highlight=False,
                soft_wrap=True,
            )
        out.print("Factors of p95 and p99, by the correlation of copies' work", highlight=False)
        out.print(_make_factors(app_outcomes, paper[application]["said"]))
    walks = [o for o in outcomes if (o.application, o.rate_per_s, o.pattern, o.metric) == FIG_7]
    if walks:
        out.print(_fig_7(walks), highlight=False, soft_wrap=True)
    out.print(_NOTE, highlight=False, soft_wrap=True)


def _make_table(outcomes: Sequence[Outcome]) -> Table:
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
            _format_pair(outcome.chosen),
            _format_pair(outcome.chosen_paper),
            str(outcome.iterations),
            f"{outcome.ratio:.2f}",
            f"{outcome.ratio_paper:.2f}",
        )
    return table


def _make_factors(outcomes: Sequence[Outcome], printed_factors: dict[str, str]) -> Table:
    """Return the ranges of the tail's factors by pattern and correlation, beside the paper's."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    ends = dict.fromkeys(outcome.copies for outcome in outcomes)
    for heading in ("pattern", *(f"{who}, {end}" for who in ("simple", "sPARE") for end in ends)):
        table.add_column(heading, no_wrap=True)
    table.add_column("sPARE, paper", no_wrap=True)
    for pattern, paper in printed_factors.items():
        tails = [o for o in outcomes if o.pattern == pattern and o.metric != "mean"]
        simple = [_format_range(o.simple_factor for o in tails if o.copies == end) for end in ends]
        spare = [_format_range(o.spare_factor for o in tails if o.copies == end) for end in ends]
        table.add_row(pattern, *simple, *spare, paper)
    return table


def _format_range(factors: Iterable[float]) -> str:
    ordered = sorted(factors)
    return f"{ordered[0]:.2f} to {ordered[-1]:.2f}" if ordered else ""


def _fig_7(walks: Sequence[Outcome]) -> str:
    """Return the search of Fig. 7, for each correlation, beside the paper's."""
    paper = [((1, 1), True), ((1, 2), True), ((2, 2), True), ((2, 3), False), ((3, 2), False)]
    rows = [("paper", paper), *((_COPIES[outcome.copies], outcome.walk) for outcome in walks)]
    lines = [f"  {name}: {' '.join(map(_format_step, walk))}" for name, walk in rows]
    return "\n".join(["Fig. 7, the search of pattern 2 at 20/s for p95; x: not taken", *lines])


def _format_step(step: tuple[tuple[int, int], bool]) -> str:
    replicas, taken = step
    return f"({_format_pair(replicas)}){'' if taken else 'x'}"


def _format_pair(pair: tuple[int, int]) -> str:
    return f"{pair[0]},{pair[1]}"
