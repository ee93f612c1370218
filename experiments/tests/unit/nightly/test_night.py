"""A night, with a stand-in for `sparecraft`: what is run, kept, and found again after trouble."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import EnvironmentMissing
from experiments.cli import command
from experiments.nightly.folders import prune
from experiments.nightly.history import ASIDE, FILE, Run, incomplete, read_history
from experiments.nightly.night import nightly
from experiments.nightly.subprocess_run import carry_out
from experiments.testbed.runs import Active, _request_halt, active, registered
from experiments.testbed.signals import Signals, ending_signals
from experiments.tests.called import answer
from experiments.tests.nightly_fixture import T0, calls, made_up_run, suite_file, write_nights
from experiments.tests.nights import Nights, tools
from experiments.tests.quiet import NOBODY
from experiments.tests.started import LIMIT_S, disposition

pytestmark = pytest.mark.usefixtures("own_runs")  # `halt` reaches no run of this host's


def test_every_run_is_kept_arm_by_arm_with_its_seed(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy: seed = 70; repeats = 2", "memcached-noisy: seed = 9")
    outcome = nights.night(suite)
    assert outcome.exit_code == 0
    history = nights.history()
    assert [(run.entry, run.seed, run.arm) for run in history.runs] == [
        ("mediawiki-noisy", 70, "baseline"), ("mediawiki-noisy", 70, "replicated"),
        ("memcached-noisy", 9, "baseline"), ("memcached-noisy", 9, "replicated"),
        ("mediawiki-noisy", 71, "baseline"), ("mediawiki-noisy", 71, "replicated"),
    ]  # fmt: skip
    assert {(run.valid, run.reference_per_s) for run in history.runs} == {(True, 14.0)}
    assert history.unfinished == ()
    assert all(run.folder and (suite.results / run.folder).is_dir() for run in history.runs)
    assert nights.calls("down") == []


def test_sparecraft_takes_every_command_that_a_night_calls(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy: minutes_max = 0.02", "memcached-noisy", quiet_wait_s=5)
    nights.night(suite, {"mediawiki-noisy": ["hang"]})
    command_lines = calls(nights.folder / "program")
    assert {words[0] for words in command_lines} == {"run", "down"}
    for name, *words in command_lines:
        command(name).make_context(name, words)  # raises UsageError where it does not


def test_nights_are_counted_and_seeds_go_on(nights: Nights) -> None:
    for expected in (1, 2):
        assert nights.night(nights.suite("mediawiki-noisy: seed = 70")).night == expected
    assert [run.seed for run in nights.history().runs] == [70, 70, 71, 71]


@pytest.mark.parametrize(
    ("acts", "code"),
    [({}, 0), ({"mediawiki-noisy": ["missed"]}, 1), ({"mediawiki-noisy": ["not valid"]}, 4),
     ({"mediawiki-noisy": ["not valid"], "memcached-noisy": ["missed"]}, 4),
     ({"mediawiki-noisy": ["not valid"], "memcached-noisy": ["no docker"]}, 3)],
)  # fmt: skip
def test_the_exit_code_tells_met_missed_and_no_data_apart(
    nights: Nights, acts: dict[str, list[str]], code: int
) -> None:
    suite = nights.suite("mediawiki-noisy", "memcached-noisy")
    outcome = nights.night(suite, acts)
    assert outcome.exit_code == code
    runs = nights.history().runs
    assert len({run.entry for run in runs}) == 2
    for run in runs:
        if run.exit_code == 3:  # it could not begin
            assert (run.valid, run.arm) == (False, None)


def test_five_broken_designs_of_six_are_named_and_have_an_exit_code(nights: Nights) -> None:
    names = ("memcached-noisy", "redis-noisy", "solr-noisy", "crash-recovery", "mediawiki-null")
    suite = nights.suite("mediawiki-noisy", *names)
    outcome = nights.night(suite, {name: ["no docker"] for name in names})
    assert outcome.exit_code == 4
    assert dict(outcome.incomplete) == dict.fromkeys(names, "not valid")
    assert incomplete(nights.history(), 1) == outcome.incomplete


def test_what_does_not_fit_into_the_night_comes_first_in_the_next(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy", "memcached-noisy", budget_minutes=16)
    clock = iter(range(0, 10_000, 200))  # each look at it is 200 s later
    first = nightly(suite, NOBODY, tools(nights.acts({}), monotonic=lambda: float(next(clock))))
    assert first.left_out == ("memcached-noisy",)
    nights.night(suite)
    started = [(start.night, start.entry) for start in nights.history().starts]
    assert started[:2] == [(1, "mediawiki-noisy"), (2, "memcached-noisy")]


def test_a_run_that_hangs_is_ended_its_fleet_removed_and_the_night_goes_on(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy: minutes_max = 0.02", "memcached-noisy")
    outcome = nights.night(suite, {"mediawiki-noisy": ["hang"]})
    assert nights.calls("down") == [["down", "mediawiki-noisy"]]
    by_entry = {run.entry: run for run in outcome.runs}
    assert not by_entry["mediawiki-noisy"].valid
    assert by_entry["memcached-noisy"].valid


def test_a_child_that_will_not_end_is_killed(tmp_path: Path) -> None:
    with disposition(signal.SIGINT, signal.SIG_IGN):  # which a child inherits
        ended = carry_out(
            ["sleep", "600"], tmp_path / "log", limit_s=0.1, signals=Signals(print), grace_s=0.1
        )
    assert ended.late
    assert ended.code == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_while_a_child_is_started_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Disturbed(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            started.append(self)
            signal.raise_signal(number)  # is handled here: the child is there, and nobody has it

    monkeypatch.setattr(subprocess, "Popen", Disturbed)
    try:
        with (
            disposition(number, signal.SIG_DFL),  # the suite may ignore SIGHUP: nohup does
            ending_signals(print) as signals,
            pytest.raises(KeyboardInterrupt),
        ):
            carry_out(["sleep", "600"], tmp_path / "log", 600.0, signals)
        [child] = started
        assert child.returncode == -signal.SIGINT
    finally:
        for child in started:
            child.kill()
            child.wait()


def test_a_second_night_is_refused_and_told_who_holds_the_first(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy")
    with nights.by_itself({"mediawiki-noisy": ["hang"]}) as first:
        with pytest.raises(EnvironmentMissing, match=rf"process {first.pid}\b") as caught:
            nightly(suite, NOBODY)
        assert caught.value.exit_code == 3


def test_a_run_by_hand_is_not_disturbed(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy")
    with _going_on("by-hand", "/elsewhere"), pytest.raises(EnvironmentMissing, match="by-hand"):
        nightly(suite, NOBODY)
    assert nights.history().nights == ()


def test_a_run_by_hand_is_refused_during_a_night_and_the_night_s_own_is_not(nights: Nights) -> None:
    nights.suite("mediawiki-noisy")
    by_hand = Active(os.getpid(), "by-hand", "by-hand", "/elsewhere", "")
    with nights.by_itself({"mediawiki-noisy": ["halted"]}) as night:  # whose run is registered
        assert {run.is_night for run in active()} == {True, False}
        with pytest.raises(EnvironmentMissing, match=rf"process {night.pid}\b|of mediawiki"):
            registered(by_hand).__enter__()


def test_after_ctrl_c_all_is_recorded_and_the_next_night_goes_on(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy", "memcached-noisy")
    with nights.by_itself({"memcached-noisy": ["hang"]}) as process:
        process.interrupt()
        code, output = process.ended()
        assert code == 130, output
    history = nights.history()
    assert [(run.entry, run.valid) for run in history.runs] == [
        ("mediawiki-noisy", True), ("mediawiki-noisy", True), ("memcached-noisy", False),
    ]  # fmt: skip
    assert history.ends[-1].left_out == ("memcached-noisy",)
    assert nights.calls("down") == [["down", "memcached-noisy"]]
    nights.night(suite)
    assert nights.history().starts[2].entry == "memcached-noisy"


def _going_on(name: str, folder: str) -> AbstractContextManager[Path]:
    """A run of another process than this one."""
    return registered(Active(os.getppid(), name, name, folder, ""))


def _halt(*words: str) -> list[str]:
    """Call `sparecraft halt`; return the experiments that it halted."""
    runs_halted = answer("halt", *words, "--reason", "too hot")["halted"]
    return [run["experiment"] for run in runs_halted]


@pytest.mark.parametrize(
    ("act", "named", "told"),
    [
        ("halted", ("mediawiki-noisy",), ["mediawiki-noisy", "nightly"]),
        ("halted", ("nightly",), ["mediawiki-noisy", "nightly"]),
        ("hang", (), ["nightly"]),  # a run that is just beginning is not known yet
    ],
)
def test_halt_ends_its_run_and_the_night_and_both_say_why(
    nights: Nights, act: str, named: tuple[str, ...], told: list[str]
) -> None:
    suite = nights.suite("mediawiki-noisy", "memcached-noisy")
    draws_site = act == "hang"  # once: drawing takes seconds
    with nights.by_itself({"mediawiki-noisy": [act]}, site=draws_site) as process:
        assert _halt(*named) == told
        code, output = process.ended()
        assert code == 130, output
        assert "too hot" in output
    history = nights.history()
    assert (history.ends[-1].halted, history.ends[-1].left_out) == (
        "too hot", ("mediawiki-noisy", "memcached-noisy"),
    )  # fmt: skip
    assert {run.valid for run in history.runs} == {False}
    assert all(run.reasons[0].startswith("the night was halted: too hot") for run in history.runs)
    assert {run.stopped for run in history.runs} == ({"halt"} if len(told) > 1 else {""})
    assert [call[1] for call in nights.calls("down")] == ["mediawiki-noisy"]
    if draws_site:
        assert "Halted: too hot." in (suite.folder / "site" / "index.html").read_text()
    assert nights.night(suite).exit_code == 0


def test_a_halted_night_whose_run_has_ended_before_its_signal_comes_begins_no_other(
    nights: Nights,
) -> None:
    nights.suite("mediawiki-noisy", "memcached-noisy")
    with nights.by_itself({"mediawiki-noisy": ["halted"]}) as process:
        active_runs = active()
        for run in active_runs:
            _request_halt(run.pid, "too hot", "halt")
        os.kill(next(run.pid for run in active_runs if not run.is_night), signal.SIGTERM)
        code, output = process.ended()
    assert code == 130, output
    assert len(nights.calls("run")) == 1
    history = nights.history()
    assert history.ends[-1].halted == "too hot"
    assert all(run.reasons[0].startswith("the night was halted: too hot") for run in history.runs)


def test_a_night_goes_on_when_a_run_elsewhere_is_halted(nights: Nights, tmp_path: Path) -> None:
    nights.suite("mediawiki-noisy")
    elsewhere = f"""
