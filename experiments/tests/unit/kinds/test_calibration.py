"""A rate found from a share of the fleet's CPU, on a fleet that is simulated second by second."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from core.errors import InputError, MeasurementFailed
from experiments import kinds
from experiments.console import Narrator
from experiments.design import Design, load_design
from experiments.design.experiment import Load, Phases
from experiments.design.schedule import blocks, load_length_s
from experiments.design.utilisation import copies_of
from experiments.kinds import calibration
from experiments.kinds.calibration import (
    Piece,
    Rate,
    Work,
    calibrate,
    calibration_json,
    experiment_at,
    rate_for,
    work_of,
)
from experiments.record.records import HOSTS
from experiments.run.kind import NoSection
from experiments.tests.spec_fixture import TOML, design, write

ASKED = TOML.replace("rate_per_s = 5  # pages", "utilisation = 0.12")
WEB_S, DB_S, IDLE = 0.036, 0.004, 0.008  # CPU of a page, and cores of an idle machine


def asked(tmp_path: Path, changes: Mapping[str, str] | None = None) -> Design:
    text = ASKED
    for old, new in (changes or {}).items():
        text = text.replace(old, new)
    return load_design(write(tmp_path / "design", toml=text))


class _SimulatedFleet:
    """Machines whose CPU use follows from their load; time passes only while somebody waits."""

    def __init__(self, slow: float = 1.0, noise: float = 0.03, cold_s: float = 4.0) -> None:
        self.now_s, self.slow, self.noise, self.cold_s = 100.0, slow, noise, cold_s
        self.rng = np.random.default_rng(7)
        self.rows: list[dict[str, Any]] = []
        self.asked: list[tuple[float, float]] = []
        self.failing = 0.0

    # time
    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, length_s: float) -> None:
        self._pass(length_s, 0.0)

    # runner
    def calm(self, number: int, _: Narrator, load: Load, phases: Phases) -> Any:
        length_s, begin_s = phases.warm_up + phases.measure, self.now_s
        self.asked.append((load.sent_per_s, length_s))
        at_s = begin_s + np.arange(np.ceil(length_s * load.sent_per_s)) / load.sent_per_s
        self._pass(length_s, load.sent_per_s)
        failed = self.rng.random(len(at_s)) < self.failing
        outcome = ["timeout" if is_bad else "ok" for is_bad in failed]
        records = pl.DataFrame({"intended_s": at_s, "outcome": outcome})
        assert number < -1
        return SimpleNamespace(records=lambda: records)

    def _pass(self, length_s: float, rate_per_s: float) -> None:
        end_s = self.now_s + length_s
        while self.now_s < end_s - 1e-9:
            self.now_s = min(end_s, np.floor(self.now_s + 1e-9) + 1.0)
            slowdown = 3.0 if self.now_s < 100.0 + self.cold_s else 1.0
            for tier, nodes, work_s in (("web", 4, WEB_S), ("db", 3, DB_S)):
                for node in range(1, nodes + 1):
                    load_cores = rate_per_s * work_s * self.slow * slowdown / nodes
                    cores = IDLE + load_cores * (1.0 + self.noise * self.rng.standard_normal())
                    self.rows.append(
                        {"time_s": self.now_s, "machine": f"{tier}-{node}", "cpu_cores": cores}
                    )

    # InfluxDB
    def hosts(self, *_: Any, **__: Any) -> pl.DataFrame:
        return pl.DataFrame(self.rows, schema=HOSTS)

    def close(self) -> None:
        pass


FindOn = Callable[..., tuple[dict[str, Any], Design]]


@pytest.fixture
def find_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FindOn:
    """Calibrates `asked` on a fleet, perhaps changed: the manifest's words, and the design that the
    blocks are run by."""

    def find(
        fleet: _SimulatedFleet, changes: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], Design]:
        asked_design, writers = asked(tmp_path, changes), list[Any]()
        testbed: Any = SimpleNamespace(
            design=asked_design,
            fleet=SimpleNamespace(influxdb=""),
            clock=SimpleNamespace(since_s=lambda at_s: at_s, ns_at=lambda at_s: int(at_s * 1e9)),
            narrator=Narrator(Console(file=io.StringIO())),
            setup_s={},
            keep=writers.append,
        )
        runner: Any = SimpleNamespace(calm=fleet.calm, design=asked_design, handles=[1])
        monkeypatch.setattr(calibration, "time", fleet)
        monkeypatch.setattr(calibration, "InfluxQuery", lambda _: fleet)
        calibrate(testbed, runner)
        runner.handles.clear()
        assert writers[0](Path()) is None  # nothing was measured: nothing to keep
        runner.handles.append(1)
        return writers[0](Path())["calibration"], runner.design

    return find


@pytest.mark.parametrize("slow", [1.0, 2.0])
def test_a_service_twice_as_slow_is_given_half_the_rate(find_on: FindOn, slow: float) -> None:
    values, rate_design = find_on(_SimulatedFleet(slow))
    true_per_s = 0.12 * 4 * 0.6 / (WEB_S * slow)  # four web servers of 0.6 cores
    assert values["tier"] == "web"
    assert values["rate_per_s"] == pytest.approx(true_per_s, rel=0.05)
    assert values["ci_low"] < values["rate_per_s"] < values["ci_high"]
    assert rate_design.experiment.load.rate_per_s == values["rate_per_s"]
    assert rate_design.experiment.load.utilisation is None


def test_an_arm_whose_copies_ask_for_more_than_the_fleet_has_is_refused_after_it(
    find_on: FindOn,
) -> None:
    with pytest.raises(MeasurementFailed) as error:
        find_on(_SimulatedFleet(), {"utilisation = 0.12": "utilisation = 0.7"})
    assert error.value.place == "arms.replicated.settings.web.replicas"


def test_the_load_of_a_calibration_is_bounded_and_begins_low(find_on: FindOn) -> None:
    fleet = _SimulatedFleet(slow=0.001)  # 36 us a request: 8,000 a second at 12 %
    find_on(fleet)
    rates = [rate for rate, _ in fleet.asked]
    assert rates[0] == calibration.FIRST_PER_S
    assert all(faster <= calibration.FASTER_MOST * slower for slower, faster in pairwise(rates))
    assert sum(length_s for _, length_s in fleet.asked) <= 60.0


def test_what_an_idle_machine_uses_is_not_taken_for_work(find_on: FindOn) -> None:
    values, _ = find_on(_SimulatedFleet(noise=0.0))
    assert values["tiers"]["db"]["cpu_s"] == pytest.approx(DB_S, rel=0.05)
    assert values["tiers"]["db"]["idle_cores"] == pytest.approx(3 * IDLE, rel=0.05)


def test_copies_are_foreseen_to_do_a_tiers_work_again_and_that_of_those_below(
    find_on: FindOn,
) -> None:
    values, _ = find_on(_SimulatedFleet())
    base_arm, copied_arm = values["arms"]["baseline"], values["arms"]["replicated"]
    assert base_arm["web"] == pytest.approx(0.12, rel=0.01)
    assert copied_arm["web"] == pytest.approx(2 * base_arm["web"])
    assert copied_arm["db"] == pytest.approx(2 * base_arm["db"])  # (2, 1)


def test_a_fleet_that_does_not_answer_ends_the_calibration(find_on: FindOn) -> None:
    fleet = _SimulatedFleet()
    fleet.failing = 0.5
    with pytest.raises(MeasurementFailed) as error:
        find_on(fleet)
    assert error.value.place == "load.utilisation"


def test_work_that_differs_too_much_is_measured_twice_then_refused(find_on: FindOn) -> None:
    fleet = _SimulatedFleet(noise=8.0)
    with pytest.raises(MeasurementFailed):
        find_on(fleet)
    lengths_s = [length_s for _, length_s in fleet.asked if length_s > calibration.TRIAL_S]
    assert len(lengths_s) == calibration.TRIES_MAX


def hosts_of(cores: float, machines: tuple[str, ...], until_s: int) -> pl.DataFrame:
    rows = [
        {"time_s": float(at_s), "machine": name, "cpu_cores": cores}
        for at_s in range(until_s + 1)
        for name in machines
    ]
    return pl.DataFrame(rows, schema=HOSTS)


def test_a_machine_without_samples_is_no_idle_one(tmp_path: Path) -> None:
    fleet = design(tmp_path).fleet
    machines = tuple(name for tier in fleet.tiers for name in fleet.nodes_of(tier))
    pieces = [Piece(0.0, 5.0, 10), Piece(5.0, 10.0, 10)]
    assert work_of(hosts_of(0.1, machines, 10), pieces, None, fleet)["web"].cpu_s == pytest.approx(
        0.2
    )
    with pytest.raises(MeasurementFailed):
        work_of(hosts_of(0.1, machines[1:], 10), pieces, None, fleet)
    with pytest.raises(MeasurementFailed):
        work_of(hosts_of(0.1, machines, 10), [*pieces, Piece(10.0, 15.0, 0)], None, fleet)


def test_the_tier_that_binds_is_the_one_that_fills_first(tmp_path: Path) -> None:
    fleet = design(tmp_path).fleet  # web 4 of 0.6 cores, db 3 of 1
    copies = copies_of({}, fleet)
    work = {"web": Work(0.01, 0.009, 0.011, 0.0), "db": Work(0.02, 0.019, 0.021, 0.0)}
    binding = rate_for(0.5, work, copies, fleet)
    assert binding.tier == "db"
    assert binding.per_s == pytest.approx(0.5 * 3 / 0.02)
    with pytest.raises(MeasurementFailed):
        rate_for(0.5, {name: Work(0.0, 0.0, 0.0, 0.0) for name in work}, copies, fleet)


@pytest.mark.parametrize(
    ("rate", "changes"),
    [
        (Rate("web", 8.0, 4.0, 16.0), {}),  # half the interval is the rate itself
        (Rate("web", 20_000.0, 19_000.0, 21_000.0), {}),  # one native worker sends 10,000
        (Rate("web", 0.1, 0.09, 0.11), {"[design]": "[guard]\nerror_share_max = 0.2\n[design]"}),
    ],
)
def test_a_rate_that_no_run_should_have_is_refused_with_what_to_do(
    tmp_path: Path, rate: Rate, changes: dict[str, str]
) -> None:
    asked_design = asked(tmp_path, changes)
    with pytest.raises(MeasurementFailed) as error:
        experiment_at(asked_design.experiment, asked_design.fleet, rate)
    assert error.value.hint
    sound_rate = Rate("web", 8.0, 7.0, 9.0)
    assert (
        experiment_at(asked_design.experiment, asked_design.fleet, sound_rate).load.rate_per_s
        == 8.0
    )


def test_a_base_arm_with_copies_is_used_as_asked(tmp_path: Path) -> None:
    asked_design = asked(
        tmp_path, {"[arms.baseline]": "[arms.baseline.settings]\nweb = { replicas = 2 }"}
    )
    copies = copies_of(asked_design.experiment.arms["baseline"].replicas, asked_design.fleet)
    work = {"web": Work(0.072, 0.07, 0.074, 0.0), "db": Work(0.008, 0.007, 0.009, 0.0)}
    rate = rate_for(0.12, work, copies, asked_design.fleet)
    values = calibration_json(
        asked_design.experiment, asked_design.fleet, (rate, work), [Piece(0, 1, 9)], 1.0
    )
    assert values["arms"]["baseline"]["web"] == pytest.approx(0.12)
    assert values["tiers"]["web"]["cpu_s_per_copy"] == pytest.approx(0.036)


def test_writes_are_not_copied(tmp_path: Path) -> None:
    fleet = design(tmp_path).fleet
    assert copies_of({"web": 3}, fleet, read_share=0.5) == {"web": 2.0, "db": 2.0}


def test_a_calibration_takes_its_time_in_what_is_told_before(tmp_path: Path) -> None:
    asked_design = asked(tmp_path)
    plain_experiment = asked_design.experiment.model_copy(
        update={"load": asked_design.experiment.load.at(5.0)}
    )
    assert load_length_s(asked_design.experiment) > load_length_s(plain_experiment)
    assert blocks(asked_design.experiment) == blocks(plain_experiment)


@pytest.mark.parametrize(
    ("line", "key"),
    [("utilisation = 0.12\nrate_per_s = 4.0", "load.utilisation"), ("", "load.rate_per_s"),
     ("utilisation = 12.0", "load.utilisation"), ("rate_per_s = 20000.0", "load.rate_per_s")],
)  # fmt: skip
def test_either_a_rate_or_a_utilisation_is_asked(tmp_path: Path, line: str, key: str) -> None:
    text = TOML.replace("rate_per_s = 5  # pages", line)
    with pytest.raises(InputError) as error:
        load_design(write(tmp_path, toml=text))
    file, number, place = error.value.place.rsplit(":", 2)
    assert (Path(file).name, place.strip()) == ("experiment.toml", key)
    assert int(number) > 0


@pytest.mark.parametrize(
    "name", [name for name in kinds.names() if not kinds.find(name).calibrates]
)
def test_a_kind_that_does_not_calibrate_refuses_the_key(tmp_path: Path, name: str) -> None:
    asked_design = asked(tmp_path)
    experiment = asked_design.experiment.model_copy(update={"kind": name})
    with pytest.raises(InputError) as error:
        kinds.section_of(kinds.find(name), dataclasses.replace(asked_design, experiment=experiment))
    assert error.value.place.endswith(": load.utilisation")


def test_the_kinds_that_plan_or_tune_take_the_key(tmp_path: Path) -> None:
    calibrating = {name for name in kinds.names() if kinds.find(name).calibrates}
    assert calibrating == {"compare", "schemes", "tune"}
    assert kinds.section_of(kinds.find("compare"), asked(tmp_path)) == NoSection()
    tune_section = kinds.section_of(kinds.find("tune"), asked(tmp_path), {"target": "p95"})
    assert tune_section.target == "p95"
