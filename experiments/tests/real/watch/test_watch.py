"""`sparecraft watch` on a real InfluxDB: one look, a terminal, a page in a real browser."""

from __future__ import annotations

import http.client
import io
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from playwright.sync_api import Browser
from rich.console import Console

from core.errors import EnvironmentMissing, InputError
from core.terminal import out
from experiments.commands import watch as watching
from experiments.commands.on_platform import Chosen
from experiments.commands.watch import watch
from experiments.record.metrics.summary import summarize_run
from experiments.record.replayed import replayed
from experiments.record.telemetry import Point
from experiments.record.telemetry.bulk import deliver
from experiments.tests.called import COMMAND, answer, call, refusal
from experiments.tests.chromium import LIMIT_MS
from experiments.tests.chromium import browser as browser
from experiments.tests.influxdb import Influx
from experiments.tests.influxdb import influx as influx
from experiments.tests.report_fixture import fake_run
from experiments.tests.started import LIMIT_S, disposition, told
from experiments.watch.page import Page
from experiments.watch.panels import panels
from experiments.watch.snapshot import Watcher
from experiments.watch.terminal import render
from grafana.influx import Influx as Reader

# Words of the tables that are broken over two lines.
_BROKEN = """
[...document.querySelectorAll(".tables th, .tables td")].flatMap((cell) => [...cell.childNodes]
  .filter((node) => node.nodeType === Node.TEXT_NODE)
  .flatMap((node) => [...node.data.matchAll(/\\S+/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((one) => one.top)).size > 1;
  }).map((word) => word[0])))
"""
T0_MS = 1_795_000_200_000


@dataclass(frozen=True)
class Loaded:
    """A replayed run."""

    url: str
    folder: Path
    names: dict[str, str]


@pytest.fixture(scope="module")
def loaded(influx: Influx, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = fake_run(seed=6, measure_s=40.0).write(tmp_path_factory.mktemp("run") / "r")
    run = replayed(folder)
    deliver(influx.url, run.points())
    return Loaded(influx.url, folder, run.names)


@pytest.fixture
def reader(loaded: Loaded) -> Iterator[Reader]:
    with Reader(loaded.url, "sparecraft") as connection:
        yield connection


def test_a_look_at_a_finished_run_has_the_figures_of_its_result(
    loaded: Loaded, reader: Reader
) -> None:
    snapshot = Watcher(reader, None, loaded.names["run"]).take()
    assert (snapshot["experiment"], snapshot["live"]) == (loaded.names["experiment"], False)
    figures = summarize_run(loaded.folder).body["arms"]
    assert {arm["arm"] for arm in snapshot["arms"]} == set(figures)
    slo = replayed(loaded.folder).account.slo
    assert snapshot["slo"] == {"p95": slo["p95_ms"], "p99": slo["p99_ms"]}
    for arm in snapshot["arms"]:
        expected = figures[arm["arm"]]
        assert (arm["requests"], arm["failed"]) == (expected["requests"], expected["errors"])
        for name in ("mean", "p50", "p95"):
            assert arm[name] == pytest.approx(expected[f"{name}_ms"], rel=0.02)
        assert arm["usd_per_million"] > 0
        assert set(arm["burn"]) == {"p95", "p99", "errors"}
    assert sum(snapshot["failures"].values()) >= sum(arm["failed"] for arm in snapshot["arms"])
    assert list(snapshot["verdicts"]) == ["run", *(arm["arm"] for arm in snapshot["arms"])]


def _live_points() -> Iterator[Point]:
    """A minute of requests of which one in ten is late; a fault that goes on, an arm, a phase."""
    names = {"experiment": "live", "run": "r1"}
    tags = {**names, "arm": "a", "phase": "measure", "outcome": "ok"}
    for number in range(600):
        late = number % 10 == 0
        fields = {"latency_ms": 300.0 if late else 20.0, "repeat": 0, "burn_p95": 20.0 * late}
        yield Point("request", tags, fields, (T0_MS + number * 100) * 10**6)
    for what, kind, machine in (("arm", "a", "all"), ("phase", "measure", "all"),
                                ("fault", "net.limp", "web-1")):  # fmt: skip
        event = {"what": what, "kind": kind, "machine": machine}
        title = {"title": f"{kind} {machine}" if what == "fault" else kind, "text": kind}
        yield Point("event", {**names, **event}, title, T0_MS * 10**6)
    yield Point("slo", names, {"p95_ms": 100.0}, T0_MS * 10**6)


def test_a_look_at_a_live_run_says_what_goes_on_and_that_it_burns(
    loaded: Loaded, reader: Reader
) -> None:
    deliver(loaded.url, _live_points())
    snapshot = Watcher(reader, "live", None).take(T0_MS + 61_000)
    assert (snapshot["live"], snapshot["arm"], snapshot["phase"]) == (True, "a", "measure")
    assert [fault["title"] for fault in snapshot["faults"]] == ["net.limp web-1"]
    [arm] = snapshot["arms"]
    assert arm["burn"]["p95"]["1 min"] == pytest.approx(2.0, rel=0.05)
    assert arm["burn"]["p95"]["said"] == "burns"
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render(snapshot, console.width))
    text = console.export_text()
    assert "Active" in text
    assert "net.limp web-1 for 61 s" in text
    assert "burns" in text
    assert "p95 ≤ 100" in text
    later_snapshot = Watcher(reader, "live", None).take(T0_MS + 3_600_000)
    assert (later_snapshot["live"], later_snapshot["faults"], later_snapshot["arm"]) == (
        False,
        [],
        None,
    )
    console.print(render(later_snapshot, console.width))
    assert "Active" not in console.export_text(), "nothing is now"


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_terminal_shows_whole_names_and_figures(
    loaded: Loaded, reader: Reader, width: int
) -> None:
    snapshot = Watcher(reader, None, loaded.names["run"]).take()
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(render(snapshot, width))
    text = console.export_text()
    assert "…" not in text
    assert all(arm["arm"] in text for arm in snapshot["arms"])


