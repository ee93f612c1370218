"""A second Docker engine on this machine, with the base image, as another host's.

In a network namespace of its own: without a bridge it removes docker0, which is the first one's.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.testbed.platforms.local.engines import Engine
from experiments.tests.engine import docker

BASE = "sparecraft/base:bookworm"
_UP_S = 60.0
_END_S = 30.0


@contextmanager
def second_engine(folder: Path) -> Iterator[Engine]:
    """Run the engine in the block; its containers have no network.

    `folder` has a short path, as it holds unix sockets.
    """
    engine = Engine("second", f"unix://{folder}/docker.sock")
    command: list[str | Path] = [
        "unshare", "--net", "dockerd", "--host", engine.address, "--data-root", folder / "data",
        "--exec-root", folder / "run", "--pidfile", folder / "pid", "--bridge", "none",
        "--iptables=false", "--ip6tables=false", "--exec-opt", "native.cgroupdriver=cgroupfs",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _until_up(process, engine, folder)
        with subprocess.Popen(["docker", "save", BASE], stdout=subprocess.PIPE) as save:
            load = ["docker", *engine.arguments, "load", "--quiet"]
            subprocess.run(load, stdin=save.stdout, check=True, capture_output=True)
        yield engine
    finally:
        containers = subprocess.run(
            ["docker", *engine.arguments, "ps", "-aq"], capture_output=True, text=True, check=False
        ).stdout.split()
        if containers:
            docker(*engine.arguments, "rm", "--force", *containers)
        process.terminate()
        process.wait(_END_S)


def _until_up(process: subprocess.Popen[bytes], engine: Engine, folder: Path) -> None:
    end_s = time.monotonic() + _UP_S
    version_command = ["docker", *engine.arguments, "version"]
    while subprocess.run(version_command, capture_output=True, check=False).returncode != 0:
        log_end = (folder / "log").read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"it ended: {log_end}"
        assert time.monotonic() < end_s, f"it does not answer: {log_end}"
        time.sleep(0.1)
