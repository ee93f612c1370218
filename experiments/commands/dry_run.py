"""Dry run: the planned disturbances of a run by machine, with duration, commands and undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.units import duration
from experiments.design import Design
from experiments.design.contracts import KINDS, MACHINE_CRASH
from experiments.design.disturbance import Disturbance, Times
from experiments.design.experiment import Experiment
from experiments.design.failover import watched_tiers
from experiments.design.guard_checks import most_in_any_block
from experiments.design.injections import Injection, Step, injections
from experiments.design.schedule import block_length_s, blocks
from experiments.report.text import by_number

_DRAWN = ("port", "peer")  # parameters of a noisy pair that differ from episode to episode
_BLOCKS_SHOWN = 6


def disturbances(design: Design) -> list[Disturbance]:
    """Return the disturbances, one for each kind and its parameters: machines, commands and undo.

    Each machine has the number and the total duration of its disturbances in all blocks together.
    """
    experiment, fleet = design.experiment, design.fleet
    length_s = block_length_s(experiment)
    by_key: dict[str, Disturbance] = {}
    machines: dict[str, dict[str, Times]] = {}
    for block in blocks(experiment):
        for injection in injections(experiment, fleet, block):
            for step in injection.steps:
                parameters = _stated_parameters(experiment, injection, step)
                key = repr((injection.what, step.kind, injection.fault, sorted(parameters.items())))
                disturbance = by_key.setdefault(
                    key, _describe(experiment, injection, step, parameters)
                )
                if "repeat" in disturbance:
                    begins = disturbance["begins_s"].setdefault(str(block.repeat + 1), [])
                    begins += {round(injection.at_s, 1)} - set(begins)
                machine_times = machines.setdefault(key, {})
                times = machine_times.setdefault(step.machine, {"times": 0, "seconds": 0.0})
                times["times"] += 1
                times["seconds"] += min(injection.end_s, length_s) - injection.at_s
    for key, disturbance in by_key.items():
        disturbance["machines"] = {
            name: {"times": times["times"], "seconds": round(times["seconds"], 1)}
            for name, times in sorted(machines[key].items(), key=lambda item: by_number(item[0]))
        }
    return [*by_key.values(), *_crashes(design)]


def _stated_parameters(
    experiment: Experiment, injection: Injection, step: Step
) -> Mapping[str, Any]:
    """Return the parameters that the design states, without those that are drawn in each block."""
    if injection.fault is not None:
        return experiment.faults[injection.fault].parameters
    return {key: value for key, value in step.parameters.items() if key not in _DRAWN}


def _describe(
    experiment: Experiment, injection: Injection, step: Step, parameters: Mapping[str, Any]
) -> Disturbance:
    kind = KINDS[step.kind]
    drawn_parameters = dict.fromkeys(set(_DRAWN) & set(step.parameters))  # shown as PORT and PEER
    fault = None if injection.fault is None else experiment.faults[injection.fault]
    disturbance: Disturbance = {
        "what": injection.what,
        "kind": step.kind,
        "parameters": dict(parameters),
        "at_s": injection.at_s if injection.what == "fault" else None,
        "machines": {},
        "commands": kind.render(kind.commands, {**parameters, **drawn_parameters}),
        "undo": kind.render(kind.undo, {**parameters, **drawn_parameters}),
    }
    if fault is not None and fault.repeat is not None:
        disturbance |= {"repeat": fault.repeat.model_dump(exclude_none=True), "begins_s": {}}
    return disturbance


def _crashes(design: Design) -> list[Disturbance]:
    """Return the crashes of `[failover]`; their times are drawn, and a machine that is down does
    not crash.
    """
    failover = design.experiment.failover
    if failover is None or failover.crash_mean_s is None:
        return []
    tiers = watched_tiers(design.fleet, failover)
    kind = KINDS[MACHINE_CRASH]
    return [
        {
            "what": "fault",
            "kind": MACHINE_CRASH,
            "parameters": {"mean_s": failover.crash_mean_s},
            "at_s": None,
            "machines": {name: None for tier in tiers for name in design.fleet.nodes_of(tier)},
            "commands": kind.commands,
            "undo": "[failover] replaces or repairs it; " + kind.undo,
        }
    ]


def most_at_once(design: Design, kind_disturbances: Sequence[Disturbance] = ()) -> dict[str, int]:
    """Return the most machines of each tier that are disturbed at once.

    Crashes may affect all machines of a tier. `kind_disturbances`, the faults of a kind, affect as
    many machines as their `at_once` says, or one.
    """
    most = most_in_any_block(design.experiment, design.fleet)
    crash_machines = {name for disturbance in _crashes(design) for name in disturbance["machines"]}
    return {
        tier: max(
            len(disturbed.machines),
            len(crash_machines & set(design.fleet.nodes_of(tier))),
            *(
                _machines_at_once(disturbance, design.fleet.nodes_of(tier))
                for disturbance in kind_disturbances
            ),
        )
        for tier, disturbed in most.items()
    }


def _machines_at_once(disturbance: Disturbance, nodes: Sequence[str]) -> int:
    return min(disturbance.get("at_once", 1), len(set(disturbance["machines"]) & set(nodes)))


def rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the disturbances of a summary for a person: rows of a label and its text."""
    for disturbance in summary["disturbances"]:
        parameters = [f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
                      for key, value in disturbance["parameters"].items()]  # fmt: skip
        yield disturbance["kind"], ", ".join([*parameters, _times_text(disturbance)])
        yield "  on", ", ".join(disturbance["machines"])
        if "repeat" in disturbance:
            rule = ", ".join(f"{key} {value}" for key, value in disturbance["repeat"].items())
            yield "  repeat", f"{rule}, drawn from the seed"
            yield "  begins", _begins_text(disturbance["begins_s"])
        yield "  commands", disturbance["commands"]
        yield "  undo", disturbance["undo"]
    if not summary["disturbances"]:
        yield "disturbs", "nothing"
        return
    most = ", ".join(f"{tier} {count}" for tier, count in summary["at_once"].items())
    yield "at once at most", f"{most} machines"


def _begins_text(by_block: Mapping[str, Sequence[float]]) -> str:
    """Describe the seconds of each block, for a limited number of blocks."""
    texts = [
        f"block {block}: {', '.join(f'{at_s:g}' for at_s in begins)} s"
        for block, begins in list(by_block.items())[:_BLOCKS_SHOWN]
    ]
    rest = len(by_block) - len(texts)
    return "; ".join(texts) + (f"; and {rest} blocks more" if rest else "")


def _times_text(disturbance: Disturbance) -> str:
    counts = [times for times in disturbance["machines"].values() if times is not None]
    if not counts:
        return disturbance.get("when", "at times drawn from the seed")
    total = sum(times["times"] for times in counts)
    seconds = sum(times["seconds"] for times in counts)
    begins = (
        "" if disturbance["at_s"] is None else f", from {disturbance['at_s']:g} s of a block on"
    )
    return f"{total:,} times, {duration(seconds)} in all{begins}"
