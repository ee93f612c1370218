"""The steps on a fleet of one node: sweep by sweep, workload by workload."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from pathlib import Path

from core.statistics.percentiles import time_out_of
from experiments.design.experiment import Experiment
from experiments.design.schedule import Block, pair_seed
from experiments.kinds.capacity.section import CapacitySection, Question, Workload
from experiments.kinds.capacity.steps import STEPS, Step, StepSetting, steps_of
from experiments.record.manifest import spec_json
from experiments.record.records import write_json
from experiments.run.blocks import blocks_on
from experiments.testbed.testbed import Testbed

ATTEMPTS_MAX = 3
RESOLUTION = 1.15  # highest ratio of the rates on both sides of the limit
FIRST_WARM_UP_S = 20.0  # of the first step, of each arm too: caches fill and code is compiled
_BEYOND_IN_A_ROW = 2  # steps that end the ascent: the host may have caused one


class Sweeps:
    """The first sweep looks for the limit; the others repeat its rates, ascending."""

    def __init__(self, testbed: Testbed, section: CapacitySection) -> None:
        self._testbed = testbed
        self._section = section
        self._experiment = testbed.design.experiment
        self._settings: list[StepSetting] = []
        self._overloaded: StepSetting | None = None  # the last step, if it was beyond its limit
        self._warm: set[str] = set()  # questions that had a step already
        self._arm = ""  # the last step's
        self._runner = blocks_on(testbed)
        testbed.keep(self._write)

    def measure(self) -> None:
        """Run every sweep of every workload and arm; each second sweep takes arms backwards."""
        questions = self._section.questions(self._experiment)
        with self._testbed.narrator.step("Raising the load"):
            rates = {question.name: self._search(question) for question in questions}
            for sweep in range(1, self._experiment.design.repeats):
                for question in questions if sweep % 2 == 0 else reversed(questions):
                    for rate in rates[question.name]:
                        self._run_step(question, sweep, rate)

    def _search(self, question: Question) -> list[float]:
        """Return the first sweep's rates, ascending.

        The rate rises until the limit is passed twice in a row, or up to the highest allowed rate
        or number of steps. Then it comes closer to the limit from both sides.
        """
        capacity = self._section
        rates: list[float] = []
        rate, beyond = question.workload.rate_per_s, 0
        rate_max = self._experiment.load.rate_per_s_max
        while len(rates) < capacity.steps_max and rate <= rate_max:
            beyond = beyond + 1 if self._is_beyond(question, rate) else 0
            rates.append(rate)
            if beyond == _BEYOND_IN_A_ROW:
                break
            rate = float(f"{rate * capacity.factor:.3g}")
        if beyond in (0, len(rates)):  # all within, or none
            return rates
        low, high = rates[-beyond - 1], rates[-beyond]
        while len(rates) < capacity.steps_max and (middle := rate_between(low, high)):
            if self._is_beyond(question, middle):
                high = middle
            else:
                low = middle
            rates.append(middle)
        return sorted(rates)

    def _is_beyond(self, question: Question, rate_per_s: float) -> bool:
        step = self._run_step(question, 0, rate_per_s)
        self._testbed.narrator.detail(
            f"p95 {step.p95_ms:.1f} ms, {step.answered_per_s:.1f} answers/s, "
            f"lag p99 {step.lag_p99_ms:.2f} ms"
        )
        return self._overloaded is not None

    def _run_step(self, question: Question, sweep: int, rate_per_s: float) -> Step:
        """Return the step; it is tried again while the generator is late, which the host causes."""
        workload = question.workload
        is_first = question.name not in self._warm or question.arm != self._arm
        warm_up_s = FIRST_WARM_UP_S if is_first else 0.0
        self._warm.add(question.name)
        self._arm = question.arm
        for attempt in range(1, ATTEMPTS_MAX + 1):
            setting = StepSetting(
                len(self._settings), sweep, question.name, rate_per_s, workload.p95_ms, attempt
            )
            self._rest(setting)
            step = self._attempt(
                setting,
                question.arm,
                at_rate(self._experiment, self._section, workload, rate_per_s, warm_up_s),
            )
            beyond = is_beyond(step, self._experiment.slo.max_error_share)
            self._overloaded = setting if beyond else None
            if not step.is_late:
                break
            self._testbed.narrator.detail(
                f"the generator was late: lag p99 {step.lag_p99_ms:.1f} ms"
            )
        return step

    def _rest(self, setting: StepSetting) -> None:
        if self._overloaded is None or not needs_rest(self._overloaded, setting):
            return
        length_s = self._runner.handles[-1].plan.length_s
        self._testbed.narrator.detail(
            f"resting {length_s:.0f} s: the last step may still be under way"
        )
        time.sleep(length_s)

    def _attempt(self, setting: StepSetting, arm: str, experiment: Experiment) -> Step:
        seed = pair_seed(experiment.design.seed, setting.block)
        block = Block(setting.block, setting.block, arm, seed)
        self._runner.run(block, self._testbed.narrator, experiment)
        self._settings.append(setting)
        records = self._runner.handles[-1].records()
        limit_ms = time_out_of({"spec": spec_json(self._testbed.design)})
        return steps_of([setting], records, None, {}, limit_ms)[0]

    def _write(self, folder: Path) -> None:
        questions = self._section.questions(self._experiment)
        body = {
            "tier": self._testbed.design.fleet.entry_tier,
            "against": {
                question.name: question.against for question in questions if question.against
            },
            "limits_ms": {question.name: question.workload.p95_ms for question in questions},
            "steps": [asdict(step) for step in self._settings],
        }
        write_json(folder / STEPS, body)


def at_rate(
    experiment: Experiment,
    capacity: CapacitySection,
    workload: Workload,
    rate_per_s: float,
    warm_up_s: float = 0.0,
) -> Experiment:
    """Return the experiment of one step; a slow one lasts until `requests_min` can be expected.

    Parameters: warm_up_s, the least warm-up; the design's may be longer.
    """
    load = experiment.load.at(rate_per_s).model_copy(update={"user": workload.user})
    measure_s = max(experiment.phases.measure, capacity.requests_min / rate_per_s)
    warm_up_s = max(experiment.phases.warm_up, warm_up_s)
    phases = experiment.phases.model_copy(update={"warm_up": warm_up_s, "measure": measure_s})
    return experiment.model_copy(update={"load": load, "phases": phases})


def is_beyond(step: Step, max_error_share: float) -> bool:
    return step.error_share > max_error_share or step.p95_ms > step.setting.limit_ms


def needs_rest(overloaded: StepSetting, setting: StepSetting) -> bool:
    """Tell whether a step after `overloaded` could contain work of that one.

    A server continues requests that their clients gave up. A higher rate of the same workload is
    beyond the limit in any case.
    """
    return setting.user != overloaded.user or setting.rate_per_s <= overloaded.rate_per_s


def rate_between(low: float, high: float) -> float | None:
    """Return a rate between `low`, within the limit, and `high`, beyond it; None where the two are
    close enough.
    """
    return float(f"{math.sqrt(low * high):.3g}") if high > RESOLUTION * low else None
