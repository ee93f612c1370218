"""Real effects of faults and neighbours beside the requested ones, and objections to a run.

Agents measure the dose of their faults while they hold them; the runner measures that of the
platform's faults. It is in the `revert` event, null without a measurement (an agent of an older
version).
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
    """The doses of a kind on a machine: how many of each of ANSWERS; `asked` and `measured` are
    means over the time measured [unit], of those that did not bite, else of those that did, else
    of all."""

    kind: str
    machine: str
    unit: str | None
    how: str | None
    answers: dict[str, int]
    asked: float | None
    measured: float | None
    seconds: float
    problem: str | None


def dose_of(told: Mapping[str, Any] | None) -> Dose | None:
    """Return an agent's dose, which leaves out what it does not know; None of an older one."""
    if told is None:
        return None
    return {
        "asked": told.get("asked"),
        "measured": told.get("measured"),
        "unit": str(told["unit"]),
        "how": str(told["how"]),
        "bit": told.get("bit"),
        "samples": int(told["samples"]),
        "seconds": float(told["seconds"]),
        "problem": told.get("problem"),
    }


def doses_json(events: Iterable[Mapping[str, Any]]) -> list[DoseRow]:
    """`doses` of manifest.json and result.json: a row for each kind and machine, of what counts."""
    found: dict[tuple[str, str], list[Dose | None]] = {}
    for event in without_discarded(events):
        if event["what"] in _DISTURBING and event["action"] == "revert":
            key = str(event["kind"]), str(event["machine"])
            found.setdefault(key, []).append(event.get("dose"))
    return [_row(kind, machine, doses) for (kind, machine), doses in sorted(found.items())]


def _row(kind: str, machine: str, doses: Sequence[Dose | None]) -> DoseRow:
    answers = Counter(answer(dose) for dose in doses)
    known = [dose for dose in doses if dose is not None]
    of = {name: [dose for dose in known if answer(dose) == name] for name in (MISSED, BIT)}
    shown = of[MISSED] or of[BIT] or known
    return {
        "kind": kind,
        "machine": machine,
        "unit": known[0]["unit"] if known else None,
        "how": known[0]["how"] if known else None,
        "answers": {name: answers[name] for name in ANSWERS},
        "asked": _mean(shown, [dose["asked"] for dose in shown]),
        "measured": _mean(shown, [dose["measured"] for dose in shown]),
        "seconds": round(sum(dose["seconds"] for dose in shown), 3),
        "problem": next((dose["problem"] for dose in shown if dose["problem"]), None),
    }


def answer(dose: Dose | None) -> str:
    """One of ANSWERS."""
    if dose is None:
        return UNMEASURED
    return {True: BIT, False: MISSED, None: INSUFFICIENT}[dose["bit"]]


def _mean(doses: Sequence[Dose], values: Sequence[float | None]) -> float | None:
    """Over the time that each was measured for."""
    known = [(dose["seconds"], value) for dose, value in zip(doses, values, strict=True)
             if value is not None]  # fmt: skip
    weight = sum(seconds for seconds, _ in known)
    if not known:
        return None
    if weight == 0.0:
        return sum(value for _, value in known) / len(known)
    return sum(seconds * value for seconds, value in known) / weight


def dose_reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Against the run: what did not bite; and, where nothing is shown to have bitten, that.

    What nobody measured says nothing.
    """
    reasons = [
        f"{row['kind']} on {row['machine']} did not bite: asked {_format('asked', row)}, measured "
        f"{_format('measured', row)} ({missed} of {sum(row['answers'].values())})"
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


def _format(what: str, row: Mapping[str, Any]) -> str:
    return "nothing" if row[what] is None else f"{row[what]:.3g} {row['unit']}"
