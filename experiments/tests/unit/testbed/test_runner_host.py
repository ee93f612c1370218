"""The host that runs are made on: its work, its speed, and what its kernel can inject."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.design.schedule import Block
from experiments.paths import ROOT
from experiments.testbed import host
from experiments.testbed.fleet import check_capabilities
from experiments.testbed.host import CpuTimes, HostWatch, core_speed, wait_until_quiet
from experiments.testbed.live_fleet import Fleet
from experiments.tests.fake_fleet import fake_fleet


def test_shares_are_of_all_cores_time_without_idle_wait_and_stolen(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1 1 1\n")
    before = CpuTimes.read(stat)
    stat.write_text("cpu  120 10 60 830 60 5 5 10 0 0\n")
    busy, stolen = before.shares_until(CpuTimes.read(stat))
    assert busy == pytest.approx(0.5)
    assert stolen == pytest.approx(0.1)


def test_a_block_has_the_work_of_its_time_and_a_speed_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([CpuTimes(1000, 500, 10), CpuTimes(2000, 1100, 110)])
    monkeypatch.setattr(host.CpuTimes, "read", lambda: next(times))
    monkeypatch.setattr(host, "Use", lambda _: SimpleNamespace(others_share=lambda: 0.2))
    now_s = iter([0.0, 0.5, 1.0, 1.0, 1.9, 2.5, 2.5])  # a tick that samples asks twice
    clock = SimpleNamespace(monotonic=lambda: next(now_s), thread_time=time.thread_time)
    monkeypatch.setattr(host, "time", clock)
    watch = HostWatch()
    for _ in range(4):
        watch.tick()
    block = watch.block(Block(3, 1, "replicated", 7))
    assert (block.repeat, block.arm, block.speed_samples) == (3, "replicated", 3)
    shares = (block.busy_share, block.stolen_share, block.others_share)
    assert shares == pytest.approx((0.3, 0.1, 0.2))


def test_a_block_waits_until_other_guests_leave_the_cores_alone_but_not_for_ever() -> None:
    stolen = [0, 60, 90, 91, 92, 93]  # of 600 ticks each: 10 %, 5 %, then none to speak of
    times = [CpuTimes(600 * number, 500 * number, ticks) for number, ticks in enumerate(stolen)]
    slept: list[float] = []

    def waited_s(limit_s: float) -> float:
        readings = iter(times)
        slept.clear()
        return wait_until_quiet(limit_s, read=lambda: next(readings), sleep=slept.append)

    assert waited_s(0.0) == 0.0
    assert not slept
    assert waited_s(60.0) == 6.0
    assert sum(slept) == 6.0
    assert waited_s(2.0) == 2.0


def _cpu_times(busy_s: float, total_s: float) -> CpuTimes:
    hz = os.sysconf("SC_CLK_TCK")
    return CpuTimes(int(total_s * hz), int((total_s - busy_s) * hz), 0)


def test_other_work_is_what_neither_the_fleet_nor_this_process_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host_times = iter([_cpu_times(100.0, 1000.0), _cpu_times(112.0, 1020.0)])
    own_s = iter([5.0, 6.0])
    # web-2 was started again in between, db-1 came
    fleet = iter([{"web-1": 30.0, "web-2": 50.0}, {"web-1": 33.0, "web-2": 0.5, "db-1": 1.5}])
    monkeypatch.setattr(host.CpuTimes, "read", lambda: next(host_times))
    monkeypatch.setattr(host, "own_cpu_s", lambda: next(own_s))
    use = host.Use(lambda: next(fleet))
    assert use.others_share() == pytest.approx((12.0 - 1.0 - 3.0 - 0.5 - 1.5) / 20.0)


def test_other_work_is_unknown_where_the_fleet_is_not_on_this_host() -> None:
    assert host.Use(dict).others_share() is None


def test_the_work_of_this_process_and_its_children_is_its_own() -> None:
    before_s = host.own_cpu_s()
    spin = "import time\nwhile time.process_time() < 0.3: pass\ninput()"
    with subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE) as child:
        while host.own_cpu_s() - before_s < 0.3:  # alive; the test's limit ends it
            time.sleep(0.01)
        alive_s = host.own_cpu_s()
        child.communicate(b"\n")
    assert host.own_cpu_s() >= alive_s, "an ended child's work stays"


def test_a_block_waits_for_other_work_on_this_host_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.6, None, 0.1])
    monkeypatch.setattr(host, "Use", lambda _: SimpleNamespace(others_share=lambda: next(shares)))
    still = CpuTimes(0, 0, 0)
    assert wait_until_quiet(60.0, read=lambda: still, sleep=lambda _: None) == 6.0
    assert wait_until_quiet(60.0, read=lambda: still, sleep=lambda _: None) == 3.0


def test_core_speed_counts_cpu_time_and_not_waiting() -> None:
    assert 1.0 < core_speed() < 1000.0


SMALL = ROOT / "experiments" / "tests" / "designs" / "small"
REASON = "this kernel has no tbf"


class Offers:
    """Answers `GET /v1/capabilities` as an agent does."""

    def __init__(self, available: bool) -> None:
        self._available = available

    def capabilities(self) -> dict[str, dict[str, Any]]:
        entry = {"available": True} if self._available else {"available": False, "reason": REASON}
        return {"net.limp": entry}


def _design() -> Design:
    design = load_design(SMALL)
    quiet = design.experiment.interference.model_copy(update={"pattern": "none"})
    return replace(design, experiment=design.experiment.model_copy(update={"interference": quiet}))


def _fleet(available: bool) -> Fleet:
    return fake_fleet({"db-1": Offers(available)})


def test_only_what_the_kernel_cannot_inject_is_refused_with_machine_and_reason() -> None:
    check_capabilities(_design(), _fleet(available=True))
    with pytest.raises(InputError) as caught:
        check_capabilities(_design(), _fleet(available=False))
    assert f"net.limp: {REASON} (on db-1)" in str(caught.value)
    assert caught.value.exit_code == 2
