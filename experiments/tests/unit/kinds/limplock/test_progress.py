"""Progress and jobs an hour, of what a client told: lines, windows, and the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.kinds.limplock.page import progress
from experiments.kinds.limplock.page.progress import (
    Mark,
    course_of,
    mark_of,
    panels_of,
    progress_figures,
    read_log,
)
from experiments.kinds.limplock.windows import Window, read_windows, write_windows
from experiments.tests.called import call
from experiments.tests.limplock_fixture import Made, Truth, nobody_limps

T0_S = 1700.0
JOBS = 6
ONE_JOB = Truth("H1", "mapper", {"100": 4.0}, nobody_limps, timeout_factor=3.5)
JOB_AFTER_JOB = Truth("H4", "task-node", {"100": 3.0}, nobody_limps)


def window(
    scenario: str, start_s: float, end_s: float, *, repeat: int = 0, arm: str = "new"
) -> Window:
    return Window(arm, "H1", "mapper", scenario, repeat, "jobs-3", "jobs-1", {"jobs-3": "mapper"},
                  start_s, end_s, end_s - start_s, False, {}, False, 0)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        (
            "progress 1710552660040 job_1 maps=1.0 reduce-0=0.33632413\n",
            Mark(1710.55266004, "job_1", {"maps": 1.0, "reduce-0": 0.33632413}),
        ),
        ("progress 1000000000 job_1 maps=1.0E-4\n", Mark(1.0, "job_1", {"maps": 1e-4})),
        ("job-over 2000000000 job_1 succeeded\n", Mark(2.0, "job_1", {}, over=True)),
        ("job-over 2000000000 job_1 failed\n", Mark(2.0, "job_1", {}, over=False)),
    ],
)
def test_a_line_says_how_far_a_job_is_or_that_it_is_over(line: str, mark: Mark) -> None:
    assert mark_of(line) == mark


DAMAGED = [
    "progress 1710552660040 job_1 maps=1.0 reduce-0=0.",  # the end is lost
    "progress 1710552660040 job_1\n",
    "progress 1710552660040 job_1 0.5 0.25\n",
    "progress soon job_1 maps=1.0\n",
    "progress 17105526600401710552660040 job_1 maps=1.0\n",
    "progress 1710552660040 job_1 maps=nan\n",
    "progress 1710552660040 job_1 maps=17.0\n",
    "progress 1710552660040 job_1 maps=-1\n",
    "progress 1710552660040 job_1 maps=1.0 red26/11/28 03:26:41 INFO mapred.LocalJobRunner\n",
    "job-over 1710552660040 job_1 perhaps\n",
    "job-over 1710552660040 job_1 succ",
]


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_line_says_nothing(line: str) -> None:
    assert mark_of(line) is None


def test_what_a_library_logs_beside_is_no_damage(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = ["26/11/28 03:26:41 INFO mapred.LocalJobRunner: progress 5 job_1 maps=1.0\n",
             "progress 1701000000000 job_1 maps=0.5\n", "progress 1702000000000 job_1 maps=\n",
             "progressing\n", "\xff\x00\n", "job-over 1703500000000 job_1 succeeded\n",
             "progress 1704"]  # fmt: skip
    log.write_text("".join(lines), encoding="latin-1")
    progress_log = read_log(log, T0_S)
    assert [(mark.time_s, mark.over) for mark in progress_log.marks] == [(1.0, None), (3.5, True)]
    assert (progress_log.damaged, progress_log.is_complete) == (2, True)
    assert read_log(tmp_path / "none", T0_S).marks == ()


def test_a_log_without_end_is_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "progress 1701000000000 job_1 maps=0.5\n"
    (tmp_path / "log").write_text("x" * 200 + "\n" + 100 * line)
    monkeypatch.setattr(progress, "_LINE_BYTES_MAX", 64)
    monkeypatch.setattr(progress, "_BYTES_MAX", 200 + 1 + 10 * len(line))
    progress_log = read_log(tmp_path / "log", T0_S)
    assert (len(progress_log.marks), progress_log.damaged, progress_log.is_complete) == (
        10,
        0,
        False,
    )


def test_a_window_has_what_was_told_in_it_from_its_begin() -> None:
    marks = [Mark(time_s, "job_1", {"maps": time_s / 10}) for time_s in (0.9, 1.0, 2.5, 4.0, 4.1)]
    course = course_of(window("base", 1.0, 4.0), marks)
    assert [mark.time_s for mark in course.marks] == [0.0, 1.5, 3.0]
    assert course.lines() == {("job_1", "maps"): [(0.0, 0.1), (1.5, 0.25), (3.0, 0.4)]}


def test_all_parts_of_a_job_that_succeeded_are_done_and_none_of_one_that_failed() -> None:
    marks = [Mark(1.0, "a", {"maps": 0.5}), Mark(1.5, "b", {"maps": 0.5}),
             Mark(2.0, "a", {"maps": 1.0, "reduce-0": 0.3}), Mark(3.0, "a", {}, over=True),
             Mark(3.5, "b", {}, over=False)]  # fmt: skip
    course = course_of(window("base", 0.0, 4.0), marks)
    assert course.lines() == {("a", "maps"): [(1.0, 0.5), (2.0, 1.0), (3.0, 1.0)],
                              ("a", "reduce-0"): [(2.0, 0.3), (3.0, 1.0)],
                              ("b", "maps"): [(1.5, 0.5)]}  # fmt: skip
    assert course.over_s == (3.0,)
    assert course.per_hour == 900.0


def test_each_arm_and_scenario_has_its_repeats_with_their_later_bases() -> None:
    marks = tuple(Mark(time_s + 0.5, "a", {"maps": 0.5}) for time_s in range(200))
    windows = [
        window("base", 0.0, 4.0),  # begun again
        window("base", 10.0, 14.0),
        window("100", 20.0, 30.0),
        window("base", 40.0, 44.0, repeat=1),
        window("100", 50.0, 80.0, repeat=1),
        window("base", 90.0, 94.0, repeat=2),
        window("100", 100.0, 120.0, repeat=2),
        window("base", 130.0, 134.0, arm="old"),
        window("100", 140.0, 150.0, arm="old"),
    ]
    [panel] = panels_of(windows, {"new": progress.ReadMarks(marks), "old": progress.ReadMarks()})
    assert (panel.arm, panel.scenario) == ("new", "100")
    starts_s = [(base.window.start_s, faulty.window.start_s) for base, faulty in panel.repeats]
    assert starts_s == [(10.0, 20.0), (40.0, 50.0), (90.0, 100.0)]
    assert panel.middle[1].window.start_s == 100.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two rows on two releases, of which each has its client's log."""
    run = Made(tmp_path_factory.mktemp("runs") / "limplock-hadoop" / "20261124T000000Z", ONE_JOB,
               JOB_AFTER_JOB, arms=("new", "old"))  # fmt: skip
    inputs, windows = read_windows(run.folder)
    write_windows(run.folder, replace(inputs, monotonic_s=T0_S), windows)
    for arm in ("new", "old"):
        arm_windows = [row_window for row_window in windows if row_window.arm == arm]
        lines = [
            line
            for row_window in arm_windows
            for line in (one_job if row_window.row == "H1" else job_after_job)(row_window)
        ]
        text = "".join(lines) + ("progress 17" if arm == "old" else "")
        (run.folder / f"client-{arm}-hadoop.log").write_text(text)
    run.result()
    return run.folder


