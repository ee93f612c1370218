"""Nights of a suite in a folder, whose runs a stand-in for `sparecraft` makes up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.nightly import night as night_module
from experiments.nightly.history import History, read_history
from experiments.nightly.night import Outcome, Tools, nightly
from experiments.nightly.suite import Suite, load_suite
from experiments.tests.nightly_fixture import calls, stand_in, suite_file, template_run
from experiments.tests.quiet import NOBODY
from experiments.tests.started import until

_BY_ITSELF = """
import sys
from pathlib import Path
from core.errors import SparecraftError
from experiments.nightly.night import Tools, nightly
from experiments.nightly.suite import load_suite
from experiments.tests.quiet import NOBODY
try:
    tools = Tools(sparecraft=(sys.argv[2],), reference_per_s=lambda: 14.0)
    outcome = nightly(load_suite(Path(sys.argv[1])), NOBODY, tools)
except SparecraftError as error:
    print(error)
    sys.exit(error.exit_code)
sys.exit(outcome.exit_code)
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template_run(tmp_path_factory.mktemp("template") / "run")


@pytest.fixture
def no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds: only tests of the site do it."""
    monkeypatch.setattr(night_module, "build_site", lambda suite: suite.folder / "site")


def tools(sparecraft: Sequence[str], **clocks: Any) -> Tools:
    """A night's, whose host is always as fast."""
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
    def by_itself(self, acts: Mapping[str, Sequence[str]]) -> Iterator[subprocess.Popen[str]]:
        """A night as a process of its own, once its run hangs."""
        program = self.acts(acts)[0]
        suite = str(self.folder / "nightly.toml")
        command = [sys.executable, "-c", _BY_ITSELF, suite, program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            hangs = self.folder / "program" / "hangs"
            try:
                until("run that hangs", lambda: _is_written(hangs, process))
                yield process
            finally:
                process.kill()
                if hangs.exists():
                    kill(int(hangs.read_text()))


def _is_written(file: Path, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None
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
