"""The errors of Sparecraft as experiments raise them: the tree of `optimizer.errors`, and

SparecraftError
├── VerdictFailed       1       the run ended, and an SLO or a verdict did not hold
├── MeasurementFailed   1       the run could not go on; what was measured until then is kept
├── Interrupted         130     Ctrl-C or SIGTERM
└── EnvironmentMissing
    └── DiskFull        3       no space left where results are written
"""

from __future__ import annotations

import re

from optimizer.errors import EnvironmentMissing, InputError, SparecraftError

__all__ = [
    "DiskFull",
    "EnvironmentMissing",
    "InputError",
    "Interrupted",
    "MeasurementFailed",
    "SparecraftError",
    "VerdictFailed",
    "as_reason",
    "in_words",
]


def in_words(error: Exception) -> str:
    """What a connection's error says, without the system's number."""
    return re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__


def as_reason(error: BaseException) -> str:
    """What it says; of what is none of ours, its type too."""
    return str(error) if isinstance(error, SparecraftError) else f"{type(error).__name__}: {error}"


class VerdictFailed(SparecraftError):
    """The run ended, and an SLO or a verdict did not hold."""


class MeasurementFailed(SparecraftError):
    """The run could not go on; what was measured until then is kept."""


class Interrupted(SparecraftError):
    """Ctrl-C or SIGTERM; the exit code is the shell's for SIGINT."""

    exit_code = 130


class DiskFull(EnvironmentMissing):
    """No space left where results are written; the message says what is kept."""
