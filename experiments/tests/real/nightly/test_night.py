"""Nights and their history on disks that are too small or full."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import DiskFull
from experiments.nightly.history import FILE, Writer, read_history
from experiments.nightly.site import build_site
from experiments.nightly.suite import load_suite
from experiments.tests.disks import fill
from experiments.tests.nightly_fixture import made_up_run, suite_file, write_nights
from experiments.tests.nights import Nights

pytestmark = pytest.mark.usefixtures("own_runs")


def test_a_night_whose_site_does_not_fit_on_the_disk_is_kept_whole(
    small_disk: Path, tmp_path: Path, template: Path
) -> None:
    nights = Nights(tmp_path, template)
    suite = nights.suite("mediawiki-noisy", folder=str(small_disk))
    (small_disk / "else").write_bytes(b"x" * 192 * 1024)  # a site needs more than the rest
    with pytest.raises(DiskFull) as raised:
        nights.night(suite)
    assert raised.value.exit_code == 3
    history = read_history(small_disk)
    assert [(run.night, run.valid) for run in history.runs] == [(1, True)] * 2
    assert [end.night for end in history.ends] == [1]
    assert not (small_disk / "site").exists()
    roomy = nights.suite("mediawiki-noisy", folder=str(tmp_path / "roomy"))
    roomy.folder.mkdir()
    (roomy.folder / FILE).write_bytes((small_disk / FILE).read_bytes())
    assert build_site(roomy).is_file()


def test_a_full_disk_leaves_the_old_site_and_loses_no_line(
    small_disk: Path, tmp_path: Path
) -> None:
    suite = load_suite(suite_file(tmp_path, "mediawiki-noisy", folder=str(small_disk)))
    site = small_disk / "site"
    site.mkdir()
    (site / "index.html").write_text("the old one")
    write_nights(small_disk, [made_up_run(1)])
    history = read_history(small_disk)
    fill(small_disk)
    with pytest.raises(DiskFull):
        build_site(suite)
    assert (site / "index.html").read_text() == "the old one"
    assert not (small_disk / ".site.new").exists()
    assert read_history(small_disk) == history


def test_a_full_disk_leaves_only_whole_lines(small_disk: Path) -> None:
    writer = Writer(small_disk)
    writer.append(*made_up_run(1))
    filler = fill(small_disk)
    runs = [run for night in range(2, 40) for run in made_up_run(night)]
    with pytest.raises(DiskFull):
        writer.append(*runs)
    assert (small_disk / FILE).read_bytes().endswith(b"\n")
    filler.unlink()
    writer.append(*made_up_run(2))
    history = read_history(small_disk)
    assert [run.night for run in history.runs] == [1, 1, 2, 2]
    assert history.notes == ()
