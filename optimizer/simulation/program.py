"""Runs `build/bin/simulator`, which is built by `make setup`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimizer.errors import EnvironmentMissing, InputError

PROGRAM = Path(__file__).parents[2] / "build" / "bin" / "simulator"
_LIMIT_S = 900.0


def simulate(text: str, *, threads: int | None = None, limit_s: float = _LIMIT_S) -> dict[str, Any]:
    """What the simulator says of `text`: one scenario, or {"scenarios": [...]}.

    Returns: {"schema", "reports": [...] in the scenarios' order, "events", "wall_s", "threads"}.
    Raises: InputError with the simulator's refusal; EnvironmentMissing without the program.
    """
    if not PROGRAM.is_file():
        raise EnvironmentMissing(
            str(PROGRAM), expected="the simulator", came="no such file", do="Run `make setup`."
        )
    command = [str(PROGRAM), *(["--threads", str(threads)] if threads else []), "-"]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            "scenario",
            expected=f"a simulation of at most {limit_s:g} s",
            came="a longer one",
            do="Lower `requests` or `events_max`.",
        ) from error
    if done.returncode != 0:
        raise _refusal(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def reports(scenarios: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports of several scenarios, in their order, on all cores."""
    found = simulate(json.dumps({"scenarios": list(scenarios)}))
    return list(found["reports"])


def percentile_s(latency: dict[str, Any], q: float) -> float:
    """The q-th percentile [s] of a report's latency, one of those that the simulator gives."""
    return float(next(p["value_s"] for p in latency["percentiles"] if p["q"] == q))


def _refusal(said: str) -> InputError:
    """The simulator's "place: expected ..., but got ..." as an error of ours."""
    line = said.strip().removeprefix("simulator: ")
    place, _, rest = line.partition(": expected ")
    expected, _, came = rest.rpartition(", but got ")
    if not expected:
        return InputError("scenario", expected="one that can be simulated", came=line or "nothing")
    return InputError(place, expected=expected, came=came)
