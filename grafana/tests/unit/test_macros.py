"""The macro expander does what Grafana does, and refuses what Grafana would let break a query."""

from __future__ import annotations

import re

import pytest

from grafana.macros import MacroError, View, expand
from grafana.verify import queries_of

_VIEW = View("mediawiki-noisy", "20260101T120000Z", 1000, 2000, tier="web")


def test_interval_in_milliseconds_is_not_eaten_by_interval() -> None:
    assert expand("$__interval_ms $__interval", _VIEW, 15) == "15000 15s"


def test_time_filter_is_grafanas() -> None:
    assert expand("$timeFilter", _VIEW, 1) == "time >= 1000ms and time <= 2000ms"


@pytest.mark.parametrize("value", ["", "it's", "a b", "$run", "web/1", 'x"'])
def test_a_value_that_could_end_its_quotes_is_refused(value: str) -> None:
    with pytest.raises(MacroError, match="tier"):
        expand("'$tier'", View("e", "r", 0, 1, tier=value), 1)


def test_an_unknown_macro_is_refused() -> None:
    with pytest.raises(MacroError, match=r"\$__from"):
        expand("SELECT $__from", _VIEW, 1)


def test_no_query_keeps_a_macro_after_expansion() -> None:
    for query in queries_of("both"):
        assert not re.search(r"\$(?!/)", expand(query.influxql, _VIEW, query.interval_s))


def test_variables_stand_between_slashes_only_in_regular_expressions() -> None:
    """Grafana escapes a variable between any two slashes, also those of divisions."""
    for query in queries_of("both"):
        without_regex = re.sub(r"=~ /\^\$\w+\$/", "", query.influxql)
        assert not re.search(r"/[^/]*\$(experiment|run|tier)[^/]*/", without_regex), query.panel


def test_cumulative_counters_are_read_as_rates() -> None:
    counters = (
        *("failed", "replicas_sent", "replicas_wasted", "requests", "answered", "wins"),
        *("equal", "different", "not_compared", "refused"),
    )
    for query in queries_of("both"):
        for counter in counters:
            if f'("{counter}")' in query.influxql:
                assert f'non_negative_derivative(max("{counter}"), 1s)' in query.influxql
