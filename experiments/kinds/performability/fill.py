"""Filling of a tier's memories before a block, so that all blocks begin equally warm.

The tier's services are restarted. Then they get the design's number of requests as fast as they
answer, with the popularity of the block's load but other choices. The last tenth shows the warmth
of the tier: a header of each reply names the source of its content.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from core.errors import MeasurementFailed
from core.json_object import JsonObject
from core.runfiles.manifest import Manifest
from experiments.design.experiment import Experiment
from experiments.design.schedule import Block, arrivals, block_length_s, operation_choices
from experiments.design.workloads import Population, population_of
from experiments.kinds.performability.section import Fill
from experiments.load.plan import entry_url
from experiments.run.block import entries_for
from experiments.testbed.restart import restart_tier
from experiments.testbed.settings import configure
from experiments.testbed.testbed import Testbed

_AT_ONCE = 16  # connections
_LIMIT_S = 10.0  # of a reply
_FAILED_SHARE_MAX = 0.01
_WARMTH_PART = 10  # the last 1/_WARMTH_PART of the requests tells how warm a tier is


@dataclass(frozen=True)
class FillRecord:
    """The outcome of a fill; `sources` are shares of the replies of the last tenth."""

    repeat: int
    arm: str
    requests: int
    failed: int
    took_s: float
    sources: dict[str, float]


class FilledManifest(Manifest, total=False):
    fills: list[JsonObject]


class Filler:
    """Fills before each block, and records them as `fills` of the manifest."""

    def __init__(self, testbed: Testbed, settings: Fill) -> None:
        self._testbed, self._settings = testbed, settings
        self._fills: list[FillRecord] = []
        testbed.keep(self._write)

    def fill(self, block: Block) -> None:
        """Restart the tier with the arm's settings, and send it the requests.

        Raises: MeasurementFailed if too many requests fail.
        """
        testbed, settings = self._testbed, self._settings
        design = testbed.design
        configure(design, block.arm, testbed.fleet)
        restart_tier(design, testbed.fleet, settings.tier)
        workload = design.workloads[design.experiment.load.user]
        population = population_of(workload)
        urls = entries_for(workload, design, testbed.fleet.inventory)[settings.tier]
        paths = paths_of(design.experiment, population, block, settings.requests)
        began = time.monotonic()
        sources = ask(urls, paths, settings.header)
        failed = sources.count(None)
        if failed > _FAILED_SHARE_MAX * len(paths):
            raise MeasurementFailed(
                f"filling tier {settings.tier}",
                expected=f"at most {_FAILED_SHARE_MAX:.0%} of {len(paths):,} requests to fail",
                got=f"{failed:,}",
                hint="Look into the logs of its machines' role.",
            )
        took_s = round(time.monotonic() - began, 2)
        shares = shares_of(sources[-max(1, len(sources) // _WARMTH_PART) :])
        self._fills.append(FillRecord(block.repeat, block.arm, len(paths), failed, took_s, shares))

    def _write(self, _: Path) -> dict[str, object] | None:
        return {"fills": [asdict(fill) for fill in self._fills]} if self._fills else None


def paths_of(
    experiment: Experiment, population: Population, block: Block, requests: int
) -> list[str]:
    """Return the paths of the requests: the choices that follow the block's own, with the same
    popularity."""
    load, length_s = experiment.load, block_length_s(experiment)
    load_count = len(arrivals(load.arrivals, load.sent_per_s, length_s, block.seed))
    count = len(population.operations)
    chosen = operation_choices(count, load_count + requests, block.seed, population.zipf)
    return [population.operations[index].request for index in chosen[load_count:]]


def ask(urls: Sequence[str], paths: Sequence[str], header: str) -> list[str | None]:
    """Return the header of each reply, in the order of `paths`; None for a failed request. Request
    k goes to URL k modulo their number.
    """
    sources: list[str | None] = [None] * len(paths)

    def work(first: int) -> None:
        open_to: dict[str, HTTPConnection] = {}
        for index in range(first, len(paths), _AT_ONCE):
            url = urls[index % len(urls)]
            try:
                if url not in open_to:
                    parts = entry_url(url)
                    open_to[url] = HTTPConnection(
                        parts.hostname or "", parts.port, timeout=_LIMIT_S
                    )
                open_to[url].request("GET", paths[index])
                reply = open_to[url].getresponse()
                reply.read()
                if reply.status == 200:
                    sources[index] = reply.headers.get(header, "not said")
            except (HTTPException, OSError):
                open_to.pop(url).close()
        for connection in open_to.values():
            connection.close()

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fill") as pool:
        list(pool.map(work, range(_AT_ONCE)))
    return sources


def shares_of(sources: Sequence[str | None]) -> dict[str, float]:
    """Return the share of each source among successful replies."""
    counts = Counter(source for source in sources if source is not None)
    return {source: count / counts.total() for source, count in sorted(counts.items())}
