"""The closed loop: what goes on to the second half, what does not, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import InputError, Interrupted, MeasurementFailed
from experiments import kinds
from experiments.design import Design, load_design
from experiments.design.prediction import PLANNED_ARM, PLANNED_FOLDER, REFUSED_PLAN
from experiments.kinds.compare import close as module
from experiments.kinds.compare.close import Closed, Loop, close, planned_design
from experiments.run.kind import NoSection
from experiments.run.lifecycle import Outcome
from experiments.tests.adopt_fixture import measured_run
from experiments.tests.manifest_fixture import VERDICTS
from experiments.tests.quiet import NOBODY
from experiments.tests.spec_fixture import TOML, design

BROKEN = MeasurementFailed("here", expected="an answer", got="none", hint="Nothing.")


def outcome(folder: Path, *, feasible: bool | None = True, **head: Any) -> Outcome:
    """The outcome of a half that ended by itself."""
    result = {
        "kind": "compare", "valid": True, "disturbed": None, "stopped": None, "slo": None,
        "verdicts": VERDICTS, "compare": {"plan": {"feasible": feasible}}, **head,
    }  # fmt: skip
    return Outcome(folder, result, folder / "report.html")


class Fleet:
    """A platform that has one machine from the first half on until `down` is called."""

    def __init__(self, *, stays: bool = False) -> None:
        self.machines: list[str] = []
        self.downs = 0
        self._stays = stays

    def remaining(self) -> list[str]:
        return list(self.machines)

    def down(self, _: object) -> list[str]:
        self.downs += 1
        self.machines = self.machines if self._stays else []
        return []


class Halves:
    """A double of `run_experiment`: each half creates, hands on or removes the fleet."""

    def __init__(self, fleet: Fleet, *ends: Outcome | BaseException) -> None:
        self.fleet = fleet
        self.ends = list(ends)
        self.calls: list[Any] = []

    def __call__(self, kind: Any, half_design: Design, section: Any, **options: Any) -> Outcome:
        assert section == NoSection()
        self.calls.append(SimpleNamespace(kind=kind.name, design=half_design, **options))
        self.fleet.machines = ["web-1"]
        end = self.ends.pop(0)
        if not (options["keep"] or options["hands_on"]) or isinstance(end, BaseException):
            self.fleet.machines = []
        if isinstance(end, BaseException):
            raise end
        return end


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return measured_run(tmp_path / "run")


@pytest.fixture
def looped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a loop whose halves end like this; returns its result, the halves and the fleet."""

    def carry_out(*ends: Outcome | BaseException, keep: bool = False, **options: Any) -> Any:
        tell_outcome = options.pop("tell", lambda _: None)
        next_cheaper = options.pop("next_cheaper", False)
        fleet = Fleet(**options)
        halves = Halves(fleet, *ends)
        monkeypatch.setattr(module, "run_experiment", halves)
        source = design(tmp_path / "source")
        loop = Loop(
            tmp_path,
            lambda: fleet,  # type: ignore[arg-type, return-value]
            keep,
            ["sparecraft"],
            NOBODY,
            next_cheaper=next_cheaper,
        )
        closed: Closed | BaseException
        try:
            closed = close(kinds.kind_of(source), source, loop, tell_outcome)
        except (KeyboardInterrupt, Exception) as error:
            closed = error
        return closed, halves, fleet

    return carry_out


def test_the_planned_fleet_is_measured_on_the_machines_that_are_up(
    folder: Path, looped: Callable[..., Any]
) -> None:
    measured_half, planned_half = outcome(folder), outcome(folder, slo={"met": True})
    closed, halves, fleet = looped(measured_half, planned_half)
    assert (closed.measured, closed.planned, closed.why_not) == (measured_half, planned_half, "")
    first_call, second_call = halves.calls
    assert (first_call.hands_on, first_call.part) == (True, "")
    assert (second_call.hands_on, second_call.part, second_call.keep) == (
        False,
        PLANNED_FOLDER,
        False,
    )
    assert second_call.design.fleet.experiment == first_call.design.fleet.experiment
    assert list(second_call.design.experiment.arms) == [PLANNED_ARM]
    assert second_call.design.experiment.design.seed == first_call.design.experiment.design.seed
    assert (fleet.machines, fleet.downs) == ([], 0)


