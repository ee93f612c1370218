"""Times from the request to end a fault or neighbour until its undo was confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_DISTURBING = ("fault", "interference")


def revert_time_json(
    events: Iterable[Mapping[str, Any]], stopped: Mapping[str, Any] | None, lease_s: float
) -> dict[str, object]:
    """`undone` of manifest.json and result.json.

    An end is asked for by the schedule, or by what ends the block: its own end, an interrupt, a
    guard, `sparecraft halt`; of the last two the time in `stopped` counts. A machine that its
    scheme replaced or repaired was not asked to end: that takes the time that is measured.

    Returns: count, undos that were asked for and confirmed by agent or platform; unconfirmed, what
    was injected and has none; worst {seconds, kind, machine}, None where count is 0; lease_s, after
    which agents undo by themselves when the runner is killed.
    """
    open_: Counter[tuple[Any, ...]] = Counter()
    times: list[tuple[float, str, str]] = []
    for event in events:
        if event["what"] not in _DISTURBING or event["action"] not in ("inject", "revert"):
            continue
        kind, machine = str(event["kind"]), str(event["machine"])
        injected = event["action"] == "inject"
        open_[(kind, machine, event["id"])] += 1 if injected else -1
        asked_s = None if injected else _asked_s(event, stopped)
        if asked_s is not None:
            times.append((round(event["time_s"] - asked_s, 3), kind, machine))
    worst = max(times, default=None)
    return {
        "count": len(times),
        "unconfirmed": sum(count for count in open_.values() if count > 0),
        "worst": worst and dict(zip(("seconds", "kind", "machine"), worst, strict=True)),
        "lease_s": lease_s,
    }


def _asked_s(event: Mapping[str, Any], stopped: Mapping[str, Any] | None) -> float | None:
    asked: list[float] = [] if event["asked_s"] is None else [event["asked_s"]]
    if stopped is not None and event["time_s"] >= stopped["at_s"]:
        asked.append(stopped["at_s"])
    return min(asked, default=None)
