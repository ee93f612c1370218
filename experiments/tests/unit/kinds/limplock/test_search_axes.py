"""Axes of a search for danger zones: what each does to a machine, its bounds, its unit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from core.errors import InputError
from experiments.commands.check import checked
from experiments.design import load_design
from experiments.design.design import DESIGNS
from experiments.kinds.limplock.judge.search import Search
from experiments.kinds.limplock.page.zones import AXES
from experiments.kinds.limplock.scenarios import UNITS, Axis

START = Search(axis="start", low=0.5, high=5, slower=200, held_s=2)
LEAST: Mapping[Axis, float] = {
    "slower": 2.0, "loss": 2.0, "delay": 2.0, "io_latency": 2.0, "held": 2.0, "start": 0.5,
}  # fmt: skip
STATED: Mapping[Axis, Mapping[str, float]] = {
    "held": {"slower": 200.0}, "start": {"slower": 200.0, "held_s": 2.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("axis", "value", "limpware", "name", "kind", "parameters", "start_s", "held_s"),
    [
        ("delay", 63.25, "nic", "63.25 ms", "net.delay", {"delay_ms": 63.25}, None, None),
        ("io_latency", 14.42, "disk", "14.42 ms", "disk.slow", {"delay_ms": 14.42}, None, None),
        ("start", 2.5, "nic", "2.5 s", "net.limp", {"factor": 200.0}, 2.5, 2.0),
        ("start", 2.5, "disk", "2.5 s", "disk.limp", {"factor": 200.0}, 2.5, 2.0),
        ("held", 2.5, "nic", "2.5 s", "net.limp", {"factor": 200.0}, None, 2.5),
    ],
)
def test_a_value_of_an_axis_is_a_fault_of_an_agent(
    axis: Axis, value: float, limpware: str, name: str, kind: str,
    parameters: Mapping[str, float], start_s: float | None, held_s: float | None,
) -> None:  # fmt: skip
    scenario = searched_for(axis).scenario(value)
    assert scenario.name == name
    assert scenario.fault(limpware) == (kind, parameters)
    assert (scenario.start_s, scenario.held_s) == (start_s, held_s)


def searched_for(axis: Axis) -> Search:
    values: dict[str, Any] = {"axis": axis, "low": LEAST[axis], "high": 50.0}
    return Search.model_validate(values | dict(STATED.get(axis, {})))


def test_every_axis_has_a_unit_and_words() -> None:
    assert set(AXES) == set(UNITS) == set(get_args(Axis)) == set(LEAST)


def refused(design: str, folder: Path, was: str, now: str) -> InputError:
    """The refusal of a design with this in place of that."""
    path = Path(shutil.copytree(DESIGNS / design, folder / "mine")) / "experiment.toml"
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, now))
    with pytest.raises(InputError) as found:
        checked(load_design(path.parent))
    return found.value


AXIS, RANGE = 'axis = "slower"', 'axis = "slower"\nlow = 2\nhigh = 1000'


@pytest.mark.parametrize(
    ("was", "now", "key", "said"),
    [
        (AXIS, 'axis = "late"', "search.axis", "io_latency"),
        (AXIS, 'axis = "io_latency"', "limplock.search", "disk"),
        (RANGE, 'axis = "delay"\nlow = 0.05\nhigh = 9', "search.low", "0.1 ms"),
        (RANGE, 'axis = "delay"\nlow = 2\nhigh = 10001', "search.high", "10000 ms"),
        (RANGE, 'axis = "loss"\nlow = 0.001\nhigh = 9', "search.low", "0.01 %"),
        (AXIS, 'axis = "start"\nheld_s = 2', "search.slower", "a factor"),
        (AXIS, 'axis = "start"\nslower = 7', "search.held_s", "seconds"),
        (AXIS, 'axis = "slower"\nheld_s = 7', "search.held_s", "nothing"),
        (AXIS, 'axis = "held"\nslower = 7\nheld_s = 7', "search.held_s", "nothing"),
        (AXIS, 'axis = "delay"\nslower = 7', "search.slower", "nothing"),
        (RANGE, 'axis = "start"\nslower = 7\nheld_s = 2\nlow = 2\nhigh = 3601', "search.high",
         "3600"),
    ],
)  # fmt: skip
def test_an_axis_that_cannot_be_is_refused_with_its_key(
    was: str, now: str, key: str, said: str, tmp_path: Path
) -> None:
    error = refused("danger-zones-zookeeper", tmp_path, was, now)
    assert error.place.endswith(key)
    assert said in str(error)


@pytest.mark.parametrize(
    ("was", "now", "key", "said"),
    [
        ("low = 1", "low = 0.05", "search.low", "0.1 ms"),
        ("high = 3000", "high = 600001", "search.high", "600000 ms"),
        ('axis = "io_latency"', 'axis = "delay"', "limplock.search", "card"),
        ('STORE_FAULTS = "on"', 'STORE_FAULTS = "off"', "limplock.search", "arm new"),
        ('STORE_FAULTS = "on"', "ELECTION_MS = 200", "limplock.search", "arm new"),
    ],
)
def test_a_latency_that_no_io_can_have_is_refused_with_its_key(
    was: str, now: str, key: str, said: str, tmp_path: Path
) -> None:
    error = refused("danger-zones-etcd-io", tmp_path, was, now)
    assert error.place.endswith(key)
    assert said in error.expected


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (searched_for("delay"), "2 to 50 ms, at most"),
        (searched_for("held"), "200 × for 2 to 50 s, at most"),
        (START, "200 × for 2 s, begun 0.5 to 5 s after the operation, at most"),
    ],
)
def test_what_a_search_tries_is_said_with_its_unit(rule: Search, said: str) -> None:
    assert rule.range_words().startswith(said)
