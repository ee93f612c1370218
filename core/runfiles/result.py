"""result.json: the head of every kind of run, and under the kind's name its findings.

`experiments/record/result.py` judges a run and writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NotRequired, cast

from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict

from core.errors import InputError
from core.json_object import JsonObject
from core.runfiles.checked import TOLERANT, load_json, validate

SCHEMA = 1
FILE = "result.json"
_HINT = "Its tables are as they were. Move the folder elsewhere, or run the design again."

Result = JsonObject  # a Head, and one key more: the kind's own


@with_config(TOLERANT)
class Verdict(TypedDict):
    """A condition without which a run counts for nothing; `ok` None where it is not known yet."""

    ok: bool | None
    reasons: list[str]
    disturbed: NotRequired[bool]


@with_config(TOLERANT)
class Verdicts(TypedDict):
    """Separate, so that a failed clean-up never voids data."""

    measurement: Verdict
    injection: Verdict
    revert: Verdict
    cleanup: Verdict


@with_config(TOLERANT)
class Stopped(TypedDict):
    """The end of a run before its time, by `guard`, `halt` or `watchdog`."""

    by: str
    condition: NotRequired[str]
    reason: NotRequired[str]
    at_s: NotRequired[float]
    undone_after_s: NotRequired[float]


@with_config(TOLERANT)
class Slo(TypedDict):
    """The SLO's verdict; `met` None, and `verdict` "undecided", where the run can say neither."""

    met: bool | None
    verdict: NotRequired[str]


@with_config(TOLERANT)
class MonthlyCost(TypedDict):
    """USD a month of the fleet that a plan was made from, and of the planned one."""

    before: float | None
    after: float | None


@with_config(TOLERANT)
class Clause(TypedDict):
    """One limit of the SLO: the share of requests beyond it, as it is allowed, as the plan expected
    it and as it was measured, each with its interval."""

    verdict: Literal["kept", "broken", "undecided"]
    limit: float
    allowed: float
    share: float
    low: float
    high: float
    requests: int
    predicted: float | None
    predicted_low: float | None
    predicted_high: float | None
    covered: bool | None
    """Does the measured share lie in the plan's interval?"""


@with_config(TOLERANT)
class FiguresJudged(TypedDict):
    """Figures with an interval of the plan's, and how many measured ones lie in it."""

    judged: int
    covered: int


@with_config(TOLERANT)
class Promise(TypedDict):
    """The promise of a plan, held against a run of its fleet."""

    verdict: Literal["kept", "broken", "undecided"]
    claimed: bool
    """False if the plan was undecided or refused this fleet, and so promised nothing."""
    refused: bool
    reasons: list[str]
    source_run: str | None
    usd_per_month: MonthlyCost
    clauses: dict[str, Clause]
    figures: FiguresJudged


@with_config(TOLERANT)
class Cost(TypedDict):
    """Of the machines from the run's begin to its end; None where a price is not known."""

    usd: float | None
    usd_per_hour: NotRequired[float | None]


@with_config(TOLERANT)
class Head(TypedDict):
    """The part that every kind of run has. A later version may add keys."""

    schema: int
    kind: str
    experiment: str | None
    run: str | None
    platform: str | None
    valid: bool
    verdicts: Verdicts
    stopped: Stopped | None
    """Of a run that a guard, `sparecraft halt` or its watchdog ended."""
    disturbed: JsonObject | None
    """Of a run whose host was not the fleet's own."""
    undone: JsonObject | None
    """Times until faults were undone."""
    infeasible: list[Any]
    """Arms that break a limit of sPARE's, and say so."""
    found: str
    """In few words; "" where arms say it."""
    slo: Slo | None
    promise: Promise | None
    """Of a run that puts a plan to the test; undecided where the run is not valid or disturbed."""
    cost: Cost
    started: str | None
    commit: str | None
    host: JsonObject


VERDICTS = tuple(Verdicts.__annotations__)


def read_result(folder: Path) -> Result:
    """Return the result of a run's folder. Raises InputError if there is none, or it is invalid."""
    file = folder / FILE
    if not file.is_file():
        raise InputError(
            str(folder),
            expected=f"a run's folder with {FILE} in it",
            got="none",
            hint="`sparecraft list` shows the runs.",
        )
    head = validate(_adapter(), load_json(file, _HINT), str(file), _HINT)
    result = cast(Result, head)  # with its kind's own key
    if result["schema"] > SCHEMA:
        raise InputError(
            f"{file}: schema",
            expected=f"{SCHEMA} at the most",
            got=str(result["schema"]),
            hint="It is of a later version: read it with that one.",
        )
    if not isinstance(result.get(result["kind"]), dict):
        raise InputError(
            f"{file}: {result['kind']}",
            expected="the findings of the run, as an object under its kind's name",
            got=type(result.get(result["kind"])).__name__,
            hint=_HINT,
        )
    return result


def results_in(
    root: Path,
    unreadable: Callable[[InputError], None],
    depths: tuple[str, ...] = ("*/*", "*/*/*"),
) -> Iterator[tuple[Path, Result]]:
    """Yield every run under `results/`, by experiment and time: EXPERIMENT/RUN, and
    EXPERIMENT/KIND/RUN if the kind is not the design's own; elsewhere those at `depths`.
    `unreadable` is called with the error of each run that is left out."""
    files = (file for depth in depths for file in root.glob(f"{depth}/{FILE}"))
    for folder in sorted({file.parent for file in files if not file.parent.is_symlink()}):
        try:
            yield folder, read_result(folder)
        except InputError as error:
            unreadable(error)


@cache
def _adapter() -> TypeAdapter[Head]:
    return TypeAdapter(Head)