def at(window: Window, share: float) -> int:
    """The time at this share of the operation, on the client's clock [ns]."""
    return round(1e9 * (T0_S + window.start_s + share * window.took_s))


def one_job(window: Window) -> list[str]:
    """A log in which reduce-0 fetches slowly, sorts at once and writes slowly, or is cut short."""
    job, share_max = f"job_{round(window.start_s)}", 0.72 if window.cut else 1.0
    lines = []
    for k in range(40):
        share = share_max * k / 40
        maps, score = min(1.0, 5 * share), share * 0.33 / 0.7 if share < 0.7 else 0.66 + share / 3
        lines.append(f"progress {at(window, k / 40)} {job} maps={maps} reduce-0={score}"
                     f" reduce-1={min(1.0, 1.4 * share)}\n")  # fmt: skip
    return lines if window.cut else [*lines, f"job-over {at(window, 0.999)} {job} succeeded\n"]


def job_after_job(window: Window) -> list[str]:
    lines = []
    for k in range(JOBS):
        job, over = f"job_{round(window.start_s)}_{k}", (k + 1) / (JOBS + 0.1)
        lines.append(f"progress {at(window, k / JOBS)} {job} maps=0.5 reduce-0=0.0\n")
        lines.append(f"job-over {at(window, over)} {job} succeeded\n")
    return lines


def test_a_row_of_one_job_shows_its_progress_and_one_of_several_their_rate(folder: Path) -> None:
    inputs, windows = read_windows(folder)
    job_figure, jobs_figure = progress_figures(folder, inputs, windows)
    assert (job_figure.identity, jobs_figure.identity) == (
        "progress-h1-mapper",
        "jobs-h4-task-node",
    )
    assert [key.text for key in job_figure.legend] == ["maps", "reduce-0", "reduce-1"]
    assert [key.text for key in jobs_figure.legend] == ["new", "old"]
    assert "left out: 1." in job_figure.caption
    rates = re.findall(r"([\d,]+) jobs per hour, base ([\d,]+)", jobs_figure.drawings["wide"])
    assert len(rates) == 2
    for faulty, base in rates:
        factor = int(base.replace(",", "")) / int(faulty.replace(",", ""))
        assert factor == pytest.approx(3.0, rel=0.05)


def test_a_job_that_failed_and_was_asked_again_is_no_job_more(tmp_path: Path) -> None:
    run = Made(tmp_path, ONE_JOB)
    inputs, windows = read_windows(run.folder)
    lines = [
        line
        for row_window in windows
        for line in (f"progress {at(row_window, 0.1)} job_failed maps=0.5\n",
                     f"job-over {at(row_window, 0.2)} job_failed failed\n", *one_job(row_window))
    ]  # fmt: skip
    (run.folder / "client-new-hadoop.log").write_text("".join(lines))
    [figure] = progress_figures(run.folder, replace(inputs, monotonic_s=T0_S), windows)
    assert figure.identity == "progress-h1-mapper"


def test_a_run_that_kept_no_second_0_has_no_such_figure(folder: Path) -> None:
    inputs, windows = read_windows(folder)
    assert progress_figures(folder, replace(inputs, monotonic_s=None), windows) == []


def test_where_all_lines_are_damaged_the_page_says_so(folder: Path, tmp_path: Path) -> None:
    inputs, windows = read_windows(folder)
    (tmp_path / "client-new-hadoop.log").write_text("".join(DAMAGED[1:9]))
    for figure in progress_figures(tmp_path, inputs, windows):
        assert figure.note
        assert "left out: 8." in figure.caption
    (tmp_path / "client-new-hadoop.log").write_text("nothing of the kind\n")
    assert progress_figures(tmp_path, inputs, windows) == []


def test_the_page_has_both_figures(folder: Path) -> None:
    process = call("report", str(folder))
    assert process.exit_code == 0, process.output
    page = (folder / "report.html").read_text()
    for identity in ("progress-h1-mapper", "jobs-h4-task-node"):
        assert f'id="{identity}"' in page
