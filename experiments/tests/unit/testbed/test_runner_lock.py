"""A second run is refused at once wherever its results go, and the lock goes with its holder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing
from experiments.testbed.runs import Active, active, registered

_HOLD = """
import os, sys
from experiments.testbed.runs import Active, registered
with registered(Active(os.getpid(), "first", "design", "/srv/one", "", **eval(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""
SECOND = Active(os.getpid(), "second", "second", "/home/other/results", "")

pytestmark = pytest.mark.usefixtures("own_runs")


@contextmanager
def _first(**keys: bool) -> Iterator[subprocess.Popen[str]]:
    """A run of another process, until it is killed."""
    command = [sys.executable, "-c", _HOLD, repr(keys)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_a_second_run_is_refused_until_the_first_is_gone_with_its_file(own_runs: Path) -> None:
    with _first() as holder:
        with pytest.raises(EnvironmentMissing, match=rf"run of first \(process {holder.pid}\)"):
            registered(SECOND).__enter__()
        assert [run.pid for run in active()] == [holder.pid]
        holder.kill()
        holder.wait()
        assert active() == []
        assert list(own_runs.glob("*.json")) == []
        with registered(SECOND):
            assert active() == [SECOND]


def test_a_run_beside_a_night_that_did_not_begin_it_is_refused() -> None:
    with _first(is_night=True), pytest.raises(EnvironmentMissing, match="night of design"):
        registered(SECOND).__enter__()


def test_a_night_s_own_run_begins() -> None:
    night = Active(os.getppid(), "nightly", "nightly.toml", "/srv", "", is_night=True)
    with registered(night), registered(SECOND):
        assert len(active()) == 2


def test_a_run_whose_load_is_sent_elsewhere_hinders_none_but_its_like() -> None:
    with _first(elsewhere=True):
        for name in ("second", "first"):
            with registered(replace(SECOND, experiment=name)):
                pass
        with registered(replace(SECOND, elsewhere=True)):
            pass
        with pytest.raises(EnvironmentMissing):
            registered(Active(os.getpid(), "first", "", "", "", elsewhere=True)).__enter__()
