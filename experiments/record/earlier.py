"""A run among the earlier ones of its design: what one run's interval does not tell."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from experiments.errors import InputError
from experiments.record.result import Result, read_result


def earlier_factors(folder: Path, statistic: str) -> list[float]:
    """The factors of the valid runs beside this one that began before it and compared the same
    arms, oldest first.

    Parameters: folder of a run; statistic as in the result's `improvement` (p95).
    """
    result = read_result(folder)
    found = []
    for other in sorted(folder.resolve().parent.iterdir()):
        if other.is_symlink() or not other.is_dir():
            continue
        try:
            before = read_result(other)
        except InputError:
            continue
        if before["valid"] and _began(before) < _began(result) and _arms(before) == _arms(result):
            factor = (_body(before).get("improvement") or {}).get(statistic, {}).get("factor")
            if factor:
                found.append((_began(before), float(factor)))
    return [factor for _, factor in sorted(found)]


def among_earlier(folder: Path, statistic: str) -> str:
    """What to say beside a single run's interval: "within this run; 7 earlier runs ranged from
    1.38 to 5.03"."""
    factors = earlier_factors(folder, statistic)
    if not factors:
        return "within this run; there is no earlier one"
    if len(factors) == 1:
        return f"within this run; the one earlier run had {factors[0]:.3g}"
    low, high = min(factors), max(factors)
    return f"within this run; {len(factors)} earlier runs ranged from {low:.3g} to {high:.3g}"


def _body(result: Result) -> dict[str, Any]:
    return dict(result[result["kind"]])


def _arms(result: Result) -> Any:
    return _body(result).get("compared")


def _began(result: Result) -> float:
    """Seconds; a run that does not say when it began came before all others."""
    try:
        return datetime.fromisoformat(str(result["started"])).timestamp()
    except ValueError:
        return 0.0
