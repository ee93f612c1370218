"""The closed loop: what goes on to the second half, what does not, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import InputError, Interrupted, MeasurementFailed
from experiments import kinds
from experiments.design import Design, load_design
from experiments.design.prediction import PLANNED_ARM, PLANNED_FOLDER
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
    """A half that came to its end."""
    result = {
        "kind": "compare", "valid": True, "disturbed": None, "stopped": None, "slo": None,
        "verdicts": VERDICTS, "compare": {"plan": {"feasible": feasible}}, **head,
    }  # fmt: skip
    return Outcome(folder, result, folder / "report.html")


class Fleet:
    """A platform that has one machine from its first half on until `down`."""

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
    """Stands in for `run_experiment`: each half makes, hands on or removes the fleet."""

    def __init__(self, fleet: Fleet, *ends: Outcome | BaseException) -> None:
        self.fleet = fleet
        self.ends = list(ends)
        self.calls: list[Any] = []

    def __call__(self, kind: Any, asked: Design, section: Any, **how: Any) -> Outcome:
        assert section == NoSection()
        self.calls.append(SimpleNamespace(kind=kind.name, design=asked, **how))
        self.fleet.machines = ["web-1"]
        end = self.ends.pop(0)
        if not (how["keep"] or how["hands_on"]) or isinstance(end, BaseException):
            self.fleet.machines = []
        if isinstance(end, BaseException):
            raise end
        return end


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return measured_run(tmp_path / "run")


@pytest.fixture
def looped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Carries out a loop of halves with these ends; returns it, the halves and the fleet."""

    def carry_out(*ends: Outcome | BaseException, keep: bool = False, **options: Any) -> Any:
        tell = options.pop("tell", lambda _: None)
        fleet = Fleet(**options)
        halves = Halves(fleet, *ends)
        monkeypatch.setattr(module, "run_experiment", halves)
        wanted = design(tmp_path / "source")
        loop = Loop(tmp_path, lambda: fleet, keep, ["sparecraft"], NOBODY)  # type: ignore[arg-type, return-value]
        found: Closed | BaseException
        try:
            found = close(kinds.kind_of(wanted), wanted, loop, tell)
        except (KeyboardInterrupt, Exception) as error:
            found = error
        return found, halves, fleet

    return carry_out


def test_the_planned_fleet_is_measured_on_the_machines_that_are_up(
    folder: Path, looped: Callable[..., Any]
) -> None:
    first, second = outcome(folder), outcome(folder, slo={"met": True})
    found, halves, fleet = looped(first, second)
    assert (found.measured, found.planned, found.why_not) == (first, second, "")
    before, after = halves.calls
    assert (before.hands_on, before.part) == (True, "")
    assert (after.hands_on, after.part, after.keep) == (False, PLANNED_FOLDER, False)
    assert after.design.fleet.experiment == before.design.fleet.experiment
    assert list(after.design.experiment.arms) == [PLANNED_ARM]
    assert after.design.experiment.design.seed == before.design.experiment.design.seed
    assert (fleet.machines, fleet.downs) == ([], 0)


@pytest.mark.parametrize(("met", "passed"), [(True, True), (None, True), (False, False)])
def test_only_a_missed_slo_of_the_planned_fleet_fails_the_loop(
    folder: Path, looped: Callable[..., Any], met: bool | None, passed: bool
) -> None:
    missed_before = outcome(folder, slo={"met": False})
    found, _, _ = looped(missed_before, outcome(folder, slo={"met": met}))
    assert found.passed is passed


@pytest.mark.parametrize(
    "head",
    [{"valid": False}, {"valid": False, "disturbed": {"blocks": 1}}, {"feasible": False},
     {"valid": False, "stopped": {"by": "guard"}}],
)  # fmt: skip
def test_a_first_half_that_says_nothing_ends_the_loop_with_its_own_result(
    folder: Path, looped: Callable[..., Any], head: dict[str, Any]
) -> None:
    first = outcome(folder, **head)
    told: list[Outcome] = []
    found, halves, fleet = looped(first, tell=told.append)
    assert (found.measured, found.planned) == (first, None)
    assert found.why_not
    assert told == [first]
    assert len(halves.calls) == 1
    assert (fleet.machines, fleet.downs) == ([], 1)
    assert found.passed is first.passed


