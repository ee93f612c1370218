"""The errors of Sparecraft, one tree. The command line turns each into a message and an exit code.

    SparecraftError                 exit code 1
    ├── VerdictFailed       1       the run ended, and an SLO or a verdict did not hold
    ├── MeasurementFailed   1       the run could not go on; what was measured until then is kept
    ├── InputError          2       wrong usage or input: the user's file, key or argument
    └── EnvironmentMissing  3       Docker, Terraform, InfluxDB, a kernel facility is not there
        └── DiskFull        3       no space left where results are written

Every message has four parts: the place, what was expected, what came, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "DiskFull",
    "EnvironmentMissing",
    "InputError",
    "MeasurementFailed",
    "SparecraftError",
    "VerdictFailed",
]


class SparecraftError(Exception):
    """Something the user must know; never shown as a traceback."""

    exit_code = 1

    def __init__(
        self,
        place: str,
        *,
        expected: str,
        came: str,
        do: str,
        also: Sequence[SparecraftError] = (),
    ) -> None:
        super().__init__(place, expected, came, do)
        self.place = place
        self.expected = expected
        self.came = came
        self.do = do
        self.also = tuple(also)

    def __str__(self) -> str:
        first = f"{self.place}: expected {self.expected}; came {self.came}. {self.do}"
        return "\n".join([first, *(str(other) for other in self.also)])


class VerdictFailed(SparecraftError):
    """The run ended, and an SLO or a verdict did not hold."""


class MeasurementFailed(SparecraftError):
    """The run could not go on; what was measured until then is kept."""


class InputError(SparecraftError):
    """Wrong usage or input."""

    exit_code = 2


class EnvironmentMissing(SparecraftError):
    """Something that Sparecraft needs on this machine is not there."""

    exit_code = 3


class DiskFull(EnvironmentMissing):
    """No space left where results are written; the message says what is kept."""
