"""Times from the request to end a fault or neighbour until its undo was confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_DISTURBING = ("fault", "interference")


def revert_time_json(
    events: Iterable[Mapping[str, Any]], stopped: Mapping[str, Any] | None, lease_s: float
) -> dict[str, object]:
    """Return `undone` of manifest.json and result.json.

    The end of a disturbance is requested by the schedule, or by the end of the block: its own end,
    an interrupt, a guard or `sparecraft halt`. For the last two the time in `stopped` counts. No
    end is requested if the scheme replaced or repaired the machine: its time is the measurement.

    Returns: count, requested undos that agent or platform confirmed; unconfirmed, injections
    without an undo; worst {seconds, kind, machine}, None if count is 0; lease_s, after which agents
    undo by themselves if the runner is killed.
    """
    open_: Counter[tuple[Any, ...]] = Counter()
    times: list[tuple[float, str, str]] = []
    for event in events:
        if event["what"] not in _DISTURBING or event["action"] not in ("inject", "revert"):
            continue
        kind, machine = str(event["kind"]), str(event["machine"])
        injected = event["action"] == "inject"
        open_[(kind, machine, event["id"])] += 1 if injected else -1
        requested_s = None if injected else _requested_s(event, stopped)
        if requested_s is not None:
            times.append((round(event["time_s"] - requested_s, 3), kind, machine))
    worst = max(times, default=None)
    return {
        "count": len(times),
        "unconfirmed": sum(count for count in open_.values() if count > 0),
        "worst": worst and dict(zip(("seconds", "kind", "machine"), worst, strict=True)),
        "lease_s": lease_s,
    }


def _requested_s(event: Mapping[str, Any], stopped: Mapping[str, Any] | None) -> float | None:
    times: list[float] = [] if event["asked_s"] is None else [event["asked_s"]]
    if stopped is not None and event["time_s"] >= stopped["at_s"]:
        times.append(stopped["at_s"])
    return min(times, default=None)
