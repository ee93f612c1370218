"""sPARE's evaluation in simulation: what must come out whatever the seed."""

from __future__ import annotations

import pytest

from optimizer.reproduce.published import published
from optimizer.reproduce.simulated import Outcome, feasible, outcomes


@pytest.fixture(scope="module")
def solr() -> list[Outcome]:
    return outcomes(("solr",), share=0.25)


def test_solrs_fitted_baselines_are_near_the_papers(solr: list[Outcome]) -> None:
    assert len(solr) == 12
    for outcome in solr:
        assert outcome.baseline_s == pytest.approx(outcome.baseline_paper_s, rel=0.3)


def test_replication_improves_every_figure_and_most_the_tail_under_both_sided_noise(
    solr: list[Outcome],
) -> None:
    assert min(outcome.spare_factor for outcome in solr) > 1.0
    factors = {(o.rate_per_s, o.pattern, o.metric): o.spare_factor for o in solr}
    assert factors[40.0, "2", "p95"] > factors[40.0, "2", "mean"]
    assert factors[40.0, "2", "p95"] > factors[40.0, "1", "p95"]


def test_the_search_never_beats_the_best_point_and_walks_within_the_feasible_set(
    solr: list[Outcome],
) -> None:
    said = published("spare_evaluation")
    for outcome in solr:
        f = feasible(said, "solr", f"{outcome.rate_per_s:g}", outcome.pattern)
        assert outcome.ratio >= 1.0
        assert {outcome.chosen, outcome.best} <= set(f)
        assert 3 <= outcome.iterations <= len(f)
        assert outcome.matches == (outcome.chosen == outcome.chosen_paper)


def test_the_papers_pairs_are_feasible_for_mediawiki() -> None:
    said = published("spare_evaluation")
    for rate, patterns in said["mediawiki"]["found"].items():
        for pattern, pairs in patterns.items():
            f = feasible(said, "mediawiki", rate, pattern)
            assert {tuple(pair) for pair in pairs} <= set(f), (rate, pattern)