def test_the_command_prints_one_look_for_people_and_for_programs(loaded: Loaded) -> None:
    arguments = ("watch", loaded.names["experiment"], "--influxdb", loaded.url)
    assert "Burn rate" in call(*arguments, "--once").output
    body = answer(*arguments)
    assert body["run"] == loaded.names["run"]
    panel_of = {panel["title"]: panel for panel in body["panels"]}
    assert {line["name"] for line in panel_of["p95 and p99 per arm"]["lines"]} >= {
        "SLO p95", "baseline p95", "replicated p99"
    }  # fmt: skip
    assert sum("Extra work of replicas" in title for title in panel_of) == 2


@contextmanager
def _page(reader: Reader, run: str) -> Iterator[Page]:
    watcher = Watcher(reader, None, run)

    def seen() -> dict[str, Any]:
        snapshot = watcher.take()
        return {**snapshot, "panels": panels(watcher, snapshot)}

    page = Page(0, seen, 2.0)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    try:
        yield page
    finally:
        page.shutdown()
        page.server_close()


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_every_panel_and_fits(
    browser: Browser, loaded: Loaded, reader: Reader, width: int, scheme: Any
) -> None:  # fmt: skip
    with _page(reader, loaded.names["run"]) as page:
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.set_default_timeout(LIMIT_MS)
        trouble: list[str] = []
        tab.on("console", lambda message: trouble.append(message.text))
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.on("request", lambda request: trouble.append(request.url)
               if not request.url.startswith(page.url) else None)  # fmt: skip
        tab.goto(page.url)
        tab.wait_for_selector("body[data-shown]")
        assert trouble == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        titles = tab.locator("figure h2").all_inner_texts()
        assert "Burn rate of the p99" in titles
        drawings = tab.locator("figure svg").count()
        assert drawings + tab.locator("figure .none").count() == len(titles)
        assert drawings >= len(titles) - 1
        assert "p95 ≤" in tab.locator("#latency thead").inner_text()
        assert tab.evaluate(_BROKEN) == []
        overflowing = (
            "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
        )
        assert tab.evaluate(f"{overflowing}.length") == 0
        tab.close()


