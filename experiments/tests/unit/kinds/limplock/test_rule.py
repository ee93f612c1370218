"""Limplock's rule: bounds of a slowdown, what probes say, and the verdicts on known clusters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import InputError
from experiments.kinds.limplock.judge.probes import SCHEMA, Needs, Outcome, Stream
from experiments.kinds.limplock.judge.rule import Limplock, Measured, Rule, judge
from experiments.kinds.limplock.judge.slowdown import Duration, median, slowdown
from experiments.tests import limplock_calibration as calibrate
from experiments.tests.limplock_calibration import SCENARIOS, Scenario, verdicts
from experiments.tests.limplock_model import HOLDER, Cluster

RNG = np.random.default_rng
FAULT_S = 60.0
Probe = tuple[int, str, str, str, float, float, str]


def waits(*seconds: float, at_least: bool = False) -> list[Duration]:
    return [Duration(length_s, at_least) for length_s in seconds]


def times(factor: float) -> list[Duration]:
    return waits(*(factor * base_s for base_s in (1.0, 1.1, 1.05)))


def probes(
    node: str, slowdown: float = 1.0, *, operation: str = "read", needs: Needs = "neither",
    slow_from_s: float = 0.0, slow_until_s: float = math.inf, down_s: float = math.inf,
    outcome: Outcome = "ok", repeats: Sequence[int] = (0, 1, 2),
) -> list[Probe]:  # fmt: skip
    """A probe of some 0.1 s every second from -30 s on; slower, failed or down as asked."""
    rows: list[Probe] = []
    for repeat, second in itertools.product(repeats, range(-30, int(FAULT_S))):
        took_s = 0.1 + 0.01 * ((second + repeat) % 3)
        if slow_from_s <= second < slow_until_s:
            took_s *= slowdown
        end_outcome = outcome if second >= 0 else "ok"
        if second >= down_s:
            took_s, end_outcome = 0.001, "error"
        rows.append((repeat, node, operation, needs, float(second), second + took_s, end_outcome))
    return rows


def frame(*streams: list[Probe]) -> pl.DataFrame:
    return pl.DataFrame([row for stream in streams for row in stream], schema=SCHEMA, orient="row")


def found(
    *streams: list[Probe],
    faulty: Sequence[Duration] = times(1.0),
    down_s: Mapping[tuple[int, str], float] | None = None,
) -> Limplock:
    return judged(frame(*streams), faulty, down_s)


def judged(
    probes: pl.DataFrame,
    faulty: Sequence[Duration] = times(1.0),
    down_s: Mapping[tuple[int, str], float] | None = None,
) -> Limplock:
    fault_s = dict.fromkeys(range(3), FAULT_S)
    return judge(Measured("n0", fault_s, probes, times(1.0), faulty, down_s or {}), Rule())


def own(slowdown: float = 1.0) -> list[Probe]:
    return probes("n0", slowdown, needs="node")


# The slowdown


def test_three_runs_against_three_give_one_in_twenty_and_no_less() -> None:
    bounds = slowdown([1.0, 1.1, 0.9], waits(10.0, 11.0, 9.0), 0.95)
    assert bounds is not None
    assert bounds.low == pytest.approx(9.0 / 1.1)
    assert bounds.high == pytest.approx(11.0 / 0.9)
    assert slowdown([1.0, 1.1, 0.9], waits(10.0, 11.0, 9.0), 0.96) is None


@given(
    st.lists(st.integers(1, 10**6), min_size=6, max_size=14, unique=True),
    st.data(),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_a_bound_is_above_a_factor_where_mann_and_whitneys_exact_test_says_so(
    values: list[int], data: st.DataObject, confidence: float
) -> None:
    base = [float(value) for value in values[: data.draw(st.integers(3, len(values) - 3))]]
    faulty = [float(value) for value in values[len(base) :]]
    bounds = slowdown(base, waits(*faulty), confidence)
    test = stats.mannwhitneyu(faulty, base, alternative="greater", method="exact")
    is_above = bounds is not None and bounds.low > 1.0
    assert is_above == (test.pvalue <= 1.0 - confidence + 1e-12)


def test_waits_cut_short_bound_a_slowdown_from_below_only() -> None:
    bounds = slowdown([1.0, 1.0, 1.0], waits(50.0, 50.0, 50.0, at_least=True), 0.95)
    assert bounds is not None
    assert (bounds.low, bounds.high, bounds.at_least) == (50.0, None, True)


def test_a_median_of_waits_cut_short_is_kaplan_and_meiers() -> None:
    assert median(waits(1.0, 2.0, 3.0)) == Duration(2.0)
    # 1 and 2 ended, 4 to 6 went on: a half is never reached.
    assert median([*waits(1.0, 2.0), *waits(4.0, 5.0, 6.0, at_least=True)]) == Duration(6.0, True)
    # Cut short at once, three tell nothing: the others' median.
    cut_early = [*waits(1.0, 2.0, 3.0), *waits(0.1, 0.1, 0.1, at_least=True)]
    assert median(cut_early) == Duration(2.0)


# Probes and verdicts


NODES = ("n0", "n1", "n2")


@pytest.mark.parametrize(
    ("streams", "factor", "said", "scope"),
    [
        ([own(), probes("n1"), probes("n2")], 1.0, ("no", "no", "no"), ()),
        # An operation alone is slow.
        ([own(), probes("n1")], 10.0, ("yes", "no", "no"), ()),
        # A node is in limplock where what needs nothing limping is slow.
        ([own(20.0), probes("n1")], 10.0, ("yes", "yes", "no"), ()),
        # What needs the limping part says nothing of its node.
        ([own(), probes("n0", 50.0, operation="write", needs="limpware"), probes("n1")],
         1.0, ("no", "no", "yes"), ("write",)),
        # A cluster is in limplock in what no node can do ...
        ([own(20.0), probes("n1", 20.0), probes("n2", 20.0), probes("n2", operation="write")],
         1.0, ("no", "yes", "yes"), ("read",)),
        # ... as what one node does for all, and updates that all need the limping node.
        ([probes("n0", 20.0, operation="stat", needs="node"), probes("n1"), probes("n2")],
         1.0, ("no", "yes", "yes"), ("stat",)),
        ([*(probes(node, 20.0, operation="set", needs="limpware") for node in NODES),
          *(probes(node, operation="get") for node in NODES[1:])],
         1.0, ("no", "no", "yes"), ("set",)),
    ],
)  # fmt: skip
def test_operation_node_and_cluster_are_judged_by_what_needs_the_limping_part(
    streams: list[list[Probe]], factor: float, said: tuple[str, ...], scope: tuple[str, ...]
) -> None:
    result = found(*streams, faulty=times(factor))
    assert (verdicts(result), result.scope) == (said, scope)
    assert result.operation.slowdown is not None
    assert result.operation.slowdown.factor == pytest.approx(factor)
    assert {node.verdict for node in result.nodes if node.node != "n0"} <= {"no", said[2]}


def test_what_healed_before_the_last_third_is_a_fail_over() -> None:
    healed_probes = probes("n1", 20.0, slow_until_s=30.0)
    assert found(own(), healed_probes).node == "no"
    assert found(own(), probes("n1", 20.0, slow_from_s=30.0)).node == "yes"


def test_a_node_that_crashed_does_not_limp_and_one_that_limped_before_did() -> None:
    crashed_probes = probes("n0", needs="node", down_s=0.0)
    [dead_node, _] = found(crashed_probes, probes("n1")).nodes
    assert (dead_node.verdict, dead_node.down) == ("no", True)
    out_of_memory = found(own(), probes("n1", 20.0, slow_from_s=10.0, down_s=40.0), probes("n2"))
    verdict_of = {node.node: (node.verdict, node.down) for node in out_of_memory.nodes}
    assert verdict_of == {"n0": ("no", False), "n1": ("yes", True), "n2": ("no", False)}
    assert out_of_memory.cluster == "no"


def test_a_machine_that_is_gone_answers_nothing_and_does_not_limp() -> None:
    """Its probes time out, as those of a very slow one do: that it is gone has to be said."""
    silent_probes = probes("n0", 50.0, needs="node", outcome="timeout")
    assert found(silent_probes, probes("n1")).node == "yes"
    limplock = found(
        silent_probes, probes("n1"), down_s={(repeat, "n0"): 0.3 for repeat in range(3)}
    )
    [node, _] = limplock.nodes
    assert (limplock.node, node.verdict, node.down) == ("no", "no", True)


def test_a_cluster_that_is_all_down_is_out_and_not_in_limplock() -> None:
    result = found(*(probes(node, needs="node", down_s=0.0) for node in ("n0", "n1")))
    assert result.cluster == "no"


def test_a_probe_that_the_faults_end_sets_free_was_slow_until_then() -> None:
    stuck_probes = [
        (repeat, "n1", "read", "neither", 1.0, FAULT_S + 1.0, "ok") for repeat in (0, 1, 2)
    ]
    quick_probes = [row for row in probes("n1") if row[4] < 1.0]
    [node] = found(quick_probes + stuck_probes).nodes
    assert node.verdict == "yes"
    [stream] = found(quick_probes + stuck_probes).streams
    assert stream.judgement.slowdown is not None
    assert (stream.judgement.slowdown.at_least, stream.judgement.slowdown.high) == (True, None)


def test_probes_that_time_out_are_slow_by_at_least_their_limit() -> None:
    [stream] = found(probes("n1", 8.0, outcome="timeout")).streams
    assert stream.judgement.verdict == "yes"
    assert stream.judgement.slowdown is not None
    assert stream.judgement.slowdown.high is None


@pytest.mark.parametrize(
    ("streams", "base", "faulty"),
    [
        ([], times(1.0), times(3.0)),  # at the factor
        ([], waits(1.0, 4.0, 0.5), times(1000.0)),  # noisy base
        ([], times(1.0)[:2], times(1000.0)),  # too few
        ([], times(1.0), waits(0.5, 0.4, 0.6, at_least=True)),  # given up at once
        ([], waits(1.0, 1.0, 1.0, at_least=True), times(1000.0)),  # a base that did not end
        ([], [], times(1000.0)),
    ],
)
def test_what_cannot_be_told_is_insufficient_and_says_why(
    streams: list[list[Probe]], base: list[Duration], faulty: list[Duration]
) -> None:
    measured = Measured("n0", dict.fromkeys(range(3), FAULT_S), frame(*streams), base, faulty)
    result = judge(measured, Rule())
    assert verdicts(result) == ("insufficient", "insufficient", "insufficient")
    assert result.operation.reason


def test_a_probe_whose_base_drifts_is_not_judged() -> None:
    drifting = probes("n1", 6.0, slow_from_s=-15.0)
    [node] = found(drifting).nodes
    assert node.verdict == "insufficient"


@pytest.mark.parametrize(
    "before",
    [
        [[(-30.0, -1.0)]] * 3,  # the only whole one lies over the middle
        [[(-30.0, -1.0)], [(-30.0, -1.0)], [(-30.0, -20.0)]],  # one half in all
    ],
)
def test_a_probe_too_long_to_tell_how_its_base_differs_is_not_judged(
    before: list[list[tuple[float, float]]],
) -> None:
    rows: list[Probe] = []
    for repeat, base_spans in enumerate(before):
        spans = [*base_spans, (0.0, 29.0), (30.0, 59.0)]
        rows += [(repeat, "n1", "read", "neither", *span, "ok") for span in spans]
    [judgement] = [stream.judgement for stream in found(rows).streams]
    assert judgement.verdict == "insufficient"
    assert judgement.reason


def test_one_repeat_of_three_is_not_enough() -> None:
    mixed_probes = probes("n1", 20.0, repeats=(0,)) + probes("n1", repeats=(1, 2))
    assert found(own(), mixed_probes).node == "insufficient"


def test_a_cascade_is_dated_node_by_node() -> None:
    result = found(
        probes("n2", 20.0, slow_from_s=25.0), own(20.0), probes("n1", 20.0, slow_from_s=10.0)
    )
    assert [node.node for node in result.nodes] == ["n0", "n1", "n2"]
    for node, true_s in zip(result.nodes, (0.0, 10.0, 25.0), strict=True):
        assert node.since is not None
        assert node.since.low_s <= true_s <= node.since.high_s
        assert node.since.high_s - node.since.low_s <= 2.0
        assert node.since.confidence == 0.75


@pytest.mark.parametrize(
    "change",
    [pl.lit("soon").alias("outcome"), pl.lit("both").alias("needs"),
     pl.lit(9, pl.Int64).alias("repeat"), pl.lit(-99.0).alias("end_s"),
     pl.lit(float("nan")).alias("end_s"), pl.lit(None, pl.Float64).alias("end_s"),
     pl.lit(1).alias("node")],
)  # fmt: skip
def test_a_record_that_is_none_is_refused(change: pl.Expr) -> None:
    with pytest.raises(InputError):
        judged(frame(own()).with_columns(change))


# Known clusters


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_known_cluster_is_never_judged_wrongly(scenario: Scenario) -> None:
    rng = RNG(7)
    cluster = scenario.draw(rng)
    answers = verdicts(judge(calibrate.measured(cluster, calibrate.repeats(cluster, rng)), Rule()))
    assert "wrong" not in map(calibrate.tally, answers, scenario.expected), cluster


@pytest.mark.parametrize("scenario", SCENARIOS[:7], ids=lambda scenario: scenario.name)
def test_on_a_quiet_host_every_answer_is_found(scenario: Scenario) -> None:
    rng = RNG(8)
    cluster = scenario.draw(rng)
    quiet_cluster = Cluster(**{**vars(cluster), "noise": 0.05})
    limplock = judge(
        calibrate.measured(quiet_cluster, calibrate.repeats(quiet_cluster, rng)), Rule()
    )
    assert verdicts(limplock) == scenario.expected


def test_intervals_of_when_a_node_slowed_hold_what_they_say() -> None:
    """Reads of the queue's holder are three times slower when two thirds of its memory are full."""
    cluster = Cluster("queue", memory=400, noise=0.02, fault_s=30.0)
    rng = RNG(4)
    true_s = np.median(
        [outcome.slow_from_s[HOLDER] for outcome in calibrate.repeats(cluster, rng, 9)]
    )
    stream = Stream(f"n{HOLDER}", "read", "neither")
    hits = 0
    for _ in range(10):
        outcomes = calibrate.repeats(cluster, rng)
        streams = judge(calibrate.measured(cluster, outcomes), Rule()).streams
        [since] = [
            judged_stream.since for judged_stream in streams if judged_stream.stream == stream
        ]
        assert since is not None
        hits += bool(since.low_s <= true_s <= since.high_s)
    assert hits >= 5  # 7.5 expected at the least; fewer than 5 come once in 50 times
