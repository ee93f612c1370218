"""Queries of SLO, burn, cost and nights on points whose answer is known."""

from __future__ import annotations

from typing import Any

import pytest

from grafana import queries_nights, queries_slo
from grafana.influx import Influx
from grafana.macros import View, expand
from grafana.panel_query import PanelQuery
from grafana.queries import ANNOTATIONS, night_queries
from grafana.tests.conftest import Filled
from grafana.tests.influxd import write

T0_S = 1_795_000_200  # a multiple of 60, as buckets are
LENGTH_S = 600
VIEW = View("e", "r", T0_S * 1000, (T0_S + LENGTH_S) * 1000, tier="web", entry="d")
_HEAD = "experiment=e,run=r"


def _lines() -> list[str]:
    """Ten requests a second for ten minutes: 2 % are late for the p99, one in ten in the last
    minute; the warm-up is all late."""
    lines = []
    for number in range(LENGTH_S * 10):
        at_s = T0_S + number / 10
        late = number % 10 == 0 if at_s >= T0_S + LENGTH_S - 60 else number % 50 == 0
        phase = "warm-up" if number < 100 else "measure"
        burn = 100.0 if late or number < 100 else 0.0
        lines.append(
            f"request,{_HEAD},arm=a,phase={phase},outcome=ok burn_p99={burn},latency_ms=5.0,"
            f"repeat=0i {round(at_s * 1e9)}"
        )
    for at_s in range(T0_S, T0_S + LENGTH_S, 5):
        ns = at_s * 10**9
        age_s = at_s - T0_S
        lines += [
            f"slo,{_HEAD} p95_ms=200.0,p99_ms=500.0,max_error_share=0.01 {ns}",
            f"cost,{_HEAD},arm=a usd_per_hour=0.72,usd=0.001,good=50i {ns}",
            f"arbiter,{_HEAD},tier=web requests={10 * age_s}i,replicas_sent={15 * age_s}i {ns}",
        ]
    lines.append(
        f'event,{_HEAD},what=verdict,kind=a,machine=all title="a: SLO missed",text="late",'
        f"end_ms={VIEW.to_ms}i,duration_ms=0.0 {VIEW.to_ms * 10**6}"
    )
    return lines


@pytest.fixture(scope="module")
def known(filled: Filled) -> Filled:
    write(filled.url, _lines(), "known")
    return Filled(filled.url, "known", "e", "r", [])


def _values(known: Filled, query: PanelQuery) -> list[list[Any]]:
    with Influx(known.url, known.database) as influx:
        [series] = influx.series(expand(query.influxql, VIEW, query.interval_s))
    return list(series["values"])


def _query(panel: str, ref: str = "A") -> PanelQuery:
    slo_queries = (*queries_slo.SLO_QUERIES, *queries_slo.COST_QUERIES, queries_slo.EXTRA)
    [match] = [query for query in slo_queries if (query.panel, query.ref) == (panel, ref)]
    return match


@pytest.mark.parametrize(
    ("ref", "minutes", "last_burn"), [("A", 1, 10.0), ("B", 5, (4 * 2 + 10) / 5)]
)
def test_a_burn_rate_is_the_bad_share_over_the_allowed_one_in_its_window(
    known: Filled, ref: str, minutes: int, last_burn: float
) -> None:
    burn = dict(_values(known, _query("Burn rate of the p99", ref)))
    assert burn[(T0_S + LENGTH_S - 5) * 1000] == pytest.approx(last_burn)
    assert burn[(T0_S + 60 * minutes + 60) * 1000] == pytest.approx(2.0)
    whole_minute = burn[(T0_S + 65) * 1000]  # a window that is not yet full is what there is of it
    assert whole_minute == pytest.approx(2.0, rel=0.2)


def test_the_limits_are_lines_over_the_whole_run(known: Filled) -> None:
    for ref, limit in (("B", 200.0), ("C", 500.0)):
        values = _values(known, _query(queries_slo.LATENCY, ref))
        assert {value for _, value in values} == {limit}
        assert values[0][0] <= VIEW.from_ms + 15_000
        assert values[-1][0] >= VIEW.to_ms - 15_000


def test_cost_is_that_of_good_requests(known: Filled) -> None:
    assert {value for _, value in _values(known, _query(queries_slo.USD_PER_HOUR))} == {0.72}
    dear = _values(known, _query(queries_slo.USD_PER_MILLION))
    assert [value for _, value in dear] == pytest.approx([20.0] * len(dear))


def test_extra_work_is_what_is_sent_beyond_one_copy(known: Filled) -> None:
    extra = _values(known, _query(queries_slo.EXTRA_WORK))
    assert [value for _, value in extra] == pytest.approx([50.0] * len(extra))


def test_samples_are_counted_per_bucket(known: Filled) -> None:
    counts = [value for _, value in _values(known, _query(queries_slo.SAMPLES))]
    assert sum(counts) == LENGTH_S * 10


def test_a_verdict_is_a_mark_with_its_reasons(known: Filled) -> None:
    [layer] = [annotation for annotation in ANNOTATIONS if annotation.name == "Verdicts"]
    [[_, end_ms, title, text, kind]] = _values(known, layer.query)
    assert (end_ms, title, text, kind) == (VIEW.to_ms, "a: SLO missed", "late", "a")


def test_the_nights_dashboard_shows_valid_and_other_runs_apart(filled: Filled) -> None:
    def night(number: int, arm: str, valid: int, judged: int) -> str:
        return (
            f"night,entry=d,arm={arm} night={number}i,valid={valid}i,judged={judged}i,slo_met=1i,"
            f'run="r{number}",requests=900i,errors=0i,p95_ms=200.0,p95_low_ms=180.0,'
            f"p95_high_ms=230.0,p99_ms=400.0,p99_low_ms=300.0,p99_high_ms=600.0,slo_p95_ms=250.0,"
            f"slo_p99_ms=500.0,burn_p95=0.5,burn_p99=0.9,burn_max_error_share=0.0,gain_p95=1.4,"
            f"usd_per_month=117.0,planned_usd_per_month=100.0 {(T0_S + number) * 10**9}"
        )

    lines = [night(n, arm, int(n != 2), int(arm == "b")) for n in (1, 2, 3) for arm in "ab"]
    write(filled.url, lines, "nights")
    with Influx(filled.url, "nights") as influx:
        rows = {
            (query.panel, query.ref): sum(
                len(series["values"]) for series in influx.series(expand(query.influxql, VIEW, 1))
            )
            for query in night_queries()
        }
    assert min(rows.values()) > 0
    assert [rows[queries_nights.P95, ref] for ref in "ABC"] == [4, 2, 3]
    assert rows[queries_nights.RUNS, "A"] == 6
