"""Real effects of faults and neighbours beside the requested ones, and objections to a run.

Agents measure the dose of their faults while these are active; the runner measures the dose of the
platform's faults. The dose is in the `revert` event, null without a measurement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from core.runfiles.events import Dose, without_discarded

_DISTURBING = ("fault", "interference")
BIT, MISSED, INSUFFICIENT, UNMEASURED = "bit", "did not bite", "insufficient", "not measured"
ANSWERS = (BIT, MISSED, INSUFFICIENT, UNMEASURED)


class DoseRow(TypedDict):
    """The doses of a kind on a machine, counted by each of ANSWERS.

    `asked` and `measured` are means over the measured time [unit] of the doses that did not bite;
    if there are none, of those that did; else of all.
    """

    kind: str
    machine: str
    unit: str | None
    how: str | None
    answers: dict[str, int]
    asked: float | None
    measured: float | None
    seconds: float
    problem: str | None


def dose_of(report: Mapping[str, Any] | None) -> Dose | None:
    """Return an agent's dose, with None for what it does not know; None without one."""
    if report is None:
        return None
    return {
        "asked": report.get("asked"),
        "measured": report.get("measured"),
        "unit": str(report["unit"]),
        "how": str(report["how"]),
        "bit": report.get("bit"),
        "samples": int(report["samples"]),
        "seconds": float(report["seconds"]),
        "problem": report.get("problem"),
    }


def doses_json(events: Iterable[Mapping[str, Any]]) -> list[DoseRow]:
    """Return `doses` of manifest.json and result.json: a row for each kind and machine.

    Discarded blocks do not count.
    """
    doses_by_place: dict[tuple[str, str], list[Dose | None]] = {}
    for event in without_discarded(events):
        if event["what"] in _DISTURBING and event["action"] == "revert":
            key = str(event["kind"]), str(event["machine"])
            doses_by_place.setdefault(key, []).append(event.get("dose"))
    return [_row(kind, machine, doses) for (kind, machine), doses in sorted(doses_by_place.items())]


def _row(kind: str, machine: str, doses: Sequence[Dose | None]) -> DoseRow:
    answers = Counter(answer(dose) for dose in doses)
    measured_doses = [dose for dose in doses if dose is not None]
    by_answer = {
        name: [dose for dose in measured_doses if answer(dose) == name] for name in (MISSED, BIT)
    }
    decisive = by_answer[MISSED] or by_answer[BIT] or measured_doses
    return {
        "kind": kind,
        "machine": machine,
        "unit": measured_doses[0]["unit"] if measured_doses else None,
        "how": measured_doses[0]["how"] if measured_doses else None,
        "answers": {name: answers[name] for name in ANSWERS},
        "asked": _mean(decisive, [dose["asked"] for dose in decisive]),
        "measured": _mean(decisive, [dose["measured"] for dose in decisive]),
        "seconds": round(sum(dose["seconds"] for dose in decisive), 3),
        "problem": next((dose["problem"] for dose in decisive if dose["problem"]), None),
    }


def answer(dose: Dose | None) -> str:
    if dose is None:
        return UNMEASURED
    return {True: BIT, False: MISSED, None: INSUFFICIENT}[dose["bit"]]


def _mean(doses: Sequence[Dose], values: Sequence[float | None]) -> float | None:
    """Return the mean of the values, weighted by the measured time of each."""
    weighted = [(dose["seconds"], value) for dose, value in zip(doses, values, strict=True)
             if value is not None]  # fmt: skip
    weight = sum(seconds for seconds, _ in weighted)
    if not weighted:
        return None
    if weight == 0.0:
        return sum(value for _, value in weighted) / len(weighted)
    return sum(seconds * value for seconds, value in weighted) / weight


def dose_reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the reasons against the run: doses that did not bite, or no dose known to bite.

    An unmeasured dose is no reason.
    """
    reasons = [
        f"{row['kind']} on {row['machine']} did not bite: asked {_format('asked', row)}, measured "
        f"{_format('measured', row)} ({missed:,} of {sum(row['answers'].values()):,})"
        f"{': ' + row['problem'] if row['problem'] else ''}"
        for row in rows
        if (missed := row["answers"][MISSED])
    ]
    total = Counter[str]()
    for row in rows:
        total.update(row["answers"])
    if total[INSUFFICIENT] and not total[BIT] and not total[MISSED]:
        reasons.append(
            f"nothing is shown to have bitten: of all {total[INSUFFICIENT]} doses that were "
            "measured the evidence is too thin"
        )
    return reasons


def _format(key: str, row: Mapping[str, Any]) -> str:
    return "nothing" if row[key] is None else f"{row[key]:.3g} {row['unit']}"
