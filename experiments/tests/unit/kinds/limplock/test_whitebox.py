"""Metrics of machines: all of them are kept, and a look that fails ends nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest

from experiments.kinds.limplock.clients.system import Node, PageMetric
from experiments.kinds.limplock.measure import whitebox
from experiments.kinds.limplock.measure.whitebox import Whitebox
from experiments.record.recorder import Recorder
from experiments.tests.limplock_small import A_LEADS, Small, Three

LOOKS = 4
LIMIT_S = 60.0


class Looked(Three):
    """Its machines say three numbers; of the first `errors` looks each raises one of these."""

    shown = (PageMetric("queued", "what waits"), PageMetric("heap_mb", "heap", limit="heap_max_mb"))

    def __init__(self, *errors: Exception) -> None:
        super().__init__([A_LEADS])
        self._errors = {name: list(errors) for name in self.nodes}
        self._left = dict.fromkeys(self.nodes, LOOKS)
        self.enough = threading.Event()

    def look(self, node: str) -> Mapping[str, float]:
        if self._errors[node]:
            raise self._errors[node].pop(0)
        self._left[node] -= 1
        if max(self._left.values()) < 0:
            self.enough.set()  # of each machine LOOKS were kept
        return {"queued": 7, "gc_s": 0.25, "heap_max_mb": 64.0}


class Below(Three):
    """A system that the one under test calls."""

    def __init__(self) -> None:
        super().__init__([A_LEADS])
        self.nodes = {"d": Node("d", "198.18.0.9", "198.19.0.9")}

    def look(self, node: str) -> Mapping[str, float]:
        del node
        return {"queued": 1.0, "transfers": 2.0}


def watched(system: Looked, *called: Three) -> Whitebox:
    recorder: Any = Small().recorder
    watch = Whitebox([system, *called], cast(Recorder, recorder))
    with watch:
        assert system.enough.wait(LIMIT_S)
    return watch


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whitebox, "_EVERY_S", 0.01)


def test_all_that_a_machine_says_is_kept_also_what_no_page_shows() -> None:
    watch = watched(Looked(), Below())
    metrics = {(machine, metric) for _, machine, metric, _ in watch.table().iter_rows()}
    assert metrics == {
        (machine, metric) for machine in "abc" for metric in ("queued", "gc_s", "heap_max_mb")
    } | {("d", "queued"), ("d", "transfers")}
    assert watch.failures() == []
    assert watch.last_answer("a") is not None


def test_beyond_the_bound_only_what_the_page_shows_is_kept_and_what_says_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whitebox, "ROWS_MAX", 9)
    table = watched(Looked()).table()
    assert table.filter(metric="gc_s").height == 3
    for metric in ("queued", "heap_max_mb"):
        assert table.filter(metric=metric).height >= 3 * LOOKS


def test_a_look_that_fails_is_no_answer_and_counted_and_the_next_one_is_tried() -> None:
    watch = watched(Looked(KeyError("zk_x"), ValueError("no number")))
    assert {watch.last_answer(name) is not None for name in "abc"} == {True}
    failures = sorted(watch.failures())
    assert [text.split(":")[0] for text in failures] == ["a", "b", "c"]
    assert all("2 looks" in text and "no number" in text for text in failures)
    assert set(watch.table()["machine"]) == {"a", "b", "c"}
