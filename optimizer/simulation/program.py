"""The simulator as a program: `build/bin/simulator`, built by `make setup`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import EnvironmentMissing, InputError
from optimizer.simulation.forms import Answer, Latency, Replay, Report

PROGRAM = Path(__file__).parents[2] / "build" / "bin" / "simulator"
_LIMIT_S = 900.0
_TRACE = "An arbiter writes one if it is told to: agents/arbiter/README.md."


def simulate(text: str, *, threads: int | None = None, place: str = "scenario") -> Answer:
    """Return the simulator's answer to `text`: one scenario, or {"scenarios": [...]}.

    Errors name the text by `place`.

    Raises: InputError with the simulator's refusal; EnvironmentMissing without the program.
    """
    options = ["--threads", str(threads)] if threads else []
    process = _run([*options, "-"], text, place, "Lower `requests` or `events_max`.")
    if process.returncode != 0:
        hint = "`sparecraft simulate --example` prints scenarios to begin with."
        raise _refusal(process.stderr, place, "one that can be simulated", hint)
    answer: Answer = json.loads(process.stdout)
    return answer


def replay(trace: Path) -> Replay:
    """Return the simulator's decisions at the points of an arbiter's trace.

    Raises: InputError with the line if it is not a trace; EnvironmentMissing without the program.
    """
    if not trace.exists():
        raise InputError(str(trace), expected="a trace", got="no such file", hint=_TRACE)
    hint = "Lower `trace_lines_max` of the arbiter."
    process = _run(["--replay", str(trace)], "", str(trace), hint)
    if process.returncode not in (0, 1):
        raise _refusal(process.stderr, str(trace), "a trace", _TRACE)
    answer: Replay = json.loads(process.stdout)
    return answer


def _run(
    arguments: list[str], text: str, place: str, hint: str
) -> subprocess.CompletedProcess[str]:
    """Return the ended program; `place` and `hint` are for the error if it takes too long."""
    if not PROGRAM.is_file():
        raise EnvironmentMissing(
            str(PROGRAM), expected="the simulator", got="no such file", hint="Run `make setup`."
        )
    try:
        return subprocess.run(
            [str(PROGRAM), *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        expected = f"a simulation of at most {_LIMIT_S:g} s"
        raise InputError(place, expected=expected, got="a longer one", hint=hint) from error


def reports(scenarios: Sequence[Mapping[str, object]]) -> list[Report]:
    """Return the reports of several scenarios, in their order, simulated on all cores."""
    answer = simulate(json.dumps({"scenarios": list(scenarios)}))
    return answer["reports"]


def percentile_s(latency: Latency, q: float) -> float:
    """Return the q-th percentile [s] of a report's latency; q in percent, one that is reported."""
    return next(p["value_s"] for p in latency["percentiles"] if p["q"] == q)


def _refusal(stderr: str, subject: str, expectation: str, hint: str) -> InputError:
    """Return the simulator's "place: expected ... (got ...)" as an InputError."""
    line = stderr.strip().removeprefix("simulator: ")
    place, _, rest = line.partition(": expected ")
    expected, _, got = rest.removesuffix(")").partition(" (got ")
    if not expected:
        return InputError(subject, expected=expectation, got=line or "nothing", hint=hint)
    if place in (".", "input"):
        place = subject
    elif not place.startswith(subject):
        place = f"{subject}: {place}"
    return InputError(place, expected=expected, got=got, hint=hint)
