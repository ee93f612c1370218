"""Fig. 7 with our own injections, held against what their results page says."""

from __future__ import annotations

import pytest

from optimizer.reproduce.measured import nodes, rows
from optimizer.reproduce.ranges import integrity_nodes


def test_shares_are_those_of_the_results_page() -> None:
    found = {(row.name, row.faults_per_month): row for row in rows()}
    assert found["native", 3].corrupt == pytest.approx(1.27, abs=0.005)
    down_s = {name: found[name, 3].down / 100 * 30 * 86_400 for name in ("native", "ilr", "log")}
    assert down_s == pytest.approx({"native": 10.1, "ilr": 37.2, "log": 6.7}, abs=0.05)


def test_the_papers_side_is_fig_7s() -> None:
    from optimizer.integrity import integrity

    for row in rows():
        if row.paper_name != "ft_tx":
            paper = integrity(integrity_nodes()[row.paper_name], float(row.faults_per_month))
            assert row.corrupt_paper == pytest.approx(100 * paper.corrupt)


def test_nothing_corrupt_is_bounded_by_the_probability_that_it_was_missed() -> None:
    for node in nodes():
        if node.ours.corrupt_p == 0.0:
            assert (1 - node.most.corrupt_p) ** 12_000 == pytest.approx(0.05)
        else:
            assert node.ours.corrupt_p < node.most.corrupt_p < 1.02 * node.ours.corrupt_p
