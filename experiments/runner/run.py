"""One run, from a design to a folder of results. Read live.py for its life on the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.metrics import summarize
from experiments.platform import Platform
from experiments.records import histograms, write_json
from experiments.report import write_report
from experiments.runner.again import measure_again
from experiments.runner.console import Narrator
from experiments.runner.live import Kept, LiveRun, carry_out
from experiments.runner.planning import write_plan_files, write_simulated
from experiments.schedule import blocks
from experiments.spec import Design


@dataclass(frozen=True)
class Outcome(Kept):
    """What a run came to."""

    summary: dict[str, Any]
    report: Path

    @property
    def passed(self) -> bool:
        """The run is valid, its SLO was met, and the fleet is gone."""
        verdicts = self.summary["verdicts"]
        return bool(
            self.summary["valid"] and self.summary["slo"]["met"] and verdicts["cleanup"]["ok"]
        )


def run_design(
    design: Design,
    *,
    results: Path,
    keep: bool,
    command: Sequence[str],
    narrator: Narrator,
    quiet_wait_s: float = 0.0,
    platform: Platform | None = None,
) -> Outcome:
    """Carry out a design. Raises what ended it early, after clean-up and with the data kept.

    Parameters: quiet_wait_s, how long each block may wait for a quiet host [s]; platform None,
    this host.
    """
    folder = results.resolve() / design.fleet.experiment
    run = _Run(design, folder, command, narrator, platform)
    run.quiet_wait_s = quiet_wait_s
    return carry_out(run, results, keep=keep)


class _Run(LiveRun[Outcome]):
    """The arms of a design, block by block."""

    quiet_wait_s = 0.0

    def measure(self) -> None:
        runner, population = self._block_run(self.quiet_wait_s)
        with self.narrator.step("Measuring"):
            runner.settle(population, self.narrator)
            asked = blocks(self.design.experiment)
            if self.quiet_wait_s > 0.0:
                measure_again(runner, asked, population, self.narrator)
                return
            for block in asked:
                runner.run(block, population, self.narrator)

    def _write(self) -> Outcome:
        requests, body, arbiters = self._write_records()
        assert self._recorder is not None
        write_json(self._folder / "histograms.json", histograms(requests))
        plan = write_plan_files(self._folder)
        summary = summarize(
            requests,
            self._recorder.events,
            body,
            fingerprint_clean=self._fingerprint_clean,
            influx_points=self._influx_points,
            plan=plan,
            arbiters=arbiters,
            hosts=self._hosts,
            prediction=self.design.prediction,
        )
        write_json(self._folder / "summary.json", summary)
        write_simulated(self._folder, summary["compared"]["baseline"])
        report = write_report(self._folder)
        return Outcome(self._folder, summary, report)
