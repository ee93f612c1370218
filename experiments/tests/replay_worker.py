"""A load worker that reports recorded requests instead of sending its own: what comes out of master
and workers can then be held, bit by bit, against what went in.

    python -m experiments.tests.replay_worker RECORDS --master HOST --port PORT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent

from experiments.load.plan import LoadPlan
from experiments.load.workers.locust import worker
from experiments.load.workers.locust.open_loop import OpenLoop
from experiments.load.workers.locust.walk import Walk


class Replay(OpenLoop):
    """The records of a share, in the order and at the pace of their ends."""

    recording: Path

    def __init__(self, plan: LoadPlan, *, record: Callable[[dict[str, Any]], None], **_: Any):
        lines = self.recording.read_bytes().splitlines()
        rows = {row["index"]: row for row in map(json.loads, lines)}
        indices = [plan.index_of(place) for place in range(len(plan.offsets_s))]
        self._rows = sorted((rows[index] for index in indices), key=lambda row: row["done_s"])
        self._began_s = rows[indices[0]]["intended_s"] - plan.offsets_s[0]
        self._pass_on = record
        self.launched = self.recorded = 0

    def run(self, _: float, start_s: float) -> None:
        last_s = self._rows[0]["done_s"]
        for row in self._rows:
            gevent.sleep(row["done_s"] - last_s)
            last_s = row["done_s"]
            times = ("intended_s", "sent_s", "done_s")
            later = {key: round(row[key] + start_s - self._began_s, 6) for key in times}
            self._pass_on({**row, **later})
            self.launched += 1
            self.recorded += 1

    def stop(self) -> None:
        pass


if __name__ == "__main__":
    Replay.recording = Path(sys.argv[1])
    Walk.loop_type = Replay
    worker.main(sys.argv[2:])
