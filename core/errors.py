"""The errors of Sparecraft, one tree. The command line turns each into a message and an exit code.

    SparecraftError         exit code
    ├── InputError          2       wrong usage or input: the user's file, key or argument
    │   └── UnstableError   2       a queue was asked for where the load is at least the capacity
    ├── PlannerError        2       a model or a search that came to no answer
    ├── MeasurementFailed   1       the run could not go on; what was measured until then is kept
    ├── Interrupted         130     Ctrl-C or SIGTERM
    └── EnvironmentMissing  3       Docker, credentials, a program or a kernel facility is missing
        └── DiskFull        3       no space left for results

Every message is `PLACE: expected X (got Y). Hint.`
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from core.units import CRASHES_PER_YEAR_MOST, LIMPS_PER_YEAR_MOST, TIME_S_MOST

# Bounds of a rate, time, size or price, in any unit: beyond them products leave floating point.
LEAST, MOST = 1e-15, 1e15
TIME_EXPECTED = f"a time of at most {TIME_S_MOST:,.0f} s, a hundred years"


class SparecraftError(Exception):
    """An error for the user, shown as a message and never as a traceback."""

    exit_code = 1

    def __init__(
        self,
        place: str,
        *,
        expected: str,
        got: str,
        hint: str = "",
        also: Sequence[SparecraftError] = (),
    ) -> None:
        super().__init__(place, expected, got, hint)
        self.place = place
        self.expected = expected
        self.got = got
        self.hint = hint
        self.also = tuple(also)

    def at(self, place: str) -> InputError:
        """Return this error, as one of the user's input, at another place."""
        return InputError(place, expected=self.expected, got=self.got, hint=self.hint)

    def to_json(self) -> dict[str, object]:
        """Return the four parts, and those of further errors."""
        parts = {name: getattr(self, name) for name in ("place", "expected", "got", "hint")}
        return {**parts, "also": [error.to_json() for error in self.also]}

    def __str__(self) -> str:
        got = self.got.rstrip(".")
        first = f"{self.place}: expected {self.expected} (got {got}). {self.hint}".rstrip()
        return "\n".join([first, *(str(error) for error in self.also)])


class InputError(SparecraftError):
    """Wrong usage or input."""

    exit_code = 2

    def __init__(
        self,
        place: str,
        *,
        expected: str,
        got: str,
        hint: str = "Correct it.",
        also: Sequence[SparecraftError] = (),
    ) -> None:
        super().__init__(place, expected=expected, got=got, hint=hint, also=also)


class UnstableError(InputError):
    """A queue's load is at least its capacity: it has no steady state."""


class PlannerError(SparecraftError):
    """A model or a search without an answer."""

    exit_code = 2


class MeasurementFailed(SparecraftError):
    """A run that could not continue; its measurements are kept."""


class Interrupted(SparecraftError):
    """Ctrl-C or SIGTERM; the exit code is the shell's for SIGINT."""

    exit_code = 130


class EnvironmentMissing(SparecraftError):
    """A missing part of this machine that Sparecraft needs."""

    exit_code = 3


class DiskFull(EnvironmentMissing):
    """No space left for results; the message names the kept files."""


def in_words(error: Exception) -> str:
    """Return the message of a connection's error, without the system's number."""
    return re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__


def as_reason(error: BaseException) -> str:
    """Return the error's message; for an error of another library with its type."""
    return str(error) if isinstance(error, SparecraftError) else f"{type(error).__name__}: {error}"


def require_number(place: str, value: object) -> float:
    """Return `value` if it is a finite number, else raise InputError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise InputError(place, expected="a finite number", got=repr(value))
    return float(value)


def require_positive(place: str, value: float) -> float:
    """Return `value` if it is a number in [LEAST, MOST], else raise InputError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not LEAST <= value <= MOST:
        raise InputError(
            place, expected=f"a number above 0 ({LEAST:g} to {MOST:g})", got=repr(value)
        )
    return float(value)


def require_time(place: str, value_s: float) -> float:
    """Return `value_s` if it is a time in [LEAST, TIME_S_MOST] seconds, else raise InputError."""
    if require_positive(place, value_s) > TIME_S_MOST:
        raise InputError(place, expected=TIME_EXPECTED, got=f"{value_s:g} s")
    return float(value_s)


def require_crashes(place: str, per_year: float) -> float:
    """Return `per_year` if so many crashes of a node fit in a year, else raise InputError."""
    return _require_at_most(place, per_year, CRASHES_PER_YEAR_MOST, "one a second")


def require_limps(place: str, per_year: float) -> float:
    """Return `per_year` if so many limps of a node fit in a year, else raise InputError."""
    hint = "A node that limps more often is slow all the time: state it as a slower one."
    return _require_at_most(place, per_year, LIMPS_PER_YEAR_MOST, "one an hour", hint)


def _require_at_most(place: str, per_year: float, most: float, each: str, hint: str = "") -> float:
    if require_positive(place, per_year) > most:
        expected = f"at most {most:,.0f} a node and year, {each}"
        raise InputError(place, expected=expected, got=f"{per_year:g}", hint=hint)
    return float(per_year)


def require_share(place: str, value: float, *, one: bool = True) -> float:
    """Return `value` if it is in [0, 1], or in [0, 1) without `one`, else raise InputError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1 or (value == 1 and not one):
        bound = "[0, 1]" if one else "[0, 1)"
        raise InputError(place, expected=f"a share in {bound}", got=repr(value))
    return float(value)


def require_count(place: str, value: int, *, least: int = 0) -> int:
    """Return `value` if it is an integer in [`least`, MOST], else raise InputError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(place, expected=f"an integer of at least {least}", got=repr(value))
    if value > MOST:
        raise InputError(place, expected=f"an integer of at most {MOST:g}", got=repr(value)[:20])
    return value
