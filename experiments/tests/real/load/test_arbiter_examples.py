"""The examples of agents/arbiter/README.md and docs/arbiter.md, run as written.

A line that begins with `$ ` is a command; the lines after it are its output, in which `...` stands
for any text. Each block runs in its own shell and folder, with free ports.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.tests.arbiters import ARBITER, EXAMPLES
from experiments.tests.started import free_port

PAGES = ("agents/arbiter/README.md", "docs/arbiter.md")
PORTS = re.compile(r"\b(8080|8081|8082|9300|6379|6380|6381)\b")
_BETWEEN = "\x1e\n"
# Precedes a block's commands. `ready` waits until the last program in the background listens at
# that number of places, or until an arbiter prints its admin address.
_PRELUDE = r"""
listens() {
  for fd in /proc/$!/fd/*; do
    inode=$(readlink "$fd" | tr -dc 0-9)
    awk -v inode="${inode:-none}" '$4 == "0A" && $10 == inode' /proc/net/tcp
    awk -v inode="${inode:-none}" '$4 == "00010000" && $7 == inode' /proc/net/unix
  done | wc -l
}
ready() { # places, log
  for _ in $(seq 1000); do
    if grep -q 'admin on' "$2" || [ "$(listens)" -ge "$1" ]; then return; fi
    sleep 0.05
  done
  exit 1
}
trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT
exec 2>&1
"""


@dataclass(frozen=True)
class Block:
    """The commands of an example, each with the lines that it prints."""

    title: str
    steps: tuple[tuple[str, tuple[str, ...]], ...]


def blocks() -> Iterator[Block]:
    """The fenced blocks without a language of the two pages, by the heading before them."""
    text = "".join((ROOT / page).read_text() for page in PAGES)
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        if fence[1]:
            continue
        titles = re.findall(r"^#+ (.+)$", text[: fence.start()], flags=re.MULTILINE)
        steps = re.split(r"^\$ ", fence[2], flags=re.MULTILINE)[1:]
        lines = [step.splitlines() for step in steps]
        commands = tuple((step_lines[0], tuple(step_lines[1:])) for step_lines in lines)
        yield Block(titles[-1], commands)


ALL = list(blocks())


class Place:
    """A folder with the examples' files, whose ports and paths are free on this host."""

    def __init__(self, folder: Path) -> None:
        documented_ports = PORTS.pattern.strip(r"\b()").split("|")
        self._ports = {port: str(free_port()) for port in documented_ports}
        self.folder = folder
        (folder / "arbiter").mkdir()
        shutil.copytree(EXAMPLES, folder / "arbiter" / "examples")
        for path in (folder / "arbiter" / "examples").glob("*.toml"):
            path.write_text(self.here(path.read_text()))
        (folder / "bin").mkdir()
        (folder / "bin" / "arbiter").symlink_to(ARBITER)

    def here(self, text: str) -> str:
        """The text with this folder's ports and paths."""
        text = text.replace("/tmp/", f"{self.folder}/")
        return PORTS.sub(lambda port: self._ports[port[1]], text)

    def script(self, block: Block) -> str:
        lines = [_PRELUDE]
        for number, (command, _) in enumerate(block.steps):
            command = self.here(command)
            if command.endswith("&"):
                # Output of a command in the background is read at the end.
                log, places = f"said.{number}", _places(command)
                command = f"exec {command.removesuffix('&')} > {log} 2>&1 & ready {places} {log}"
            lines += [f"printf '{_BETWEEN[:-1]}\\n'", command]
        return "\n".join(lines) + "\n"

    def run(self, block: Block) -> list[str]:
        """The output of each command."""
        environment = os.environ | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        process = subprocess.run(
            ["bash", "-c", self.script(block)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        outputs = process.stdout.split(_BETWEEN)[1:]
        assert len(outputs) == len(block.steps), process.stdout
        for number, path in enumerate(self.folder / f"said.{step}" for step in range(len(outputs))):
            if path.exists():
                outputs[number] += path.read_text()
        return outputs


def _places(command: str) -> int:
    """Number of places where the command's program listens; `ready` reads an arbiter's log."""
    if command.startswith("arbiter "):
        return 1_000
    ports = command.partition("server.py ")[2].removesuffix("&").split()
    return len(ports) or 1


def pattern_of(lines: tuple[str, ...]) -> str:
    return "\n".join(re.escape(line).replace(re.escape("..."), ".*") for line in lines)


@pytest.mark.parametrize("block", ALL, ids=[block.title for block in ALL])
def test_an_example_prints_what_is_beside_it(block: Block) -> None:
    with tempfile.TemporaryDirectory(prefix="arbiter") as folder:
        place = Place(Path(folder))
        for (command, lines), output in zip(block.steps, place.run(block), strict=True):
            pattern = place.here(pattern_of(lines))
            if command.endswith("&"):
                assert re.search(pattern, output), (command, output)
            else:
                assert re.fullmatch(pattern, output.rstrip("\n")), (command, pattern, output)


def test_every_feature_has_an_example_that_runs() -> None:
    commands = "\n".join(command for block in ALL for command, _ in block.steps)
    features = ("tcp.toml", "redis.toml", "/metrics", "/health")
    options = ("admin_tls", "health_check", "--cert")
    missing = [word for word in (*features, *options) if word not in commands]
    assert not missing
