"""`terraform apply` of ten machines beside `docker run` of the same images, one after the other."""

from __future__ import annotations

import statistics
import subprocess
import time

from bench.turns import spread
from experiments.design import load_design
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform

TURNS = 3


def measure() -> dict[str, object]:
    """Return seconds until every machine runs, and until all are removed; medians over turns."""
    design = load_design("mediawiki-noisy")
    platform = LocalPlatform(design.fleet.experiment)
    if docker.find(design.fleet.experiment):
        raise SystemExit(
            "bench: expected no fleet of mediawiki-noisy, one is up; `sparecraft down` removes it"
        )
    ups, downs, plains = [], [], []
    images: list[str] = []
    for _ in range(TURNS):
        start_s = time.monotonic()
        try:
            inventory = platform.up(design.directory / "fleet.tfvars", _quiet)
            ups.append(time.monotonic() - start_s)
            images = [f"sparecraft/{m.role}:local" for m in inventory.started]
        finally:
            start_s = time.monotonic()
            platform.down(_quiet)
            downs.append(time.monotonic() - start_s)
        plains.append(_start_plain(images))
    return {
        "machines": len(images),
        "turns": TURNS,
        **spread("apply_s", ups),
        "destroy_s": statistics.median(downs),
        **spread("docker_run_s", plains),
        "ratio": statistics.median(ups) / statistics.median(plains),
    }


def _quiet(line: str) -> None:
    del line


def _start_plain(images: list[str]) -> float:
    """Start the peer: containers without caps, networks, identity or files."""
    label = f"{docker.LABEL}=bench-plain"
    start_s = time.monotonic()
    try:
        for image in images:
            words = ("-d", "--label", label, "--entrypoint", "sleep", image, "60")
            command = ["docker", "run", *words]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        return time.monotonic() - start_s
    finally:
        docker.sweep("bench-plain")
