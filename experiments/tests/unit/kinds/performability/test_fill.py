"""A tier that is filled before each block: what is asked, what is told of it, and when it voids."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import InputError, MeasurementFailed
from experiments import kinds
from experiments.design import Design, load_design
from experiments.design.design import DESIGNS
from experiments.design.schedule import Block
from experiments.design.workloads import population_of
from experiments.kinds.performability import fill, measure
from experiments.kinds.performability.analysis import not_as_warm
from experiments.kinds.performability.fill import Filler, ask, paths_of, shares_of
from experiments.kinds.performability.section import PerformabilitySection
from experiments.kinds.performability.tables import fills_table
from experiments.load.plan import plan_block

BLOCK = Block(repeat=3, pair=1, arm="ha", seed=7)
HEADER = "x-press-source"


class _Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        page = self.path == "/memory" or self.path.endswith(".html")
        self.send_response(200 if page else 404)
        self.send_header("Content-Length", "0")
        self.send_header(HEADER, "local" if self.path == "/memory" else "disk")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def design() -> Design:
    return load_design("press-hang")


def test_each_reply_is_told_in_its_place_and_what_failed_too(url: str) -> None:
    paths = ["/memory", "/1.html", "/nowhere"] * 20
    assert ask([url], paths, HEADER) == ["local", "disk", None] * 20
    assert shares_of(["local", "disk", None, "disk"]) == {"disk": 2 / 3, "local": 1 / 3}


def test_who_does_not_answer_fails_its_requests_alone(url: str) -> None:
    came = ask([url, "http://127.0.0.1:1/"], ["/memory"] * 4, HEADER)
    assert came == ["local", None, "local", None]


def test_a_fill_asks_what_the_block_is_likely_to_ask_and_not_the_blocks_own_choices(
    design: Design,
) -> None:
    workload = design.workloads["page-reader"]
    plan = plan_block({"web": ["http://127.0.0.1:1/"]}, design.experiment, BLOCK, workload)
    own = [plan.operations[place].request for place in plan.operation_of]
    population = population_of(workload)
    filled = paths_of(design.experiment, population, BLOCK, 4000)
    longer = paths_of(design.experiment, population, BLOCK, 5000)
    assert len(filled) == 4000
    assert longer[:4000] == filled
    assert filled != own[:4000]
    [(most, _)] = Counter(own).most_common(1)
    assert filled.count(most) > 10  # of 18,000 pages
    other = paths_of(design.experiment, population, replace(BLOCK, arm="perf"), 4000)
    assert other == filled  # arms of a pair are filled alike


def _filler(
    design: Design, url: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Filler, list[str], list[Any]]:
    done: list[str] = []
    kept: list[Any] = []
    monkeypatch.setattr(fill, "configure", lambda _, arm, __: done.append(f"configure {arm}"))
    monkeypatch.setattr(fill, "restart_tier", lambda *given: done.append(f"restart {given[2]}"))
    monkeypatch.setattr(fill, "entries_for", lambda *_: {"web": (url,)})
    testbed: Any = SimpleNamespace(
        design=design, fleet=SimpleNamespace(inventory=None), keep=kept.append
    )
    section = kinds.section_of(kinds.kind_of(design), design)
    assert section.fill is not None
    return Filler(testbed, section.fill.model_copy(update={"requests": 200})), done, kept


def test_a_tier_is_started_anew_with_the_arms_settings_before_it_is_filled(
    design: Design, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    filler, done, [write] = _filler(design, url, monkeypatch)
    assert write(tmp_path) is None
    filler.fill(BLOCK)
    assert done == ["configure ha", "restart web"]
    [told] = write(tmp_path)["fills"]
    assert (told["repeat"], told["arm"], told["requests"], told["failed"]) == (3, "ha", 200, 0)
    assert told["sources"] == {"disk": 1.0}


def test_a_tier_that_does_not_answer_is_not_measured(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler, _, _ = _filler(design, "http://127.0.0.1:1/", monkeypatch)
    with pytest.raises(MeasurementFailed):
        filler.fill(BLOCK)


def test_every_block_is_filled_before_it_is_loaded(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int]] = []

    class _Runner:
        def settle(self, _: Any) -> None:
            """Nothing."""

        def run(self, block: Block, *_: Any) -> None:
            done.append(("run", block.repeat))

    class _Filled:
        def __init__(self, *_: Any) -> None:
            """Nothing."""

        def fill(self, block: Block) -> None:
            done.append(("fill", block.repeat))

    monkeypatch.setattr(measure, "blocks_on", lambda _: _Runner())
    monkeypatch.setattr(measure, "Filler", _Filled)
    monkeypatch.setattr("time.sleep", lambda _: None)
    narrator = SimpleNamespace(step=nullcontext, detail=lambda _: None)
    section = kinds.section_of(kinds.kind_of(design), design)
    measure.measure(SimpleNamespace(design=design, narrator=narrator), section)  # type: ignore[arg-type]
    assert done == [(what, index) for index in range(9) for what in ("fill", "run")]


def _fills(disk: list[float]) -> list[dict[str, Any]]:
    return [
        {"repeat": index, "arm": "ab"[index % 2], "requests": 1000, "failed": 0, "took_s": 1.0,
         "sources": {"disk": share, "local": 1.0 - share}}
        for index, share in enumerate(disk)
    ]  # fmt: skip


def test_a_block_that_begins_otherwise_warm_is_a_reason_against_the_run() -> None:
    assert not_as_warm(_fills([0.14, 0.15, 0.14, 0.16])) == []
    told = not_as_warm(_fills([0.14, 0.15, 0.14, 0.31]))
    assert [one.split(",")[0] for one in told] == ["block 4", "block 4"]  # disk, local
    assert not_as_warm([]) == []


def test_the_table_has_the_least_and_most_of_each_source_by_arm() -> None:
    table = fills_table(_fills([0.14, 0.15, 0.16, 0.17]))
    assert table is not None
    assert table.head[3:] == ("from disk", "from local")
    assert [row[3].text for row in table.rows] == ["14.0 % to 16.0 %", "15.0 % to 17.0 %"]
    assert fills_table([]) is None


def test_the_hang_is_met_by_a_patience_longer_and_one_shorter(design: Design) -> None:
    (hang,) = design.experiment.faults
    assert hang.for_s is not None
    patience_ms: dict[str, Any] = {
        arm: design.experiment.arms[arm].of("web").role["FAIL_AFTER_MS"]
        for arm in ("patient", "ha")
    }
    assert patience_ms["ha"] < 1e3 * hang.for_s < patience_ms["patient"]


def test_every_design_of_press_fills_its_memories() -> None:
    for name in ("press-faults", "press-hang", "press-load", "press-mendosus", "press-shed"):
        design = load_design(name)
        section = kinds.section_of(kinds.kind_of(design), design)
        assert isinstance(section, PerformabilitySection)
        assert section.fill is not None, name


@pytest.mark.parametrize(
    ("name", "old", "new", "key"),
    [
        ("press-hang", 'tier = "web"\nrequests', 'tier = "nobody"\nrequests', "fill"),
        ("press-hang", "FAIL_AFTER_MS = 3000", "FAIL_AFTER_MS = 900", "FAIL_AFTER_MS"),
        ("press-hang", "FAIL_AFTER_MS = 3000", "WINDOW = 0", "WINDOW"),
        ("press-hang", "FAIL_AFTER_MS = 3000", "QUEUE = 0", "QUEUE"),
        ("press-hang", 'user = "page-reader"',
         'operations = [{ name = "a", path = "/" }]', "performability.fill"),
        ("redis-faults", "[performability]",
         '[performability.fill]\ntier = "store"\nrequests = 10\nheader = "x"\n\n[performability]',
         "fill"),
    ],
)  # fmt: skip
def test_a_fill_or_a_setting_that_cannot_be_is_refused(
    tmp_path: Path, name: str, old: str, new: str, key: str
) -> None:
    folder = tmp_path / name
    shutil.copytree(DESIGNS / name, folder)
    toml = folder / "experiment.toml"
    assert old in toml.read_text()
    toml.write_text(toml.read_text().replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        _read(folder)
    assert key in str(refused.value)


def _read(folder: Path) -> None:
    design = load_design(folder)
    kinds.section_of(kinds.kind_of(design), design)
