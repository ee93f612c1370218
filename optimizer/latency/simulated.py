"""A simulator as a source of latencies: the contract in JSON, and the adapter.

The simulator is a program or function from one JSON text to another, so that it may be in any
language. It simulates one tier as the question says, of which every field is also one of Station's
or TierLatency's, and answers with what `requests` requests took (own stay, first of r) after its
own warm-up. The same question must give the same answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from optimizer.errors import InputError, UnstableError, require_count
from optimizer.latency.sources import TierTail
from optimizer.latency.station import Station, stays

SCHEMA = 1


@dataclass(frozen=True)
class SimulatorQuestion:
    """What is to be simulated."""

    tier: str
    servers: int
    cores: float
    replicas: int
    policy: str  # tad | round-robin
    request_per_s: float  # Poisson, before replication
    processing_s: float  # core seconds per copy
    cv2: float  # of an undisturbed copy's stay, as measured; at low load that of its work
    interference_share: float
    gamma: float  # speed while a neighbour is active
    run_s: float  # mean length of a neighbour's run, exponential
    down: int
    limping: int
    limp_speed: float
    requests: int  # to be answered, after the warm-up
    seed: int
    schema: int = SCHEMA

    @classmethod
    def of(cls, station: Station, requests: int, seed: int) -> SimulatorQuestion:
        """The question for a station."""
        tier = station.tier
        return cls(
            tier=station.name,
            servers=station.servers,
            cores=station.cores,
            replicas=station.replicas,
            policy=station.policy,
            request_per_s=station.request_per_s,
            processing_s=tier.processing_s,
            cv2=tier.cv2,
            interference_share=tier.interference_share,
            gamma=tier.gamma,
            run_s=tier.run_s,
            down=station.down,
            limping=station.limping,
            limp_speed=station.limp_speed,
            requests=requests,
            seed=seed,
        )

    def to_json(self) -> str:
        """One object, keys as the fields."""
        return json.dumps(asdict(self), allow_nan=False)


@dataclass(frozen=True)
class SimulatorAnswer:
    """What came out. `unstable`: the backlog grew without end, and the figures mean nothing."""

    mean_s: float
    variance_s2: float
    p95_s: float
    p99_s: float
    samples: int
    unstable: bool = False
    schema: int = SCHEMA

    @classmethod
    def from_json(cls, text: str) -> SimulatorAnswer:
        """Checked: keys, types, finite and ordered.  Raises: InputError naming the key."""
        try:
            value = json.loads(text)
        except ValueError as error:
            raise InputError("simulator's answer", expected="JSON", came=str(error)) from error
        if not isinstance(value, dict):
            raise InputError("simulator's answer", expected="an object", came=repr(value)[:60])
        known = {field.name for field in fields(cls)}
        needed = known - {"unstable"}
        for key in (*sorted(needed - set(value)), *sorted(set(value) - known)):
            raise InputError(
                f"simulator's answer: {key}",
                expected=f"the keys {', '.join(sorted(known))}",
                came="it missing" if key in needed else "an unknown key",
            )
        if value["schema"] != SCHEMA:
            raise InputError(
                "simulator's answer: schema", expected=str(SCHEMA), came=repr(value["schema"])
            )
        return cls(
            mean_s=_number(value, "mean_s"),
            variance_s2=_number(value, "variance_s2"),
            p95_s=_number(value, "p95_s"),
            p99_s=_number(value, "p99_s"),
            samples=require_count("simulator's answer: samples", value["samples"]),
            unstable=value.get("unstable") is True,
        )


class Simulated:
    """A TierSource that asks a simulator; each question once."""

    name = "simulator"

    def __init__(self, run: Callable[[str], str], requests: int = 100_000, seed: int = 1) -> None:
        self._run = run
        self._requests = require_count("requests", requests, least=1)
        self._seed = require_count("seed", seed)
        self._known: dict[Station, TierTail] = {}

    def tail(self, station: Station) -> TierTail:
        """Raises: UnstableError if the simulator says so, InputError for an answer that is none."""
        if station not in self._known:
            stays(station)
            self._known[station] = self._asked(station)
        return self._known[station]

    def _asked(self, station: Station) -> TierTail:
        question = SimulatorQuestion.of(station, self._requests, self._seed)
        answer = SimulatorAnswer.from_json(self._run(question.to_json()))
        if answer.unstable:
            raise UnstableError(
                f"tier {station.name or '(unnamed)'}",
                expected="a stable queue",
                came="a backlog that grew without end in the simulation",
                do="Add nodes or cores.",
            )
        return TierTail(
            mean_s=answer.mean_s,
            variance_s2=answer.variance_s2,
            p95_s=answer.p95_s,
            p99_s=answer.p99_s,
            evidence="simulated",
            samples=answer.samples,
            note=f"seed {self._seed}",
        )


def _number(value: dict[str, Any], key: str) -> float:
    found = value[key]
    number = isinstance(found, int | float) and not isinstance(found, bool)
    if not number or not 0 <= found < math.inf:
        raise InputError(
            f"simulator's answer: {key}",
            expected="a finite number of at least 0",
            came=repr(found),
        )
    return float(found)