import os, signal
from experiments.testbed import runs
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
other = runs.Active(os.getpid(), "shop", "shop", {str(tmp_path / "other")!r}, "", elsewhere=True)
with runs.registered(other):
    print("ready", flush=True)
    signal.sigwait({{signal.SIGTERM}})
"""
    with (
        nights.by_itself({"mediawiki-noisy": ["hang"]}),
        subprocess.Popen([sys.executable, "-c", elsewhere], stdout=subprocess.PIPE) as run,
    ):
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        assert _halt("shop") == ["shop"]
        assert run.wait(LIMIT_S) == 0


def test_after_a_kill_the_next_night_removes_the_fleet_and_goes_on(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy")
    with nights.by_itself({"mediawiki-noisy": ["hang"]}) as process:
        process.kill()
    assert len(nights.history().unfinished) == 1
    outcome = nights.night(suite)
    assert nights.calls("down") == [["down", "mediawiki-noisy"]]
    assert [(run.night, run.valid) for run in nights.history().runs] == [
        (1, False), (2, True), (2, True)
    ]  # fmt: skip
    assert outcome.exit_code == 0
    assert nights.history().unfinished == ()


def test_a_run_that_ended_well_after_its_night_was_killed_is_not_lost(
    nights: Nights, template: Path
) -> None:
    suite = nights.suite("mediawiki-noisy")
    with nights.by_itself({"mediawiki-noisy": ["hang"]}) as process:
        process.kill()
    folder = suite.results / "mediawiki-noisy" / "20261101T010000Z"
    for file in template.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    nights.night(suite)
    first_runs = [run for run in nights.history().runs if run.night == 1]
    assert [(run.arm, run.valid) for run in first_runs] == [
        ("baseline", True),
        ("replicated", True),
    ]


def test_a_clock_that_went_backwards_is_noticed_and_changes_no_order(nights: Nights) -> None:
    suite = nights.suite("mediawiki-noisy")
    for at in (T0, T0 - timedelta(days=2)):

        def now(at: datetime = at) -> datetime:
            return at

        nightly(suite, NOBODY, tools(nights.acts({}), now=now))
    history = nights.history()
    assert [night.clock_back_s for night in history.nights] == [0.0, 2 * 86400.0]
    assert [run.night for run in history.runs] == [1, 1, 2, 2]


def test_a_design_that_was_deleted_is_kept_as_gone_and_the_others_run(nights: Nights) -> None:
    write_nights(nights.folder / "nightly", [made_up_run(1, "given-up")], ["given-up"])
    outcome = nights.night(nights.suite("given-up", "memcached-noisy"))
    history = nights.history()
    assert set(history.nights[-1].gone) == {"given-up"}
    assert [run.entry for run in history.runs if run.night == 2] == ["memcached-noisy"] * 2
    assert (outcome.exit_code, outcome.left_out) == (4, ())
    assert set(outcome.incomplete) == {"given-up"}


def test_a_history_cut_short_and_one_of_a_later_version_hinder_no_night(nights: Nights) -> None:
    write_nights(nights.folder / "nightly", [made_up_run(1)])
    file = nights.folder / "nightly" / FILE
    later = json.dumps({"schema": 99, "what": "dream", "night": 7})
    file.write_text(f'{file.read_text()}{later}\n{{"schema": 1, "what": "ru')
    outcome = nights.night(nights.suite("mediawiki-noisy"))
    assert (outcome.night, outcome.exit_code) == (2, 0)
    assert [run.night for run in nights.history().runs] == [1, 1, 2, 2]
    assert later in file.read_text()
    assert "ru" in (nights.folder / "nightly" / ASIDE).read_text()


def test_a_design_that_is_longer_than_any_night_keeps_no_other_from_running(nights: Nights) -> None:
    suite = nights.suite("mediawiki-tad-c3", "memcached-noisy", budget_minutes=11)
    for night in (1, 2):
        outcome = nights.night(suite)
        assert (outcome.night, outcome.exit_code) == (night, 4)
        assert outcome.left_out == ("mediawiki-tad-c3",)
        assert {run.entry for run in outcome.runs} == {"memcached-noisy"}


def test_tables_of_requests_go_after_their_nights_and_the_rest_stays(
    nights: Nights, template: Path
) -> None:
    suite = nights.suite("mediawiki-noisy", keep_parquet_nights=2)
    run_lines = [made_up_run(night, folder=f"mediawiki-noisy/{night}") for night in (1, 2, 3)]
    for night in (1, 2, 3):
        folder = suite.results / "mediawiki-noisy" / str(night)
        folder.mkdir(parents=True)
        for file in template.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    write_nights(suite.folder, run_lines)
    prune(suite, nights.history())
    files = {
        night: {file.name for file in (suite.results / "mediawiki-noisy" / night).iterdir()}
        for night in "123"
    }
    all_files = {file.name for file in template.iterdir()}
    assert files["2"] == files["3"] == all_files
    assert files["1"] == {name for name in all_files if not name.endswith(".parquet")}
    assert {"result.json", "plan.json"} <= files["1"]


def test_a_night_ends_with_a_site_that_has_the_run_s_own_files(
    tmp_path: Path, template: Path
) -> None:
    nights = Nights(tmp_path, template)
    suite = nights.suite("mediawiki-noisy")
    outcome = nights.night(suite)
    assert outcome.site.is_file()
    run: Run = outcome.runs[0]
    assert (outcome.site.parent / "runs" / str(run.folder) / "result.json").is_file()


def test_the_command_line_makes_the_site_of_what_is_kept(tmp_path: Path) -> None:
    path = suite_file(tmp_path, "mediawiki-noisy")
    write_nights(tmp_path / "nightly", [made_up_run(1)])
    assert Path(answer("nightly", "--suite", str(path), "--site-only")["site"]).is_file()
    assert len(read_history(tmp_path / "nightly").nights) == 1