@pytest.mark.parametrize("refused", [True, False])
def test_the_next_cheaper_fleet_is_measured_after_the_planned_one_if_the_plan_refused_one(
    folder: Path, looped: Callable[..., Any], refused: bool
) -> None:
    if refused:
        plan = json.loads((folder / "plan.json").read_text())
        (folder / REFUSED_PLAN).write_text(json.dumps({**plan, "usd_per_month": 1.0}))
    ends = [
        outcome(folder),
        outcome(folder, slo={"met": True}),
        outcome(folder, slo={"met": False}),
    ]
    closed, halves, fleet = looped(*ends[: 3 if refused else 2], next_cheaper=True)
    assert closed.planned == ends[1]
    assert closed.refused == (ends[2] if refused else None)
    assert closed.passed
    assert [call.part for call in halves.calls][1:] == ["planned", "refused"][: 1 + refused]
    assert halves.calls[1].hands_on == refused
    assert halves.calls[-1].design.prediction.usd_per_month == (
        1.0 if refused else halves.calls[1].design.prediction.usd_per_month
    )
    assert (fleet.machines, fleet.downs) == ([], 0)


@pytest.mark.parametrize(("met", "passed"), [(True, True), (None, True), (False, False)])
def test_only_a_missed_slo_of_the_planned_fleet_fails_the_loop(
    folder: Path, looped: Callable[..., Any], met: bool | None, passed: bool
) -> None:
    missed = outcome(folder, slo={"met": False})
    closed, _, _ = looped(missed, outcome(folder, slo={"met": met}))
    assert closed.passed is passed


@pytest.mark.parametrize(
    "head",
    [{"valid": False}, {"valid": False, "disturbed": {"blocks": 1}}, {"feasible": False},
     {"valid": False, "stopped": {"by": "guard"}}],
)  # fmt: skip
def test_a_first_half_that_says_nothing_ends_the_loop_with_its_own_result(
    folder: Path, looped: Callable[..., Any], head: dict[str, Any]
) -> None:
    measured_half = outcome(folder, **head)
    reported: list[Outcome] = []
    closed, halves, fleet = looped(measured_half, tell=reported.append)
    assert (closed.measured, closed.planned) == (measured_half, None)
    assert closed.why_not
    assert reported == [measured_half]
    assert len(halves.calls) == 1
    assert (fleet.machines, fleet.downs) == ([], 1)
    assert closed.passed is measured_half.passed


def test_a_plan_that_is_no_design_ends_the_loop_and_says_why(
    folder: Path, looped: Callable[..., Any]
) -> None:
    (folder / "plan.json").write_text('{"feasible": null, "reasons": ["too few requests"]}')
    closed, _, fleet = looped(outcome(folder, feasible=None))
    assert "too few requests" in closed.why_not
    assert fleet.machines == []


def test_keep_leaves_the_fleet_up_also_where_the_loop_is_not_closed(
    folder: Path, looped: Callable[..., Any]
) -> None:
    _, _, fleet = looped(outcome(folder, feasible=False), keep=True)
    assert (fleet.machines, fleet.downs) == (["web-1"], 0)
    _, halves, fleet = looped(outcome(folder), outcome(folder), keep=True)
    assert halves.calls[1].keep
    assert fleet.machines == ["web-1"]


def test_what_cannot_be_removed_is_named_and_fails_the_loop(
    folder: Path, looped: Callable[..., Any]
) -> None:
    closed, _, _ = looped(outcome(folder, feasible=False), stays=True)
    assert closed.left == ("web-1",)
    assert closed.measured.passed
    assert not closed.passed


INTERRUPTED = Interrupted("run", expected="its end", got="an interrupt", hint="")


