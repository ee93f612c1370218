"""`sparecraft reproduce limplock`: the text's statements, Fig. 3 as tables, simulations beside."""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest

from core.chart_style import svg
from optimizer.reproduce import draw_limplock
from optimizer.reproduce.limplock import NODES, Compared, compared
from optimizer.tests.command_line import output_of


@cache
def _body() -> dict[str, Any]:
    body: dict[str, Any] = json.loads(output_of("reproduce", "limplock", "--json"))
    return body


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
    assert [one["cluster"]["nodes"] for one in simulated] == list(NODES)
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
    with_points, without = (draw_limplock.charts(one) for one in (few, []))
    for name in ("limplock-fig3c-block", "limplock-fig3d-cluster"):
        drawn, plain = svg(with_points[name]), svg(without[name])
        assert ElementTree.fromstring(drawn).tag.endswith("svg")
        assert len(drawn) > len(plain)
        assert "NaN" not in drawn
