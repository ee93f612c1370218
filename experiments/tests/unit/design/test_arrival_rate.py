"""Loads whose rate varies: stages, traces, and when their arrivals come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from experiments import kinds
from experiments.design import load_design
from experiments.design.arrival_rate import (
    Piece,
    Stage,
    at_rate,
    pieces,
    read_trace,
    varying_arrivals,
)
from experiments.design.schedule import Block, stream
from experiments.load.plan import LoadPlan, plan_block
from experiments.tests.spec_fixture import TOML, write

# A warm-up, a ramp up from it, a step down, a silence, a ramp from nothing.
PARTS = (Piece(2, 5, 5), Piece(10, 5, 45), Piece(4, 20, 20), Piece(3, 0, 0), Piece(5, 0, 40))


def counted(times_s: np.ndarray, parts: tuple[Piece, ...]) -> list[int]:
    edges = np.cumsum([0.0, *(piece.length_s for piece in parts)])
    return [int(count) for count in np.histogram(times_s, edges)[0]]


def toml(load: str) -> str:
    """A design that measures for 60 s."""
    text = TOML.replace("rate_per_s = 5  # pages\n", load, 1)
    assert text != TOML
    return text


def test_constant_arrivals_come_where_the_mean_number_before_them_is_whole() -> None:
    times_s = varying_arrivals("constant", PARTS, 1.0, stream(1, "arrivals"))
    assert counted(times_s, PARTS) == [10, 250, 80, 0, 100]
    assert np.all(np.diff(times_s) > 0.0)
    assert times_s[:3] == pytest.approx([0.0, 0.2, 0.4])
    sessions = varying_arrivals("constant", PARTS, 0.1, stream(1, "arrivals"))  # of ten requests
    assert counted(sessions, PARTS) == [1, 25, 8, 0, 10]


def test_poisson_arrivals_have_the_rate_of_each_part() -> None:
    rounds = [varying_arrivals("poisson", PARTS, 1.0, stream(n, "arrivals")) for n in range(60)]
    counts = np.sum([counted(times_s, PARTS) for times_s in rounds], axis=0)
    for count, part in zip(counts, PARTS, strict=True):
        mean = 60 * part.arrivals
        assert abs(count - mean) <= 5.0 * np.sqrt(mean)
    # Within a ramp the first half has the part of its mean that the straight line says.
    ramp = np.concatenate(rounds)
    ramp = ramp[(ramp >= 2.0) & (ramp < 12.0)]
    share = np.mean(ramp < 7.0)
    assert abs(share - 75 / 250) < 5.0 * np.sqrt(0.21 / ramp.size)


def test_gaps_of_a_ramp_are_exponential_once_its_clock_is_straight() -> None:
    parts = (Piece(100.0, 10.0, 100.0),)
    times_s = varying_arrivals("poisson", parts, 1.0, stream(7, "arrivals"))
    gaps = np.diff(10.0 * times_s + 0.45 * times_s**2)
    assert abs(gaps.mean() - 1.0) < 5.0 / np.sqrt(gaps.size)
    assert abs(np.mean(gaps > 1.0) - np.exp(-1.0)) < 5.0 * np.sqrt(0.24 / gaps.size)


def test_a_stage_goes_on_from_the_rate_before_it_or_begins_at_its_own() -> None:
    stages = (Stage(duration=10.0, target=50.0), Stage(duration=5.0, target=20.0, ramp="step"))
    assert pieces(3.0, 8.0, stages) == (Piece(3, 8, 8), Piece(10, 8, 50), Piece(5, 20, 20))
    assert pieces(0.0, 8.0, stages[:1]) == (Piece(10, 8, 50),)


STAGES = """\
rate_per_s = 5.0
stages = [{ duration = 45, target = 40 }, { duration = 15, target = 10, ramp = "step" }]
"""


def planned(directory: Path) -> LoadPlan:
    design = load_design(directory)
    workload = design.workloads[design.experiment.load.user]
    entries = {"web": ("http://127.0.0.1:1/",)}
    return plan_block(entries, design.experiment, Block(0, 0, "baseline", seed=7), workload)


def test_a_design_s_stages_are_its_block_s_arrivals(tmp_path: Path) -> None:
    text = toml(STAGES).replace('"poisson"', '"constant"')
    write(tmp_path, toml=text)
    design = load_design(tmp_path)
    warm_up_s = design.experiment.phases.warm_up
    parts = (Piece(warm_up_s, 5, 5), Piece(45, 5, 40), Piece(15, 10, 10))
    counts = counted(np.asarray(planned(tmp_path).offsets_s), parts)
    for count, part in zip(counts, parts, strict=True):
        assert abs(count - part.arrivals) <= 1


@pytest.mark.parametrize(
    ("load", "key"),
    [
        ("rate_per_s = 5.0\nstages = [{ duration = 0, target = 4 }]\n", "load.stages.0.duration"),
        ("rate_per_s = 5.0\nstages = [{ duration = 60, target = -1 }]\n", "load.stages.0.target"),
        ("rate_per_s = 5.0\nstages = [{ duration = 60, target = 1e9 }]\n", "load.rate_per_s"),
        ("rate_per_s = 5.0\nstages = [{ duration = 59, target = 4 }]\n", "load.stages"),
        (
            'rate_per_s = 5.0\nstages = [{ duration = 60, target = 0, ramp = "step" }]\n',
            "load.stages",
        ),
        ("stages = [{ duration = 60, target = 4 }]\n", "load.rate_per_s"),
        ("utilisation = 0.2\nstages = [{ duration = 60, target = 4 }]\n", "load.stages"),
        ('trace = "arrivals.csv"\n', "load.arrivals"),
    ],
)
def test_stages_that_cannot_be_are_refused_by_their_key(
    tmp_path: Path, load: str, key: str
) -> None:
    write(tmp_path, toml=toml(load))
    with pytest.raises(InputError) as error_info:
        load_design(tmp_path)
    errors = (error_info.value, *error_info.value.also)
    assert key in [error.place.rpartition(": ")[2] for error in errors]


def traced(directory: Path, rows: str, load: str = 'trace = "arrivals.csv"\n') -> None:
    write(directory, toml=toml(load).replace('"poisson"', '"trace"', 1))
    (directory / "arrivals.csv").write_text(rows)


def test_a_trace_is_each_block_s_arrivals_up_to_its_end(tmp_path: Path) -> None:
    traced(tmp_path, "n,at_s\n1,0.5\n2,0.5\n\n3,7.25\n4,9000\n")
    assert planned(tmp_path).offsets_s == (0.5, 0.5, 7.25)
    assert load_design(tmp_path).experiment.load.rate_per_s == 4 / 9000
    traced(tmp_path, "\ufeffat_s\n0.5\n")  # as spreadsheets save it
    assert planned(tmp_path).offsets_s == (0.5,)


def test_a_stated_rate_stretches_the_clock_of_a_trace(tmp_path: Path) -> None:
    load = 'trace = "arrivals.csv"\nrate_per_s = 4.0\n'
    traced(tmp_path, "at_s\n0\n1\n2\n4\n", load)  # one a second
    assert planned(tmp_path).offsets_s == (0.0, 0.25, 0.5, 1.0)
    assert at_rate((1.0, 2.0), 1.0).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("rows", "line"),
    [("at_s\n1\nsoon\n3\n", ":3"), ("at_s\n1\n0.5\n", ":3"), ("at_s\n-1\n", ":2"),
     ("at_s\nnan\n", ":2"), ("at_s,n\n1,1\n\n,2\n", ":4"), ("n,at_s\n1\n", ":2"),
     ("time\n1\n", ":1"), ("", ":1"), ("at_s\n", ".csv")],
)  # fmt: skip
def test_a_trace_with_broken_lines_is_refused_by_the_first(
    tmp_path: Path, rows: str, line: str
) -> None:
    traced(tmp_path, rows)
    with pytest.raises(InputError) as error:
        load_design(tmp_path)
    assert error.value.place.endswith(line)


def test_a_trace_that_is_not_there_or_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv"):
        read_trace(tmp_path / "none.csv")
    traced(tmp_path, "at_s\n1\n", 'trace = "../arrivals.csv"\n')
    with pytest.raises(InputError, match=r"load\.trace"):
        load_design(tmp_path)


def test_a_kind_that_sets_the_rate_itself_refuses_stages(tmp_path: Path) -> None:
    write(tmp_path, toml='kind = "tune"\n' + toml(STAGES))
    design = load_design(tmp_path)
    with pytest.raises(InputError) as error:
        kinds.section_of(kinds.kind_of(design), design)
    assert error.value.place.endswith("load.stages")