@pytest.mark.parametrize("end", [BROKEN, INTERRUPTED])
@pytest.mark.parametrize("which", [0, 1])
def test_the_end_of_either_half_is_raised_and_no_fleet_is_left(
    folder: Path, looped: Callable[..., Any], which: int, end: BaseException
) -> None:
    ends = [outcome(folder)] * which + [end]
    raised, halves, fleet = looped(*ends)
    assert raised is end
    assert len(halves.calls) == which + 1
    assert fleet.machines == []


@pytest.mark.parametrize("end", [KeyboardInterrupt(), ValueError("a defect")])
def test_what_comes_between_the_halves_removes_the_fleet(
    folder: Path, looped: Callable[..., Any], end: BaseException
) -> None:
    def tell(_: Outcome) -> None:
        raise end

    raised, halves, fleet = looped(outcome(folder), tell=tell)
    assert len(halves.calls) == 1
    assert (fleet.machines, fleet.downs) == ([], 1)
    if isinstance(end, KeyboardInterrupt):
        assert isinstance(raised, Interrupted)
        assert raised.exit_code == 130
    else:
        assert raised is end


def test_a_fleet_that_cannot_be_removed_hides_no_error(
    folder: Path, looped: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(_: Outcome) -> None:
        raise BROKEN

    monkeypatch.setattr(Fleet, "down", lambda *_: (_ for _ in ()).throw(OSError("no engine")))
    raised, _, _ = looped(outcome(folder), tell=tell)
    assert raised is BROKEN


def test_the_place_of_the_fleet_stays_and_its_blocks_are_bounded(tmp_path: Path) -> None:
    """Eight blocks of two arms: four pairs, whose arrivals the first four new blocks meet."""
    addresses = 'data_cidr = "198.18.208.0/20"\nentry_port = 18081\n'
    folder = measured_run(tmp_path / "run", addresses)
    new_design = planned_design(outcome(folder))
    assert isinstance(new_design, Design)
    assert (new_design.fleet.data_cidr, new_design.fleet.entry_port) == ("198.18.208.0/20", 18081)
    assert new_design.fleet.experiment == "mediawiki-noisy"
    assert new_design.directory == (folder / "mediawiki-noisy-planned").resolve()
    assert load_design(new_design.directory) == new_design
    order = new_design.experiment.design
    assert (order.repeats, order.looked_after, order.budget_s) == (8, (4, 6, 8), None)


@pytest.mark.parametrize(
    ("arms", "measure_s", "blocks"),
    [("a", 21, 12), ("ab", 21, 12), ("abc", 5, 18), ("abc", 21, 16), ("abc", 60, 12)],
)
def test_each_pair_is_met_again_then_new_ones_as_long_as_there_is_time(
    tmp_path: Path, arms: str, measure_s: int, blocks: int
) -> None:
    """The measured run has six rounds; there are 180 s for blocks, each with 1 s of warm-up."""
    toml = TOML.replace("measure = 60", f"measure = {measure_s}").replace("= 15\n", "= 1\n")
    toml = toml.replace("at_s = 10.0\nfor_s = 15.0", "at_s = 1.0\nfor_s = 1.0")
    toml = toml.replace("at_s = 20.0", "at_s = 2.0")
    folder = measured_run(tmp_path / "run", arms=arms, rounds=6, toml=toml)
    new_design = planned_design(outcome(folder))
    assert isinstance(new_design, Design)
    assert new_design.experiment.design.repeats == blocks


@pytest.mark.parametrize(
    ("minutes", "looks"),
    [(1, (4,)), (8, (4, 5, 6)), (20, (4, 6, 9, 11, 14, 16)), (500, (4, 23, 42, 62, 81, 100))],
)
def test_more_time_makes_more_blocks_and_looks_but_no_later_first_look(
    tmp_path: Path, minutes: float, looks: tuple[int, ...]
) -> None:
    """Blocks of 75 s, and four pairs before the first look."""
    folder = measured_run(tmp_path / "run")
    new_design = planned_design(outcome(folder), 60 * minutes)
    assert isinstance(new_design, Design)
    assert new_design.experiment.design.looked_after == looks


def test_a_kind_that_plans_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        kinds.check_plans(load_design("press-load"), "--close")
    assert error.value.place == "--close"
    kinds.check_plans(design(tmp_path), "--close")
