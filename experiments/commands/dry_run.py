"""Dry run: the planned disturbances of a run by machine, with duration, commands and undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.design import Design
from experiments.design.contracts import KINDS, MACHINE_CRASH
from experiments.design.disturbance import Disturbance, Times
from experiments.design.experiment import Experiment
from experiments.design.failover import watched_tiers
from experiments.design.guard_checks import most_in_any_block
from experiments.design.injections import Injection, Step, injections
from experiments.design.schedule import block_length_s, blocks
from experiments.report.text import by_number

_DRAWN = ("port", "peer")  # of a noisy pair: another in each episode
_BLOCKS_SHOWN = 6


def disturbances(design: Design) -> list[Disturbance]:
    """Return each kind with its parameters: its machines, each with how often and how long it is
    disturbed in all blocks together, its commands and its undo.
    """
    experiment, fleet = design.experiment, design.fleet
    length_s = block_length_s(experiment)
    found: dict[str, Disturbance] = {}
    machines: dict[str, dict[str, Times]] = {}
    for block in blocks(experiment):
        for injection in injections(experiment, fleet, block):
            for step in injection.steps:
                stated = _stated(experiment, injection, step)
                key = repr((injection.what, step.kind, injection.fault, sorted(stated.items())))
                one = found.setdefault(key, _described(experiment, injection, step, stated))
                if "repeat" in one:
                    begun = one["begins_s"].setdefault(str(block.repeat + 1), [])
                    begun += {round(injection.at_s, 1)} - set(begun)
                own = machines.setdefault(key, {})
                times = own.setdefault(step.machine, {"times": 0, "seconds": 0.0})
                times["times"] += 1
                times["seconds"] += min(injection.end_s, length_s) - injection.at_s
    for key, one in found.items():
        one["machines"] = {
            name: {"times": times["times"], "seconds": round(times["seconds"], 1)}
            for name, times in sorted(machines[key].items(), key=lambda item: by_number(item[0]))
        }
    return [*found.values(), *_crashes(design)]


def _stated(experiment: Experiment, injection: Injection, step: Step) -> Mapping[str, Any]:
    """Return the parameters, but for what is drawn in each block."""
    if injection.fault is not None:
        return experiment.faults[injection.fault].parameters
    return {key: value for key, value in step.parameters.items() if key not in _DRAWN}


def _described(
    experiment: Experiment, injection: Injection, step: Step, stated: Mapping[str, Any]
) -> Disturbance:
    kind = KINDS[step.kind]
    drawn = dict.fromkeys(set(_DRAWN) & set(step.parameters))  # said as PORT and PEER
    fault = None if injection.fault is None else experiment.faults[injection.fault]
    found: Disturbance = {
        "what": injection.what,
        "kind": step.kind,
        "parameters": dict(stated),
        "at_s": injection.at_s if injection.what == "fault" else None,
        "machines": {},
        "commands": kind.render(kind.commands, {**stated, **drawn}),
        "undo": kind.render(kind.undo, {**stated, **drawn}),
    }
    if fault is not None and fault.repeat is not None:
        found |= {"repeat": fault.repeat.model_dump(exclude_none=True), "begins_s": {}}
    return found


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


def at_once(design: Design, own: Sequence[Disturbance] = ()) -> dict[str, int]:
    """Return the most machines of each tier that are disturbed at once.

    Crashes may affect all machines of a tier. `own`, the faults of a kind, affect as many machines
    as their `at_once` says, or one.
    """
    most = most_in_any_block(design.experiment, design.fleet)
    crashed = {name for one in _crashes(design) for name in one["machines"]}
    return {
        tier: max(
            len(touched.machines),
            len(crashed & set(design.fleet.nodes_of(tier))),
            *(_own_at_once(one, design.fleet.nodes_of(tier)) for one in own),
        )
        for tier, touched in most.items()
    }


def _own_at_once(own: Disturbance, nodes: Sequence[str]) -> int:
    return min(own.get("at_once", 1), len(set(own["machines"]) & set(nodes)))


def rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the same for a person."""
    for one in found["disturbances"]:
        parameters = [f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
                      for key, value in one["parameters"].items()]  # fmt: skip
        yield one["kind"], ", ".join([*parameters, _times(one)])
        yield "  on", ", ".join(one["machines"])
        if "repeat" in one:
            said = ", ".join(f"{key} {value}" for key, value in one["repeat"].items())
            yield "  repeat", f"{said}, drawn from the seed"
            yield "  begins", _begins(one["begins_s"])
        yield "  commands", one["commands"]
        yield "  undo", one["undo"]
    if not found["disturbances"]:
        yield "disturbs", "nothing"
        return
    most = ", ".join(f"{tier} {count}" for tier, count in found["at_once"].items())
    yield "at once at most", f"{most} machines"


def _begins(by_block: Mapping[str, Sequence[float]]) -> str:
    """Describe the seconds of each block, for a limited number of blocks."""
    shown = [
        f"block {block}: {', '.join(f'{at_s:g}' for at_s in begins)} s"
        for block, begins in list(by_block.items())[:_BLOCKS_SHOWN]
    ]
    rest = len(by_block) - len(shown)
    return "; ".join(shown) + (f"; and {rest} blocks more" if rest else "")


def _times(one: Disturbance) -> str:
    counted = [times for times in one["machines"].values() if times is not None]
    if not counted:
        return one.get("when", "at times drawn from the seed")
    total = sum(times["times"] for times in counted)
    seconds = sum(times["seconds"] for times in counted)
    begins = "" if one["at_s"] is None else f", from {one['at_s']:g} s of a block on"
    return f"{total} times, {seconds:.0f} s in all{begins}"
