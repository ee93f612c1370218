"""Nights of a suite in a folder, whose runs a stand-in for `sparecraft` makes up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.errors import SparecraftError
from experiments.nightly import night as night_module
from experiments.nightly.history import History, read_history
from experiments.nightly.night import Outcome, Tools, nightly
from experiments.nightly.suite import Suite, load_suite
from experiments.testbed import runs
from experiments.tests.nightly_fixture import calls, stand_in, suite_file, template_run
from experiments.tests.quiet import NOBODY
from experiments.tests.started import LIMIT_S, until

# Importing a night's modules takes seconds of CPU: one process does it for all that are forked.
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload([__name__])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template_run(tmp_path_factory.mktemp("template") / "run")


@pytest.fixture
def no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds: only tests of the site do it."""
    monkeypatch.setattr(night_module, "build_site", _no_site)


def tools(sparecraft: Sequence[str], **clocks: Any) -> Tools:
    """Return the tools of a night; the host's speed is always the same."""
    return Tools(sparecraft=sparecraft, reference_per_s=lambda: 14.0, **clocks)


class Nights:
    """A suite in a folder, and its nights."""

    def __init__(self, folder: Path, template: Path) -> None:
        self.folder = folder
        self._template = template

    def suite(self, *designs: str, **keys: float | str) -> Suite:
        return load_suite(suite_file(self.folder, *designs, **keys))

    def acts(self, acts: Mapping[str, Sequence[str]]) -> list[str]:
        program = self.folder / "program"
        if program.exists():
            for file in program.iterdir():
                if file.name != "calls.jsonl":
                    file.unlink()
        return stand_in(program, self._template, acts)

    def night(self, suite: Suite, acts: Mapping[str, Sequence[str]] | None = None) -> Outcome:
        return nightly(suite, NOBODY, tools(self.acts(acts or {})))

    def history(self) -> History:
        return read_history(self.folder / "nightly")

    def calls(self, word: str) -> list[list[str]]:
        return [call for call in calls(self.folder / "program") if call[0] == word]

    @contextmanager
    def by_itself(
        self, acts: Mapping[str, Sequence[str]], *, site: bool = False
    ) -> Iterator[NightProcess]:
        """A night as a process of its own, once its run hangs; it draws no site, unless asked."""
        program = self.acts(acts)[0]
        hangs = self.folder / "program" / "hangs"
        night = NightProcess(self.folder, program, site)
        try:
            until("run that hangs", lambda: night.is_alive() and _is_written(hangs))
            yield night
        finally:
            night.kill()
            if hangs.exists():
                kill(int(hangs.read_text()))


class NightProcess:
    """A night that goes on in a process of its own."""

    def __init__(self, folder: Path, program: str, site: bool) -> None:
        self._said = folder / "said"
        args = (folder / "nightly.toml", program, self._said, runs.FOLDER, dict(os.environ), site)
        self._process = _FORKED.Process(target=_whole_night, args=args)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def is_alive(self) -> bool:
        """True while the night goes on; if it has ended, fail with its output."""
        assert self._process.is_alive(), self._said.read_text()
        return True

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()
        self._process.join(LIMIT_S)

    def ended(self) -> tuple[int | None, str]:
        """Wait for the end; return exit code and output."""
        self._process.join(LIMIT_S)
        return self._process.exitcode, self._said.read_text()


def _whole_night(
    suite: Path, program: str, log_path: Path, active: Path, environment: dict[str, str], site: bool
) -> None:
    with log_path.open("w") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
    os.environ.clear()
    os.environ.update(environment)
    patch = pytest.MonkeyPatch()  # not undone: the process ends with its night
    patch.setattr(runs, "FOLDER", active)
    if not site:
        patch.setattr(night_module, "build_site", _no_site)
    try:
        outcome = nightly(load_suite(suite), NOBODY, tools([program]))
    except SparecraftError as error:
        print(error)
        sys.exit(error.exit_code)
    sys.exit(outcome.exit_code)


def _no_site(suite: Suite) -> Path:
    return suite.folder / "site"


def _is_written(file: Path) -> bool:
    return file.exists() and bool(file.read_text())


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def nights(tmp_path: Path, template: Path, no_site: None, own_runs: Path) -> Nights:
    del no_site, own_runs
    return Nights(tmp_path, template)
