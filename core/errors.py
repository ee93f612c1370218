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

# Bounds of a rate, time, size or price, in any unit: beyond them products leave floating point.
LEAST, MOST = 1e-15, 1e15


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

    def to_json(self) -> dict[str, object]:
        """Return the four parts, and those of further errors."""
        parts = {name: getattr(self, name) for name in ("place", "expected", "got", "hint")}
        return {**parts, "also": [other.to_json() for other in self.also]}

    def __str__(self) -> str:
        got = self.got.rstrip(".")
        first = f"{self.place}: expected {self.expected} (got {got}). {self.hint}".rstrip()
        return "\n".join([first, *(str(other) for other in self.also)])


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
