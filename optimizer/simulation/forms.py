"""The JSON of `agents/simulator`: scenarios (its input) and reports (its output)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict


class Effect(TypedDict):
    """The effect of a neighbour or fault on a server."""

    kind: str
    speed: NotRequired[float]
    jobs: NotRequired[float]
    wait_s: NotRequired[float]


class Event(Effect):
    """A server that is slower for a time."""

    server: int
    at_s: float
    for_s: float


class TierScenario(TypedDict):
    """A tier of equal servers behind an arbiter."""

    name: str
    servers: int
    cores: float
    quota: NotRequired[Mapping[str, float]]
    work: Mapping[str, str | float]
    after_s: NotRequired[float]
    delay_s: NotRequired[float]
    card_s: NotRequired[float]
    copies: NotRequired[str | Mapping[str, float]]
    policy: str
    replicas: int
    tokens: int | None
    look_ahead: NotRequired[int]
    hold: NotRequired[str]
    calls: NotRequired[Mapping[str, str | float]]
    pieces: NotRequired[int]
    interference: NotRequired[Mapping[str, float]]
    faults: NotRequired[Sequence[Event]]


class Scenario(TypedDict):
    """One simulation, its tiers from the front to the back."""

    name: NotRequired[str]
    host: NotRequired[Mapping[str, float] | None]
    seed: int
    arrivals: Mapping[str, Any]
    requests: NotRequired[int]
    warm_up_requests: NotRequired[int]
    in_flight_max: NotRequired[int]
    each: NotRequired[bool]
    tiers: Sequence[TierScenario]


class Percentile(TypedDict):
    """A reported percentile; q in percent."""

    q: float
    value_s: float
    half_width_s: float | None
    sufficient: bool


class Latency(TypedDict):
    """Latencies [s] with half the widths of their 95 % intervals."""

    samples: int
    mean_s: float
    mean_half_width_s: float | None
    percentiles: list[Percentile]


class TierReport(TypedDict):
    """The figures of one tier over the measured time."""

    name: str
    latency: Latency
    failed: int
    lost_share: float
    utilisation: float


class Report(TypedDict):
    """The report of one scenario; `each_s` if requested, None for a failed request."""

    name: str
    stopped: Literal["done", "unstable", "events"]
    latency: Latency
    failed: int
    each_s: NotRequired[list[float | None]]
    tiers: list[TierReport]


class Answer(TypedDict):
    """Reports in the scenarios' order."""

    reports: list[Report]
    events: int
    wall_s: float
    threads: int


class Difference(TypedDict):
    """The first decision of a replay that differs."""

    line: int
    recorded: str
    replayed: str


class Replay(TypedDict):
    """The simulator's decisions at the points of an arbiter's trace."""

    policy: str
    servers: int
    compared: int
    equal: int
    grants: int
    ended: Literal["exit", "full", "cut"]
    first_difference: Difference | None
