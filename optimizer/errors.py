"""What the planner refuses.

PlannerError            2   any refusal: the message says what was expected, what came, what to do
├── InputError          2   a value or file that the user gave cannot be used
├── UnstableError       2   a queue was asked for where the load is at least the capacity
└── EnvironmentMissing  3   credentials or a service that the task needs are not there

The number is the exit code of the command line.
"""

from __future__ import annotations

import math


class PlannerError(Exception):
    """A refusal that a user can act on. `place` names the field, file or column."""

    exit_code = 2

    def __init__(self, place: str, *, expected: str, came: str, do: str = "") -> None:
        self.place, self.expected, self.came, self.do = place, expected, came, do
        advice = f" {do}" if do else ""
        super().__init__(f"{place}: expected {expected}, but got {came}.{advice}")


class InputError(PlannerError):
    """A value or file that was given cannot be used."""


class UnstableError(PlannerError):
    """A queue's load is at least its capacity: it has no steady state."""


class EnvironmentMissing(PlannerError):
    """Credentials, a network or a service that the task needs are not there."""

    exit_code = 3


def require_positive(place: str, value: float) -> float:
    """Return `value` if it is a finite number above zero, else raise InputError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise InputError(place, expected="a finite number above 0", came=repr(value))
    return float(value)


def require_share(place: str, value: float, *, one: bool = True) -> float:
    """Return `value` if it is in [0, 1], or in [0, 1) without `one`, else raise InputError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1 or (value == 1 and not one):
        bound = "[0, 1]" if one else "[0, 1)"
        raise InputError(place, expected=f"a share in {bound}", came=repr(value))
    return float(value)


def require_count(place: str, value: int, *, least: int = 0) -> int:
    """Return `value` if it is an integer >= `least`, else raise InputError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(place, expected=f"an integer of at least {least}", came=repr(value))
    return value
