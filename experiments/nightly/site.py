"""The static site: built beside the old one, and put in its place when it is complete."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

from experiments.nightly import pages, tables
from experiments.nightly.bench import bench_tables
from experiments.nightly.changes import changes
from experiments.nightly.feed import feed_values
from experiments.nightly.history import SCHEMA, History, read_history
from experiments.nightly.predictions_page import predictions_values
from experiments.nightly.suite import Suite
from experiments.paths import ROOT
from experiments.record.records import space_for, write_bytes, write_json
from experiments.report.shell import render_page

_HERE = Path(__file__).parent
_OF_RUN = ("report.html", "result.json", "plan.json")


def build_site(suite: Suite) -> Path:
    """Build the site from the present history, and return its index.html.

    A second process that builds it at the same time waits, and then uses the history of that time.

    Raises: DiskFull, with the old site as it was.
    """
    suite.folder.mkdir(parents=True, exist_ok=True)
    with space_for(suite.folder), (suite.folder / ".site.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it however its holder ends
        return _build(suite, read_history(suite.folder))


def _build(suite: Suite, history: History) -> Path:
    site, new, old = (suite.folder / name for name in ("site", ".site.new", ".site.old"))
    if old.is_dir() and not site.is_dir():  # ended between the two renames below
        old.rename(site)
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(new, ignore_errors=True)
    try:
        with space_for(new):
            _write(suite, history, new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if site.is_dir():
        site.rename(old)
    new.rename(site)
    shutil.rmtree(old, ignore_errors=True)
    return site / "index.html"


def _write(suite: Suite, history: History, into: Path) -> None:
    into.mkdir(parents=True)
    (into / "designs").mkdir()
    reports = _copy_reports(suite, history, into / "runs")
    site = pages.Site(suite, history, tuple(changes(history, suite.file.watch)), reports)
    _page(into / "index.html", "index.html.j2", "Nights", "", site, **pages.index_values(site))
    for entry in site.entries:
        values = pages.design_values(site, entry)
        path = into / "designs" / f"{entry}.html"
        _page(path, "design.html.j2", entry, "../", site, **values)
    _page(
        into / "changes.html", "changes.html.j2", "Changes", "", site,
        table=tables.change_table(site.changes), commits=pages.commits_between(site.changes),
    )  # fmt: skip
    _page(
        into / "bench.html", "bench.html.j2", "Bench", "", site,
        tables=bench_tables(ROOT / "bench" / "runs"),
    )  # fmt: skip
    _page(
        into / "predictions.html", "predictions.html.j2", "Predictions", "", site,
        **predictions_values(history, reports),
    )  # fmt: skip
    feed = render_page("feed.xml.j2", [_HERE], site=site, entries=feed_values(history),
                       url=suite.file.url.rstrip("/"))  # fmt: skip
    write_bytes(into / "feed.xml", feed.encode())
    write_json(into / "history.json", _history_json(history, site))


def _page(path: Path, template: str, name: str, root: str, site: pages.Site, **values: Any) -> None:
    night = site.tonight
    when = night.at.isoformat() if night else ""
    html = render_page(template, [_HERE], name=name, root=root, site=site, when=when, **values)
    write_bytes(path, html.encode())


def _copy_reports(suite: Suite, history: History, into: Path) -> frozenset[str]:
    """Copy pages and results of the newest nights' runs, by links where possible.

    Return the folders of the runs that have a page.
    """
    oldest = history.last_night - suite.file.keep_parquet_nights + 1
    copied = set()
    for folder in sorted(name for name, night in history.folders.items() if night >= oldest):
        for name in _OF_RUN:
            source, target = suite.results / folder / name, into / folder / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(source, target)
        if (into / folder / "report.html").is_file():
            copied.add(folder)
    return frozenset(copied)


def _link(source: Path, target: Path) -> None:
    with contextlib.suppress(OSError):  # another file system, or one without links
        os.link(source, target)
        return
    shutil.copyfile(source, target)


def _history_json(history: History, site: pages.Site) -> dict[str, object]:
    """Return the history and its changes as JSON, for programs."""
    lines = {
        name: [line.model_dump(mode="json", by_alias=True) for line in getattr(history, name)]
        for name in ("nights", "runs", "predictions", "ends")
    }
    change_rows = [
        {
            "identity": change.identity,
            "entry": change.entry,
            "arm": change.arm,
            "figure": change.metric,
            "direction": change.direction,
            "night": change.night,
            "before": change.before,
            "after": change.after,
            "factor": change.factor,
            "p": change.p,
            "commits": change.commits,
            "hosts": change.hosts,
            "reference_per_s": change.speeds,
        }
        for change in site.changes
    ]
    return {"schema": SCHEMA, **lines, "changes": change_rows, "notes": history.notes}
