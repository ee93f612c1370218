"""What a run would disturb, said before anything is touched: whom, how, for how long, and how it is
undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.design import Design
from experiments.design.contracts import KINDS, MACHINE_CRASH
from experiments.design.failover import watched_tiers
from experiments.design.guarded import most_in_any_block
from experiments.design.injections import Injection, Step, injections
from experiments.design.schedule import block_length_s, blocks

_DRAWN = ("port", "peer")  # of a noisy pair: another in each episode


def disturbances(design: Design) -> list[dict[str, Any]]:
    """Each kind with its parameters: its machines, each with how often and how long it is
    disturbed in all blocks together, its commands and its undo."""
    experiment, fleet = design.experiment, design.fleet
    length_s = block_length_s(experiment)
    found: dict[str, dict[str, Any]] = {}
    for block in blocks(experiment):
        for injection in injections(experiment, fleet, block):
            for step in injection.steps:
                one = found.setdefault(_key(injection, step), _described(injection, step))
                times = one["machines"].setdefault(step.machine, {"times": 0, "seconds": 0.0})
                times["times"] += 1
                times["seconds"] += min(injection.end_s, length_s) - injection.at_s
    result = list(found.values())
    for one in result:
        for times in one["machines"].values():
            times["seconds"] = round(times["seconds"], 1)
        one["machines"] = dict(sorted(one["machines"].items()))
    return result + _crashes(design)


def _key(injection: Injection, step: Step) -> str:
    at_s = injection.at_s if injection.what == "fault" else ""
    return repr((injection.what, step.kind, at_s, sorted(_stated(step).items())))


def _stated(step: Step) -> dict[str, Any]:
    return {key: value for key, value in step.parameters.items() if key not in _DRAWN}


def _described(injection: Injection, step: Step) -> dict[str, Any]:
    kind, parameters = KINDS[step.kind], _stated(step)
    drawn = dict.fromkeys(set(_DRAWN) & set(step.parameters))  # said as PORT and PEER
    return {
        "what": injection.what,
        "kind": step.kind,
        "parameters": parameters,
        "at_s": injection.at_s if injection.what == "fault" else None,
        "machines": {},
        "commands": kind.said(kind.commands, {**parameters, **drawn}),
        "undo": kind.said(kind.undo, {**parameters, **drawn}),
    }


def _crashes(design: Design) -> list[dict[str, Any]]:
    """Of `[failover]`: when they come is drawn, and who is down is not crashed again."""
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


def at_once(design: Design, own: Sequence[Mapping[str, Any]] = ()) -> dict[str, int]:
    """By tier, the most machines that are disturbed at once; crashes may come to all of a tier,
    `own`, a kind's, to one."""
    touched = {name for one in own for name in one["machines"]}
    most = most_in_any_block(design.experiment, design.fleet)
    crashed = {name for one in _crashes(design) for name in one["machines"]}
    return {
        tier: max(
            len(one.machines),
            len(crashed & set(design.fleet.nodes_of(tier))),
            int(not touched.isdisjoint(design.fleet.nodes_of(tier))),
        )
        for tier, one in most.items()
    }


def rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same for a person."""
    for one in found["disturbances"]:
        parameters = [f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
                      for key, value in one["parameters"].items()]  # fmt: skip
        yield one["kind"], ", ".join([*parameters, _times(one)])
        yield "  on", ", ".join(one["machines"])
        yield "  commands", one["commands"]
        yield "  undo", one["undo"]
    if not found["disturbances"]:
        yield "disturbs", "nothing"
        return
    most = ", ".join(f"{tier} {count}" for tier, count in found["at_once"].items())
    yield "at once at most", f"{most} machines"


def _times(one: Mapping[str, Any]) -> str:
    counted = [times for times in one["machines"].values() if times is not None]
    if not counted:
        return str(one.get("when", "at times drawn from the seed"))
    total = sum(times["times"] for times in counted)
    seconds = sum(times["seconds"] for times in counted)
    begins = "" if one["at_s"] is None else f", from {one['at_s']:g} s of a block on"
    return f"{total} times, {seconds:.0f} s in all{begins}"