def test_a_plan_that_is_no_design_ends_the_loop_and_says_why(
    folder: Path, looped: Callable[..., Any]
) -> None:
    (folder / "plan.json").write_text('{"feasible": null, "reasons": ["too few requests"]}')
    found, _, fleet = looped(outcome(folder, feasible=None))
    assert "too few requests" in found.why_not
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
    found, _, _ = looped(outcome(folder, feasible=False), stays=True)
    assert found.left == ("web-1",)
    assert found.measured.passed
    assert not found.passed


INTERRUPTED = Interrupted("run", expected="its end", got="an interrupt", hint="")


@pytest.mark.parametrize("end", [BROKEN, INTERRUPTED])
@pytest.mark.parametrize("which", [0, 1])
def test_the_end_of_either_half_is_raised_and_no_fleet_is_left(
    folder: Path, looped: Callable[..., Any], which: int, end: BaseException
) -> None:
    ends = [outcome(folder)] * which + [end]
    found, halves, fleet = looped(*ends)
    assert found is end
    assert len(halves.calls) == which + 1
    assert fleet.machines == []


@pytest.mark.parametrize("end", [KeyboardInterrupt(), ValueError("a defect")])
def test_what_comes_between_the_halves_removes_the_fleet(
    folder: Path, looped: Callable[..., Any], end: BaseException
) -> None:
    def tell(_: Outcome) -> None:
        raise end

    found, halves, fleet = looped(outcome(folder), tell=tell)
    assert len(halves.calls) == 1
    assert (fleet.machines, fleet.downs) == ([], 1)
    if isinstance(end, KeyboardInterrupt):
        assert isinstance(found, Interrupted)
        assert found.exit_code == 130
    else:
        assert found is end


def test_a_fleet_that_cannot_be_removed_hides_no_error(
    folder: Path, looped: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(_: Outcome) -> None:
        raise BROKEN

    monkeypatch.setattr(Fleet, "down", lambda *_: (_ for _ in ()).throw(OSError("no engine")))
    found, _, _ = looped(outcome(folder), tell=tell)
    assert found is BROKEN


def test_the_place_of_the_fleet_stays_and_its_blocks_are_bounded(tmp_path: Path) -> None:
    """Eight blocks of two arms: four pairs, whose arrivals the first four new blocks meet."""
    stated = 'data_cidr = "198.18.208.0/20"\nentry_port = 18081\n'
    folder = measured_run(tmp_path / "run", stated)
    made = planned_design(outcome(folder))
    assert isinstance(made, Design)
    assert (made.fleet.data_cidr, made.fleet.entry_port) == ("198.18.208.0/20", 18081)
    assert made.fleet.experiment == "mediawiki-noisy"
    assert made.directory == (folder / "mediawiki-noisy-planned").resolve()
    assert load_design(made.directory) == made
    order = made.experiment.design
    assert (order.repeats, order.looked_after, order.budget_s) == (8, (4, 6, 8), None)


@pytest.mark.parametrize(
    ("arms", "measure_s", "blocks"),
    [("a", 21, 12), ("ab", 21, 12), ("abc", 5, 18), ("abc", 21, 16), ("abc", 60, 12)],
)
def test_each_pair_is_met_again_then_new_ones_as_long_as_there_is_time(
    tmp_path: Path, arms: str, measure_s: int, blocks: int
) -> None:
    """Six rounds; 180 s of blocks of that length, with 1 s of warm-up."""
    short = TOML.replace("measure = 60", f"measure = {measure_s}").replace("= 15\n", "= 1\n")
    short = short.replace("at_s = 10.0\nfor_s = 15.0", "at_s = 1.0\nfor_s = 1.0")
    short = short.replace("at_s = 20.0", "at_s = 2.0")
    folder = measured_run(tmp_path / "run", arms=arms, rounds=6, toml=short)
    made = planned_design(outcome(folder))
    assert isinstance(made, Design)
    assert made.experiment.design.repeats == blocks


def test_a_kind_that_plans_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        kinds.check_plans(load_design("press-load"), "--close")
    assert caught.value.place == "--close"
    kinds.check_plans(design(tmp_path), "--close")
