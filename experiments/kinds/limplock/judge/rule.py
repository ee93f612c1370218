"""The limplock of a row: operation, node, cluster, each yes, no, insufficient or under-dosed.

- **Operation**: the row's own operation is slower than `factor`.
- **Node**: a node is slow in operations that need no limping part. On the limping node these are
  local ones; on any other, those that do not use the limping one: the limplock spread.
- **Cluster**: an operation is slow on every node that serves it, so that no node of the cluster
  serves it as before. `scope` names these operations. An operation that one node serves for all (a
  master's) belongs to them as soon as that node is slow in it.

Slower than `factor` is a slowdown whose lower bound is above it; not slower, one whose upper bound
is below it; else it is insufficient, as is a base that differs too much from itself. A node that
went down is judged by the time before; if there is none, it crashed, and does not limp.

A verdict other than yes is under-dosed if the operations could not fill the resource of the row's
limplock (`dose.py`), and insufficient if the base drifted from a repeat's begin to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Annotated, Literal

import numpy as np
import polars as pl
from pydantic import Field

from core.config_file import Share, Strict
from experiments.kinds.limplock.judge.dose import Class, Dose
from experiments.kinds.limplock.judge.probes import ProbeFinding, Stream, probe_findings
from experiments.kinds.limplock.judge.slowdown import Duration, Slowdown, slowdown

Verdict = Literal["yes", "no", "insufficient", "under-dosed"]
_SPREAD_LEAST = 2  # base values, without which nothing says how much they differ


class Rule(Strict):
    """The limits of the rule: what counts as slow, and with which certainty."""

    factor: Annotated[float, Field(gt=1)] = 3.0
    """Slowdown above which a row is limplock; the paper does not count 2."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Confidence of each bound."""
    noise_max: Annotated[float, Field(gt=1)] = 1.5
    """Largest geometric standard deviation of the bases for a verdict."""
    drift_max: Annotated[float, Field(gt=1)] = 1.5
    """Largest change from a repeat's base to its closing base (geometric mean of the repeats)
    for a verdict."""
    judged_share: Share = 1 / 3
    """Last part of the fault that counts, as a share."""


@dataclass(frozen=True)
class Measured:
    """The repeats of a row. Each run of the operation is at least so long if not finished."""

    limping: str  # the node
    fault_s: Mapping[int, float]  # by repeat
    probes: pl.DataFrame  # as probes.SCHEMA
    base: Sequence[Duration]  # runs of the row's operation without the fault
    faulty: Sequence[Duration]
    down_s: Mapping[tuple[int, str], float] = field(default_factory=dict)
    """Since when a node is known to have been down until the fault's end, by repeat and node: a
    machine that is gone may answer nothing, which probes cannot tell from a very slow one."""
    closing: Sequence[tuple[Duration, Duration]] = ()
    """The base of each repeat, and again at its end, of those that have both."""
    dose: Dose | None = None
    """How much of the row's mechanism the operations could fill; None: it has none."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, why there is none, and the slowdown where there is one."""

    verdict: Verdict
    slowdown: Slowdown | None = None
    reason: str = ""


@dataclass(frozen=True)
class Since:
    """When it became slow, after the fault's begin: the median of the repeats, and an interval."""

    seconds: float
    low_s: float
    high_s: float
    confidence: float  # that the interval holds the median over all repeats there might be


@dataclass(frozen=True)
class StreamJudged:
    """A stream's verdict. `down`: in most repeats it only failed in the end."""

    stream: Stream
    judgement: Judgement
    down: bool
    since: Since | None  # where it is slow


@dataclass(frozen=True)
class NodeJudged:
    """A node's verdict, and since when."""

    node: str
    verdict: Verdict
    down: bool
    since: Since | None


@dataclass(frozen=True)
class Limplock:
    """The three verdicts and what they rest on; `nodes` in the order in which they became slow."""

    rule: Rule
    operation: Judgement
    node: Verdict
    cluster: Verdict
    scope: tuple[str, ...]
    nodes: tuple[NodeJudged, ...]
    streams: tuple[StreamJudged, ...]


def judge(measured: Measured, rule: Rule) -> Limplock:
    """Return the verdicts of a row.

    Raises: InputError if the probes are not as `probes.SCHEMA` says.
    """
    found = probe_findings(
        measured.probes,
        measured.fault_s,
        measured.down_s,
        factor=rule.factor,
        judged_share=rule.judged_share,
    )
    streams = tuple(_stream(stream, found[stream], rule) for stream in sorted(found))
    nodes = _nodes(streams, measured.limping)
    cluster, scope = _cluster(streams)
    drift = drifted(measured.closing, rule)
    operation = judge_operation(measured.base, measured.faulty, rule)
    if drift:
        operation = replace(operation, verdict="insufficient", reason=drift)
    operation = _operation_dosed(operation, measured.dose)
    return Limplock(
        rule=rule,
        operation=operation,
        node=_dosed(_steady(_any([node.verdict for node in nodes]), drift), "node", measured.dose),
        cluster=_dosed(_steady(cluster, drift), "cluster", measured.dose),
        scope=() if drift else scope,
        nodes=nodes,
        streams=streams,
    )


def drifted(closing: Sequence[tuple[Duration, Duration]], rule: Rule) -> str:
    """Why a base is not what it was at its repeat's begin; "" where it is, or nothing says so."""
    if any(after.at_least for _, after in closing):
        return "a closing base did not end well"
    ratios = [after.seconds / before.seconds for before, after in closing if before.seconds > 0.0]
    if not ratios or min(ratios) <= 0.0:
        return ""
    drift = float(np.exp(np.mean(np.log(ratios))))
    if 1.0 / rule.drift_max <= drift <= rule.drift_max:
        return ""
    return f"the base drifted by {drift:.3g} from begin to end"


