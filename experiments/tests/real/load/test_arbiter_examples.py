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
# What goes before a block's commands. `ready` waits until the last one in the background listens at
# so many places, or an arbiter has said where.
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
    part = "".join((ROOT / page).read_text() for page in PAGES)
    for found in re.finditer(r"^```(\w*)\n(.*?)^```", part, flags=re.DOTALL | re.MULTILINE):
        if found[1]:
            continue
        titles = re.findall(r"^#+ (.+)$", part[: found.start()], flags=re.MULTILINE)
        steps = re.split(r"^\$ ", found[2], flags=re.MULTILINE)[1:]
        lines = [step.splitlines() for step in steps]
        taken = tuple((words[0], tuple(words[1:])) for words in lines)
        yield Block(titles[-1], taken)


ALL = list(blocks())


class Place:
    """A folder with the examples' files, where nothing of the host is used."""

    def __init__(self, folder: Path) -> None:
        fixed = PORTS.pattern.strip(r"\b()").split("|")
        self._ports = {one: str(free_port()) for one in fixed}
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
                # What it says in the background is looked at in the end.
                said, places = f"said.{number}", _places(command)
                command = f"exec {command.removesuffix('&')} > {said} 2>&1 & ready {places} {said}"
            lines += [f"printf '{_BETWEEN[:-1]}\\n'", command]
        return "\n".join(lines) + "\n"

    def run(self, block: Block) -> list[str]:
        """The output of each command."""
        environment = os.environ | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", self.script(block)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        printed = done.stdout.split(_BETWEEN)[1:]
        assert len(printed) == len(block.steps), done.stdout
        for number, path in enumerate(self.folder / f"said.{n}" for n in range(len(printed))):
            if path.exists():
                printed[number] += path.read_text()
        return printed


def _places(command: str) -> int:
    """At how many places its program listens; an arbiter says it."""
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
        for (command, lines), printed in zip(block.steps, place.run(block), strict=True):
            wanted = place.here(pattern_of(lines))
            if command.endswith("&"):
                assert re.search(wanted, printed), (command, printed)
            else:
                assert re.fullmatch(wanted, printed.rstrip("\n")), (command, wanted, printed)


def test_every_feature_has_an_example_that_runs() -> None:
    said = "\n".join(command for block in ALL for command, _ in block.steps)
    words = ("tcp.toml", "redis.toml", "/metrics", "/health")
    more = ("admin_tls", "health_check", "--cert")
    missing = [word for word in (*words, *more) if word not in said]
    assert not missing
