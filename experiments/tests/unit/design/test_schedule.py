"""Schedules: pure functions of a seed, with the laws they claim."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from experiments.design import load_design
from experiments.design.experiment import Experiment, Interference
from experiments.design.fleet import Fleet
from experiments.design.interference import GAP_S_MIN, Episode, affected_tiers, episodes
from experiments.design.schedule import (
    arrivals,
    block_length_s,
    blocks,
    operation_choices,
    phase_windows,
    stream,
)
from experiments.design.workloads import (
    Operation,
    Population,
    Workload,
    find_workloads,
    lines_of,
    module_at,
)
from experiments.load.plan import plan_block
from experiments.paths import ROOT
from experiments.tests.spec_fixture import TOML, write
from random_tests import examples

SEEDS = st.integers(0, 2**63 - 1)
RATES = st.floats(0.01, 500)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return load_design(write(tmp_path_factory.mktemp("design"))).fleet


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return load_design(write(tmp_path)).experiment


@given(SEEDS, RATES, st.floats(0.1, 60), st.sampled_from(["poisson", "constant"]))
@examples(60)
def test_arrivals_ascend_within_the_window_and_depend_on_the_seed_alone(
    seed: int, rate_per_s: float, duration_s: float, kind: str
) -> None:
    times_s = arrivals(kind, rate_per_s, duration_s, seed)  # type: ignore[arg-type]
    again = arrivals(kind, rate_per_s, duration_s, seed)  # type: ignore[arg-type]
    longer = arrivals(kind, rate_per_s, 2 * duration_s, seed)  # type: ignore[arg-type]
    assert np.array_equal(times_s, again)
    assert np.array_equal(longer[longer < duration_s], times_s)
    assert (np.diff(times_s) >= 0).all()
    assert ((times_s >= 0) & (times_s < duration_s)).all()


@pytest.mark.parametrize("seed", [1, 20260101])
def test_poisson_arrivals_have_the_rate_and_the_variance_of_a_poisson_process(seed: int) -> None:
    rate_per_s, duration_s = 50.0, 4000.0
    times_s = arrivals("poisson", rate_per_s, duration_s, seed)
    expected = rate_per_s * duration_s
    assert abs(len(times_s) - expected) < 5 * np.sqrt(expected)
    counts = np.bincount(times_s.astype(int), minlength=int(duration_s))
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.15)
    assert not np.array_equal(times_s[:10], arrivals("poisson", rate_per_s, 1.0, seed + 1)[:10])


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert arrivals("constant", 4.0, 1.0, 9).tolist() == [0.0, 0.25, 0.5, 0.75]


@given(SEEDS, st.integers(1, 3000), st.integers(0, 2000))
@examples(40)
def test_pages_are_of_the_list_and_depend_on_the_seed_alone(
    seed: int, pages: int, count: int
) -> None:
    choices = operation_choices(pages, count, seed, 0.8)
    assert len(choices) == count
    assert ((choices >= 0) & (choices < pages)).all()
    assert np.array_equal(choices, operation_choices(pages, count, seed, 0.8))


def test_some_pages_are_popular_and_not_the_first_of_the_alphabet() -> None:
    choices = operation_choices(1000, 200_000, 5, 0.8)
    counts = np.sort(np.bincount(choices, minlength=1000))[::-1]
    assert counts[0] / counts[99] == pytest.approx(100**0.8, rel=0.25)  # rank 1 against rank 100
    assert int(np.argmax(np.bincount(choices))) != 0


def test_streams_differ_by_purpose() -> None:
    draws = [stream(1, *names).random() for names in [(), ("a",), ("b",), ("a", 1), ("a", 2)]]
    assert len(set(draws)) == len(draws)


def test_abba_makes_pairs_that_share_their_seed(experiment: Experiment) -> None:
    run = blocks(experiment)
    assert [block.arm for block in run] == ["baseline", "replicated", "replicated", "baseline"] * 2
    assert [block.pair for block in run] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [block.repeat for block in run] == list(range(8))
    seeds = {block.pair: block.seed for block in run}
    assert all(block.seed == seeds[block.pair] for block in run)
    assert len(set(seeds.values())) == 4


ENTRIES = {"web": ("http://198.18.0.10/",)}
THREE = Workload(
    lambda: Population(tuple(Operation(name, f"/{name}", name) for name in "abc"), 0.8), ("any",)
)


def test_both_arms_of_a_pair_meet_the_same_arrivals_operations_and_neighbours(
    experiment: Experiment, fleet: Fleet
) -> None:
    first, second, third, _ = blocks(experiment)[:4]
    plans = [plan_block(ENTRIES, experiment, block, THREE) for block in (first, second, third)]
    assert plans[0].offsets_s == plans[1].offsets_s != plans[2].offsets_s
    assert plans[0].operation_of == plans[1].operation_of != plans[2].operation_of
    noise = [
        episodes(experiment.interference, fleet, 600.0, block.seed)
        for block in (first, second, third)
    ]
    assert noise[0] == noise[1] != noise[2]


def test_pages_know_their_address_and_their_title(tmp_path: Path) -> None:
    (tmp_path / "titles.txt").write_text("Ab ove\n\nR&D é\n")
    wiki = module_at(ROOT / "infra/roles/mediawiki/workload.py")
    above, odd = map(wiki.page, lines_of(tmp_path / "titles.txt"))
    assert (above.request, above.check) == ("/index.php?title=Ab_ove", "<title>Ab ove")
    assert (odd.request, odd.check) == ("/index.php?title=R%26D_%C3%A9", "<title>R&amp;D é")


def test_writes_have_their_share_and_are_the_same_for_both_arms(experiment: Experiment) -> None:
    load = experiment.load.model_copy(update={"rate_per_s": 500.0})
    experiment = experiment.model_copy(update={"load": load})
    workload = find_workloads(None)["ycsb-a"]
    entries = {"db": ("redis://198.18.0.10:6379/",)}
    first, second = blocks(experiment)[:2]
    plan = plan_block(entries, experiment, first, workload)
    again = plan_block(entries, experiment, second, workload)
    assert plan.operation_of == again.operation_of
    commands = [plan.operations[index].request.split(" ")[0] for index in plan.operation_of]
    assert set(commands) == {"HGETALL", "HSET"}
    assert commands.count("HSET") / len(commands) == pytest.approx(0.5, abs=0.02)


def test_phases_follow_each_other_without_gaps(tmp_path: Path) -> None:
    sticky = load_design(write(tmp_path)).experiment  # a fault that lasts until the block ends
    assert [window.phase for window in phase_windows(sticky)] == ["warm-up", "measure", "fault"]
    toml = TOML.replace("sticky = true", "for_s = 20")
    experiment = load_design(write(tmp_path, toml=toml)).experiment
    assert [(w.phase, w.start_s, w.end_s) for w in phase_windows(experiment)] == [
        ("warm-up", 0, 15), ("measure", 15, 25), ("fault", 25, 55), ("recovery", 55, 75),
    ]  # fmt: skip
    assert block_length_s(experiment) == 75


INTERFERENCE = st.builds(Interference, pattern=st.sampled_from(["none", "front", "back", "both"]),
                         kinds=st.sampled_from([("cpu",), ("iperf",), ("cpu", "iperf")]),
                         mean_gap_s=st.floats(0.5, 60), mean_run_s=st.floats(0.5, 60))  # fmt: skip


@given(INTERFERENCE, st.floats(1, 300), SEEDS)
@examples(60)
def test_episodes_stay_in_the_window_on_affected_machines_one_at_a_time(
    fleet: Fleet, interference: Interference, window_s: float, seed: int
) -> None:
    drawn = episodes(interference, fleet, window_s, seed)
    assert drawn == episodes(interference, fleet, window_s, seed)
    assert list(drawn) == sorted(drawn, key=lambda episode: episode.start_s)
    tiers = affected_tiers(interference.pattern, fleet.tier_order)
    allowed = {name for tier in tiers for name in fleet.nodes_of(tier)}
    ports = [episode.parameters["port"] for episode in drawn if episode.peer]
    assert len(ports) == len(set(ports))
    for episode in drawn:
        assert 0 <= episode.start_s < window_s
        assert 0 < episode.duration_s <= window_s - episode.start_s + 1e-9
        assert episode.machine in allowed
        _check_kind(episode, interference)
    for machine in allowed:
        machine_episodes = [episode for episode in drawn if episode.machine == machine]
        for before, after in pairwise(machine_episodes):
            assert before.start_s + before.duration_s + GAP_S_MIN <= after.start_s + 1e-9


def _check_kind(episode: Episode, interference: Interference) -> None:
    assert episode.kind.removeprefix("interference.") in interference.kinds
    if episode.kind == "interference.iperf":
        assert episode.peer is not None
        assert episode.peer != episode.machine
        assert episode.peer.split("-")[0] == episode.machine.split("-")[0]
        assert set(episode.parameters) == {"port", "mbps"}
    else:
        assert episode.peer is None
        assert episode.parameters == {"workers": interference.cpu_workers}


def test_interference_starts_stationary_and_keeps_its_share(fleet: Fleet) -> None:
    interference = Interference(pattern="both", mean_gap_s=40.0, mean_run_s=10.0)
    window_s, machines = 20.0, 7
    windows = [episodes(interference, fleet, window_s, seed) for seed in range(600)]
    at_start = sum(e.start_s == 0 for window in windows for e in window) / 600 / machines
    busy = sum(e.duration_s for window in windows for e in window) / 600 / machines / window_s
    assert at_start == pytest.approx(0.2, abs=0.03)  # run / (gap + run)
    assert busy == pytest.approx(0.2, abs=0.03)  # as much in a window shorter than a mean gap


def test_another_machine_does_not_shift_the_others(fleet: Fleet) -> None:
    interference = Interference(pattern="back", kinds=("cpu",))
    db = fleet.tiers["db"]
    larger = fleet.model_copy(
        update={"tiers": {**fleet.tiers, "db": db.model_copy(update={"nodes": 4})}}
    )
    old = episodes(interference, fleet, 900.0, 3)
    new = episodes(interference, larger, 900.0, 3)
    assert old == tuple(episode for episode in new if episode.machine != "db-4")
    assert len(new) > len(old) > 0


def test_the_neighbours_of_a_tiers_only_node_send_to_the_telemetrys_machine(fleet: Fleet) -> None:
    interference = Interference(pattern="back", kinds=("iperf",), mean_gap_s=5.0)
    db = fleet.tiers["db"].model_copy(update={"nodes": 1})
    single_node = fleet.model_copy(update={"tiers": {**fleet.tiers, "db": db}})
    drawn = episodes(interference, single_node, 300.0, 3)
    assert {(episode.machine, episode.peer) for episode in drawn} == {("db-1", "influxdb-1")}


def test_patterns_name_the_front_and_the_back(fleet: Fleet) -> None:
    order = fleet.tier_order
    assert affected_tiers("none", order) == ()
    assert affected_tiers("front", order) == ("web",)
    assert affected_tiers("back", order) == ("db",)
    assert affected_tiers("both", order) == ("web", "db")
    assert affected_tiers("both", ("only",)) == ("only",)


@pytest.mark.parametrize(
    ("entry", "place"),
    [("http://192.0.2.1/", "load: entry"), ("http://example.org/", "load: entry"),
     ("http://198.20.0.1/", "load: entry"), ("ftp://127.0.0.1/", "load: protocol of the entry")],
)  # fmt: skip
def test_load_goes_to_the_own_fleet_only_and_in_a_protocol_that_is_spoken(
    experiment: Experiment, entry: str, place: str
) -> None:
    with pytest.raises(InputError) as error:
        plan_block({"web": (entry,)}, experiment, blocks(experiment)[0], THREE)
    assert error.value.place == place


def test_an_operation_without_an_entry_goes_to_the_first_and_an_unknown_one_is_refused(
    experiment: Experiment,
) -> None:
    entries = {
        "web": ("http://198.18.0.10/",),
        "search": ("http://198.18.0.11/",),
        "db": ("mysql://198.18.0.12:3306/",),  # which nothing asks, so it needs no client
    }
    workload = Workload(
        lambda: Population((Operation("a", "/a", "a"), Operation("b", "/b", "b", "search")), 0.0),
        ("any",),
    )
    block = blocks(experiment)[0]
    plan = plan_block(entries, experiment, block, workload)
    assert {operation.name: operation.entry for operation in plan.operations} == {
        "a": "web",
        "b": "search",
    }
    assert set(plan.entries) == {"web", "search"}
    with pytest.raises(InputError) as error:
        plan_block(ENTRIES, experiment, block, workload)
    assert error.value.place == "workload, operation b"
