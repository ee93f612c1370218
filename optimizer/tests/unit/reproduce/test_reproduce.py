"""Published numbers beside ours: tables, figures, text, simulations."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from core.chart_style import svg
from core.errors import InputError
from optimizer.availability import Sizing
from optimizer.reproduce import draw_limplock, ranges, tables
from optimizer.reproduce.limplock import NODES, Compared, compared
from optimizer.reproduce.measured import nodes, rows
from optimizer.reproduce.published import is_printed_as, published
from optimizer.reproduce.ranges import integrity_nodes
from optimizer.reproduce.show import show_tables
from optimizer.reproduce.simulated import Outcome, feasible_pairs, outcomes
from optimizer.tests.command_line import json_of, output_of


@cache
def _pcraft() -> Any:
    return json_of("reproduce", "pcraft")


def test_every_cell_matches_in_the_fitted_reading() -> None:
    body = _pcraft()
    assert body["cells"] == body["matched"] == 18 + 6 + 27
    assert body["mismatched"] == []
    assert body["reading"] == "fitted"


@pytest.mark.parametrize("reading", ["fitted", "literal"])
def test_each_reading_has_the_layout_of_the_published_tables(reading: str) -> None:
    data, body = published("pcraft"), _pcraft()["readings"][reading]
    assert set(body) == {"table_ii_a", "table_ii_b", "table_iii"}
    for table, key in tables.TABLES.items():
        assert set(body[table]) == {"native", "ft_ilr", "ft_tx"}
        for node, values in body[table].items():
            assert len(values) == len(data[key][node])
            if reading == "fitted":
                assert values == data[key][node]


def test_six_crashes_a_year_do_not_give_the_printed_on_premises_numbers() -> None:
    at_odds = _pcraft()["literal_mismatched"]
    assert {(c["table"], c["column"]) for c in at_odds} == {
        ("table_ii_b", "6/year"),
        ("table_iii", "6/year 15 s none"),
    }
    for cell in at_odds:
        assert cell["reading"] == "literal"
        assert cell["ours"] > 2 * cell["paper"]
        assert (
            f"the printed {cell['paper']} is what one crash every six months" in cell["explanation"]
        )


def test_at_exactly_two_a_year_table_ii_b_has_one_node_more() -> None:
    printed = published("pcraft")["table_ii_b_on_prem_extra_ara"]
    expected = {node: printed[node][1] + 1 for node in ("native", "ft_ilr", "ft_tx")}
    assert _pcraft()["table_ii_b_at_2_per_year"] == expected


def test_the_crossed_cells_are_infeasible_at_any_size() -> None:
    infeasible = _pcraft()["infeasible"]
    assert len(infeasible) == 6  # three node types in two readings
    for cell in infeasible:
        assert cell["at_any_size"]
        assert cell["column"] == "6/year 30 min any"


def test_a_bounded_search_is_told_apart_from_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    tables._sizing.cache_clear()
    bounded = Sizing(None, None, None, "2 nodes in the pool still cost too much")
    monkeypatch.setattr(tables, "least_pool", lambda *_: bounded)
    cells = [c for c in tables.all_cells("fitted") if c.table == "table_iii"]
    tables._sizing.cache_clear()
    assert {c.at_any_size for c in cells if "30 min any" not in c.column} == {False}
    assert {c.at_any_size for c in cells if "30 min any" in c.column} == {True}
    assert [c.matches for c in cells] == ["30 min any" in c.column for c in cells]
    out = io.StringIO()
    show_tables(Console(file=out, width=100), {"fitted": cells})
    assert "≠?" in out.getvalue()
    assert "2 nodes in the pool still cost too much" in out.getvalue()


def test_a_cell_that_does_not_match_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    tables._sizing.cache_clear()
    wrong = Sizing(7, None, None, "7 extra active nodes reach it")
    monkeypatch.setattr(tables, "least_extra_nodes", lambda *_, **__: wrong)
    monkeypatch.setattr(tables, "least_pool", lambda *_: wrong)
    monkeypatch.setattr(ranges, "claims", list)
    body = json_of("reproduce", "pcraft", code=1)
    tables._sizing.cache_clear()
    assert body["matched"] == 0
    assert len(body["mismatched"]) == body["cells"]
    assert body["mismatched"][0].keys() == {
        *("table", "node", "column", "paper", "ours", "reading", "explanation")
    }


def test_the_printed_tables_stand_beside_ours_within_100_columns() -> None:
    printed = output_of("reproduce", "pcraft")
    assert max(map(len, printed.splitlines())) <= 100
    for words in ("paper", "fitted", "literal", "≠6258", "183 days", "114/122/153", "51 of 51"):
        assert words in printed


def test_the_ranges_of_the_text_match_with_the_probability_that_fits() -> None:
    claims = {(c.place, c.subject): c for c in ranges.claims()}
    at_odds = {subject for (_, subject), c in claims.items() if not c.matches}
    assert at_odds == {"cloud, fail-over 60 s", "ft_tx (1.17 %), corrupt, faults 1 to 27 a month",
                       "ft_tx (1.17 %), corrupt, faults 1 to 22 a day",
                       "ft_tx (1.17 %) against ft_ilr, 22 faults a day"}  # fmt: skip
    assert all(c.explanation for c in claims.values() if not c.matches)


@pytest.mark.parametrize(
    ("value", "printed", "expected"),
    [(0.22, "0.2", True), (5.56, "5.5", True), (4.17, "4.3", True), (58.8, "58", True),
     (0.0097, "0.0026", False), (0.31, "0.2", False)],
)  # fmt: skip
def test_a_printed_number_may_be_rounded_or_cut(value: float, printed: str, expected: bool) -> None:
    assert is_printed_as(value, printed) is expected


def test_spare_reports_pairs_above_its_own_collision_limit() -> None:
    body = json_of("reproduce", "spare", "--no-simulation")
    assert body["claims"] == body["matched"] + len(body["mismatched"])
    subjects = [c["subject"] for c in body["mismatched"]]
    assert subjects == ["r1 r2 = 12 servers", "(2, 3) on 36, 12", "(3, 2) on 36, 12"]
    assert all(c["explanation"] for c in body["mismatched"])
    row = body["tables"]["equation_1"]["rows"]["2"]
    assert row[1] == pytest.approx(1 - 45 / 66)


def test_spare_marks_what_is_above_the_limit() -> None:
    printed = output_of("reproduce", "spare", "--no-simulation")
    assert "0.618*" in printed
    assert "0.318 " in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_a_policy_is_refused_where_nothing_is_simulated() -> None:
    with pytest.raises(InputError) as error:
        output_of("reproduce", "spare", "--no-simulation", "--policy", "tad")
    assert error.value.place == "--policy"


_DRAWN = {"pcraft": 5, "spare": 4, "limplock": 4}
_FAST = {"pcraft": [], "spare": ["--no-simulation"], "limplock": ["--no-simulation"]}


@pytest.mark.parametrize("paper", _FAST)
def test_figures_are_drawn_where_asked(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "all_cells", lambda _: [])
    folder = tmp_path / "new" / "figures"
    printed = output_of("reproduce", paper, "--figures", str(folder), *_FAST[paper])
    paths = sorted(folder.iterdir())
    assert len(paths) == _DRAWN[paper]
    for path in paths:
        assert path.name in printed.replace("\n", "")
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
        assert "NaN" not in path.read_text()


def test_a_file_in_place_of_the_figures_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--figures: expected a folder"):
        output_of("reproduce", "spare", "--figures", str(tmp_path / "file"))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--figures: expected a folder that can be made"):
        output_of("reproduce", "spare", "--figures", str(tmp_path / "file" / "below"))


@cache
def _body() -> Any:
    return json_of("reproduce", "limplock")


def test_all_that_the_text_says_comes_out_but_a_probability_below_0() -> None:
    body = _body()
    (negative,) = body["mismatched"]
    assert body["claims"] == body["matched"] + 1
    assert negative["place"] == "Table 2"
    assert float(negative["paper"]) < 0 == float(negative["ours"])
    assert negative["explanation"]


def test_figure_3_as_tables_has_the_formulas_values() -> None:
    tables = _body()["tables"]
    assert set(tables) == {"figure_3a", "figure_3b", "figure_3c", "figure_3d"}
    assert all(len(row) == len(NODES) for t in tables.values() for row in t["rows"].values())
    thirty = NODES.index(30)
    assert tables["figure_3a"]["rows"]["100"][thirty] == pytest.approx(1 - (29 / 30) ** 100)
    assert tables["figure_3b"]["rows"]["10"][thirty] == pytest.approx(1 - 0.9**10)


def test_simulations_of_ten_to_ten_thousand_nodes_stand_beside() -> None:
    simulated = _body()["simulated"]
    assert [row["cluster"]["nodes"] for row in simulated] == list(NODES)
    thirty = simulated[NODES.index(30)]
    formula, in_turn = thirty["formula"], thirty["in_turn"]
    assert formula["cluster_regeneration"] < 0.1 < 0.5 < in_turn["cluster_regeneration"]["low"]
    assert in_turn["block"]["high"] < 0.7 * formula["block"]


@pytest.fixture(scope="module")
def few() -> list[Compared]:
    return compared(trials=3)


def test_the_terminal_marks_where_a_formula_is_outside_of_its_interval(
    monkeypatch: pytest.MonkeyPatch, few: list[Compared]
) -> None:
    monkeypatch.setattr("optimizer.reproduce.limplock.compared", lambda: few)
    printed = output_of("reproduce", "limplock")
    assert "≠ Table 2" in printed
    rows = [line for line in printed.splitlines() if line.split()[1:2] == ["formula"]]
    assert [int(row.split()[0]) for row in rows] == list(NODES)
    assert "*" in printed.partition("Formulas and simulations")[2].partition("average:")[0]
    assert max(map(len, printed.splitlines())) <= 100


def test_simulated_points_are_drawn_over_the_curves(few: list[Compared]) -> None:
    with_points, without = (draw_limplock.charts(points) for points in (few, []))
    for name in ("limplock-fig3c-block", "limplock-fig3d-cluster"):
        with_svg, without_svg = svg(with_points[name]), svg(without[name])
        assert ElementTree.fromstring(with_svg).tag.endswith("svg")
        assert len(with_svg) > len(without_svg)
        assert "NaN" not in with_svg


def test_shares_are_those_of_the_results_page() -> None:
    by_key = {(row.name, row.faults_per_month): row for row in rows()}
    assert by_key["native", 3].corrupt == pytest.approx(1.27, abs=0.005)
    down_s = {name: by_key[name, 3].down / 100 * 30 * 86_400 for name in ("native", "ilr", "tx")}
    assert down_s == pytest.approx({"native": 10.02, "ilr": 37.10, "tx": 0.206}, abs=0.005)


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
    evaluation = published("spare_evaluation")
    for outcome in solr:
        f = feasible_pairs(evaluation, "solr", f"{outcome.rate_per_s:g}", outcome.pattern)
        assert outcome.ratio >= 1.0
        assert {outcome.chosen, outcome.best} <= set(f)
        assert 3 <= outcome.iterations <= len(f)
        assert outcome.matches == (outcome.chosen == outcome.chosen_paper)


def test_the_papers_pairs_are_feasible_for_mediawiki() -> None:
    evaluation = published("spare_evaluation")
    for rate, patterns in evaluation["mediawiki"]["found"].items():
        for pattern, pairs in patterns.items():
            f = feasible_pairs(evaluation, "mediawiki", rate, pattern)
            assert {tuple(pair) for pair in pairs} <= set(f), (rate, pattern)