def _steady(verdict: Verdict, drift: str) -> Verdict:
    return "insufficient" if drift else verdict


def _dosed(verdict: Verdict, name: Class, dose: Dose | None) -> Verdict:
    """Return the verdict, where what was put in is enough for it."""
    if dose is None or verdict == "yes" or name not in dose.verdicts:
        return verdict
    if dose.share is None:
        return "insufficient"
    return verdict if dose.share >= dose.share_least else "under-dosed"


def _operation_dosed(found: Judgement, dose: Dose | None) -> Judgement:
    verdict = _dosed(found.verdict, "operation", dose)
    if dose is None or verdict == found.verdict:
        return found
    return replace(found, verdict=verdict, reason=dose.words)


def judge_operation(base: Sequence[Duration], faulty: Sequence[Duration], rule: Rule) -> Judgement:
    """True where the row's own operation is slow."""
    if any(one.at_least for one in base):
        return Judgement("insufficient", reason="a base run did not end well")
    base_s = [one.seconds for one in base]
    return _judged(base_s, base_s, faulty, rule)


def noise(values_s: Sequence[float]) -> float:
    """Return the spread of values: their geometric standard deviation."""
    return float(np.exp(np.std(np.log(values_s), ddof=1)))


def _judged(
    base_s: Sequence[float], spread_s: Sequence[float], faulty: Sequence[Duration], rule: Rule
) -> Judgement:
    if min((*base_s, *spread_s), default=0.0) <= 0.0:
        return Judgement("insufficient", reason="there is no base")
    found = slowdown(base_s, faulty, rule.confidence)
    if found is None:
        return Judgement("insufficient", reason=f"too few repeats for {rule.confidence:g}")
    if len(spread_s) < _SPREAD_LEAST:
        return Judgement("insufficient", found, "too little of the base to tell its noise")
    if (spread := noise(spread_s)) > rule.noise_max:
        return Judgement("insufficient", found, f"the base differs by {spread:.3g} from itself")
    if found.low > rule.factor:
        return Judgement("yes", found)
    if found.high is not None and found.high < rule.factor:
        return Judgement("no", found)
    return Judgement("insufficient", found, "the bounds lie on both sides of the factor")


def _stream(stream: Stream, repeats: Sequence[ProbeFinding], rule: Rule) -> StreamJudged:
    base_s = [one.base_s for one in repeats if one.base_s is not None]
    spread_s = [half for one in repeats for half in one.halves_s]
    faulty = [one.faulty for one in repeats if one.faulty is not None]
    down = 2 * sum(one.down_s is not None for one in repeats) > len(repeats)
    if len(base_s) < len(repeats):
        judgement = Judgement("insufficient", reason="a repeat has no base")
    elif down and not faulty:
        judgement = Judgement("no", reason="it went down at once")
    else:
        judgement = _judged(base_s, spread_s, faulty, rule)
    since = _since(repeats) if judgement.verdict == "yes" else None
    return StreamJudged(stream, judgement, down, since)


def _since(repeats: Sequence[ProbeFinding]) -> Since | None:
    """The least and the most of r repeats hold the median with 1 - 2^(1 - r)."""
    times = [one.slow_s for one in repeats if one.slow_s is not None]
    if not times:
        return None
    return Since(
        seconds=float(np.median([(low + high) / 2 for low, high in times])),
        low_s=min(low for low, _ in times),
        high_s=max(high for _, high in times),
        confidence=1.0 - 2.0 ** (1 - len(times)),
    )


def _nodes(streams: Sequence[StreamJudged], limping: str) -> tuple[NodeJudged, ...]:
    """Every node that was asked for something that needs nothing that limps."""
    found = []
    for name, group in groupby(streams, key=lambda one: one.stream.node):
        wanted = "node" if name == limping else "neither"
        own = [one for one in group if one.stream.needs == wanted]
        if own:
            since = [one.since for one in own if one.since is not None]
            first = min(since, key=lambda one: one.seconds, default=None)
            verdict = _any([one.judgement.verdict for one in own])
            found.append(NodeJudged(name, verdict, any(one.down for one in own), first))
    return tuple(sorted(found, key=lambda one: one.since.seconds if one.since else np.inf))


def _any(verdicts: Sequence[Verdict]) -> Verdict:
    """Yes if one is, no if all are."""
    if "yes" in verdicts:
        return "yes"
    return "no" if verdicts and set(verdicts) == {"no"} else "insufficient"


def _cluster(streams: Sequence[StreamJudged]) -> tuple[Verdict, tuple[str, ...]]:
    by_operation: dict[str, list[StreamJudged]] = {}
    for one in streams:
        by_operation.setdefault(one.stream.operation, []).append(one)
    locked = {operation: _locked(some) for operation, some in by_operation.items()}
    scope = tuple(sorted(name for name, verdict in locked.items() if verdict == "yes"))
    return _any(list(locked.values())), scope


def _locked(streams: Iterable[StreamJudged]) -> Verdict:
    """True where no node can do an operation as before, and not only because all are down."""
    verdicts = set()
    for one in streams:
        if one.judgement.verdict == "no" and not one.down:
            return "no"
        verdicts.add(one.judgement.verdict)
    if "insufficient" in verdicts:
        return "insufficient"
    return "yes" if "yes" in verdicts else "no"