def test_the_page_says_why_there_is_nothing_new_and_goes_on(
    browser: Browser, reader: Reader
) -> None:  # fmt: skip
    with _page(reader, "no-such-run") as page:
        tab = browser.new_page()
        tab.set_default_timeout(LIMIT_MS)
        tab.goto(page.url)
        tab.wait_for_selector("#trouble:not([hidden])")
        assert "no-such-run" in tab.inner_text("#trouble")
        tab.close()


def test_the_page_answers_only_its_own_address(loaded: Loaded, reader: Reader) -> None:
    with _page(reader, loaded.names["run"]) as page:
        for host, status in (("evil.example", 403), (f"127.0.0.1:{page.server_port}", 200)):
            connection = http.client.HTTPConnection("127.0.0.1", page.server_port)
            connection.request("GET", "/look.json", headers={"Host": host})
            assert connection.getresponse().status == status
            connection.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_of_the_command_ends_when_it_is_told_to_though_ctrl_c_was_ignored(
    loaded: Loaded, tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "out"
    arguments = ["watch", "--run", loaded.names["run"], "--influxdb", loaded.url, "--page"]
    with log.open("wb") as output, disposition(signal.SIGINT, signal.SIG_IGN):
        process = subprocess.Popen([*COMMAND, *arguments], stdout=output, stderr=output)
    try:
        url = told(process, log, r"(http\S+)  \(until")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    ("first", "show"),
    [
        ("print", lambda watcher: watching._serve(watcher, 0)),
        ("set_live", lambda watcher: watching._follow(watcher, once=False)),
    ],
)
def test_ctrl_c_while_the_first_is_shown_ends_it_as_later(
    loaded: Loaded,
    reader: Reader,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    show: Callable[[Watcher], None],
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    watcher = Watcher(reader, None, loaded.names["run"])
    monkeypatch.setattr(out, first, interrupted)
    show(watcher)


def test_the_terminal_ends_when_the_influxdb_that_was_there_is_gone(
    loaded: Loaded, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_REFRESH_S", 0.0)
    watcher = Watcher(reader, None, loaded.names["run"])
    answers = iter([watcher.take()])

    def take() -> Any:
        if (snapshot := next(answers, None)) is None:
            raise httpx.ConnectError("refused")
        return snapshot

    monkeypatch.setattr(watcher, "take", take)
    with out.capture() as output:
        watching._follow(watcher, once=False)
    assert "no longer answers" in output.get()


class _Entry:
    """A platform on which these fleets are up."""

    def __init__(self, *up: str) -> None:
        self._up = list(up)

    def experiments(self) -> list[str]:
        return self._up


@pytest.mark.parametrize(
    ("up", "named", "error"),
    [
        ((), None, EnvironmentMissing),
        (("wiki",), "shop", EnvironmentMissing),
        (("wiki", "shop"), None, InputError),
    ],
)
def test_without_a_fleet_or_with_several_it_says_what_to_do(
    up: tuple[str, ...], named: str | None, error: type[Exception]
) -> None:
    chosen = Chosen(cast(Any, _Entry(*up)), {})
    with pytest.raises(error) as caught:
        watch(chosen, named)
    assert "sparecraft" in str(caught.value)


def test_an_influxdb_that_does_not_answer_or_knows_no_such_run_is_said(loaded: Loaded) -> None:
    assert refusal("watch", "--influxdb", "http://127.0.0.1:9", "--once").exit_code == 3
    arguments = ("watch", "--influxdb", loaded.url, "--once")
    for options in (("--run", "no-such-run"), ("nosuch",), ("it's",)):
        error = refusal(*arguments, *options)
        assert (error.exit_code, options[-1] in error.got) == (2, True)
        assert "expected" not in error.got, "one sentence is not within another"
    assert loaded.names["experiment"] in refusal(*arguments, "nosuch").got
