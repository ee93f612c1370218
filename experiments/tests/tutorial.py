"""The steps of docs/your-own-service.md, done in an empty folder: its files, then its commands."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.tests.called import command_in

PAGE = ROOT / "docs" / "your-own-service.md"
EXPERIMENT = "my-finder"
# A fenced block; a line with a path in backquotes before it says which file it is.
BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = f"sparecraft run {EXPERIMENT}"
LOCUST_EXPERIMENT = "my-flags"
LOCUST_RUN = f"sparecraft run {LOCUST_EXPERIMENT}"
GREETER = "my-greeter"  # the experiment of the Compose file
RUN_ENDPOINT = "sparecraft run my-endpoint --target http://localhost:8000"
RUN_GREETER = f"sparecraft run {GREETER}"


class Reader:
    """Someone in a folder, with the page and `sparecraft` on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        command_in(programs)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
        self.commands = 0

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def do(self, command: str) -> tuple[int, str]:
        process = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.commands += 1
        return process.returncode, process.stdout + process.stderr


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A reader who has done all that the page says before the run."""
    new_reader = Reader(tmp_path_factory.mktemp("tutorial"))
    for file, kind, text in BLOCK.findall(PAGE.read_text()):
        if file:
            new_reader.write(file, text)
            continue
        assert kind == "sh", f"a block of {kind} without a file's name before it: {text}"
        for command in text.splitlines():
            if not command.startswith("sparecraft run"):
                code, output = new_reader.do(command)
                assert code == 0, f"{command}: {output}"
    return new_reader
