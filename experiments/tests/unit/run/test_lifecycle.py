"""The life of a run whatever its kind: what is kept, what is raised, what is left behind."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from core.errors import DiskFull, Interrupted, MeasurementFailed
from core.runfiles.manifest import manifest_if_any
from core.runfiles.result import read_result
from experiments.console import Narrator
from experiments.run.kind import NoSection
from experiments.testbed.runs import active
from experiments.testbed.testbed import Testbed
from experiments.tests.counting import Counting, carried_out

pytestmark = pytest.mark.usefixtures("own_runs")

BROKEN = MeasurementFailed("here", expected="an answer", got="none", hint="Nothing.")


def ending(end: BaseException | None) -> Callable[[], None]:
    def then() -> None:
        if end is not None:
            raise end

    return then


def platform(down: Callable[[], object]) -> Any:
    """Return a platform that removes fleets by `down`."""
    return SimpleNamespace(
        name="local", is_attached=False, down=lambda _: down() or [], remaining=list
    )


class WithFleet(Counting):
    """Counting, on a fleet as far as the clean-up knows."""

    def measure(self, testbed: Testbed, section: NoSection) -> None:
        testbed._applied = True
        super().measure(testbed, section)


def folders(results: Path) -> list[Path]:
    return [path for path in results.glob("tst-small/counting/*") if not path.is_symlink()]


def test_a_run_of_another_kind_than_the_designs_own_has_a_folder_of_that_kind(
    tmp_path: Path,
) -> None:
    outcome = carried_out(Counting(), tmp_path)
    assert outcome.passed
    assert [outcome.folder] == folders(tmp_path)
    assert read_result(outcome.folder)["counting"] == {"counted": 3}
    assert (tmp_path / "tst-small" / "counting" / "latest").resolve() == outcome.folder
    manifest: Any = manifest_if_any(outcome.folder)
    assert (manifest["counted"], manifest["cut_short"]) == (3, False)


@pytest.mark.parametrize("ends", [BROKEN, KeyboardInterrupt()])
def test_what_was_measured_before_the_end_is_kept_and_not_valid(
    tmp_path: Path, ends: BaseException
) -> None:
    raised = Interrupted if isinstance(ends, KeyboardInterrupt) else MeasurementFailed
    with pytest.raises(raised) as caught:
        carried_out(Counting(ending(ends)), tmp_path)
    [folder] = folders(tmp_path)
    result = read_result(folder)
    assert (result["valid"], result["counting"]) == (False, {"counted": 3})
    assert manifest_if_any(folder)["cut_short"]
    assert len(result["verdicts"]["measurement"]["reasons"]) == 1
    if raised is Interrupted:
        assert caught.value.exit_code == 130
        assert str(folder / "report.html") in caught.value.hint


@pytest.mark.parametrize("ends", [BROKEN, KeyboardInterrupt()])
def test_a_run_that_measured_nothing_leaves_no_folder(tmp_path: Path, ends: BaseException) -> None:
    with pytest.raises((Interrupted, MeasurementFailed)):
        carried_out(Counting(ending(ends), counts=False), tmp_path)
    assert folders(tmp_path) == []


@pytest.mark.parametrize("broken", ["collect", "down"])
@pytest.mark.parametrize("error", [BROKEN, TimeoutError("60 s")])
def test_whatever_the_clean_up_raises_the_run_is_kept_and_the_fleet_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, error: Exception
) -> None:
    calls: list[str] = []

    def called(name: str) -> None:
        calls.append(name)
        if name == broken:
            raise error

    monkeypatch.setattr(Testbed, "collect", lambda _: called("collect"))
    outcome = carried_out(WithFleet(), tmp_path, platform(lambda: called("down")))
    assert calls == ["collect", "down"]
    result = read_result(outcome.folder)
    assert (result["valid"], result["counting"]) == (True, {"counted": 3})
    assert len(result["verdicts"]["cleanup"]["reasons"]) == 1
    assert not outcome.passed


@pytest.mark.parametrize("counts", [True, False])
def test_a_fleet_that_is_still_there_is_told_of_whatever_ended_the_run(
    tmp_path: Path, counts: bool
) -> None:
    output = io.StringIO()
    with pytest.raises(Interrupted) as caught:
        carried_out(WithFleet(ending(KeyboardInterrupt()), counts), tmp_path,
                    platform(ending(BROKEN)), Narrator(Console(file=output)))  # fmt: skip
    assert "`sparecraft down tst-small`" in caught.value.hint
    assert str(BROKEN) in " ".join(output.getvalue().split())
    assert len(folders(tmp_path)) == counts


def test_a_fleet_that_is_gone_is_not_called_left_where_collecting_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collect(_: Testbed) -> None:
        try:
            raise BROKEN
        finally:
            raise TimeoutError("60 s")

    monkeypatch.setattr(Testbed, "collect", collect)
    output = io.StringIO()
    with pytest.raises(Interrupted) as caught:
        carried_out(WithFleet(ending(KeyboardInterrupt())), tmp_path, platform(list),
                    Narrator(Console(file=output)))  # fmt: skip
    assert "The fleet was removed" in caught.value.hint
    assert "sparecraft down" not in caught.value.hint
    output_text = " ".join(output.getvalue().split())
    assert str(BROKEN) in output_text
    assert "60 s" in output_text


@pytest.mark.parametrize("ends", [None, BROKEN, KeyboardInterrupt()])
def test_a_fleet_is_handed_on_by_a_run_that_came_to_its_end_only(
    tmp_path: Path, ends: BaseException | None
) -> None:
    downs: list[str] = []
    lent = platform(lambda: downs.append("down"))
    try:
        carried_out(WithFleet(ending(ends)), tmp_path, lent, part="planned", hands_on=True)
    except (Interrupted, MeasurementFailed):
        assert ends is not None
    assert downs == ([] if ends is None else ["down"])
    assert [folder.parent.name for folder in tmp_path.glob("tst-small/*/2*")] == ["planned"]


def test_a_disk_that_fills_up_is_said_and_the_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = DiskFull("result.json", expected="room", got="none", hint="Make room.")
    monkeypatch.setattr(
        "experiments.record.records.write_json", lambda *_: (_ for _ in ()).throw(full)
    )
    with pytest.raises(DiskFull):
        carried_out(Counting(), tmp_path)
    [folder] = folders(tmp_path)
    assert (folder / "seen.json").is_file()


class WithoutPage(Counting):
    """Counting, with a defect in the code that makes its page."""

    def write_page(self, folder: Path) -> Path:
        raise ValueError(f"no rows in {folder.name}")


@pytest.mark.parametrize(
    ("ends", "raised"),
    [(None, ValueError), (BROKEN, MeasurementFailed), (KeyboardInterrupt(), Interrupted)],
)
def test_a_page_that_cannot_be_made_takes_the_place_of_no_other_end(
    tmp_path: Path, ends: BaseException | None, raised: type[Exception]
) -> None:
    output = io.StringIO()
    with pytest.raises(raised) as caught:
        carried_out(WithoutPage(ending(ends)), tmp_path, narrator=Narrator(Console(file=output)))
    [folder] = folders(tmp_path)
    assert read_result(folder)["counting"] == {"counted": 3}
    assert "ValueError: no rows" in output.getvalue()
    if isinstance(caught.value, Interrupted):
        assert str(folder) in caught.value.hint


@pytest.mark.parametrize("ends", [BROKEN, ValueError("a defect")])
def test_another_run_may_begin_however_one_ended(tmp_path: Path, ends: Exception) -> None:
    with pytest.raises(type(ends)) as caught:
        carried_out(Counting(ending(ends)), tmp_path)
    assert caught.value is ends
    assert active() == []
