"""The limplock of a row: operation, node, cluster, each yes, no, insufficient or under-dosed.

- **Operation**: the row's own operation is slower than `factor`.
- **Node**: a node is slow in operations that need no limping part. On the limping node these are
  local ones; on any other, those that do not use the limping one: the limplock spread.
- **Cluster**: an operation is slow on every node that serves it, so that no node of the cluster
  serves it as before. `scope` names these operations. An operation that a single node serves for
  all (a master's) is among them as soon as that node is slow in it.

A slowdown is above `factor` if its lower bound is, and not above it if its upper bound is below.
Otherwise the verdict is insufficient, as it is if the base varies too much. A node that went down
is judged by the time before that; if there is no such time, it crashed, and does not limp.

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
_SPREAD_LEAST = 2  # base values; with fewer, their noise is unknown


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
    """The repeats of a row. The time of a run is "at least" if the operation was not finished."""

    limping: str  # the node
    fault_s: Mapping[int, float]  # by repeat
    probes: pl.DataFrame  # as probes.SCHEMA
    base: Sequence[Duration]  # runs of the row's operation without the fault
    faulty: Sequence[Duration]
    down_s: Mapping[tuple[int, str], float] = field(default_factory=dict)
    """Time from which a node is known to have been down until the fault's end, by repeat and node.
    Probes cannot tell a machine that is gone from a very slow one, because neither answers."""
    closing: Sequence[tuple[Duration, Duration]] = ()
    """The base and the closing base of each repeat that has both."""
    dose: Dose | None = None
    """Share of the row's mechanism that the operations could fill; None: it has no mechanism."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, the reason if it is open, and the slowdown if it is known."""

    verdict: Verdict
    reason: str = ""
    slowdown: Slowdown | None = None


@dataclass(frozen=True)
class Since:
    """The time from the fault to being slow [s]: the median of the repeats, and an interval."""

    seconds: float
    low_s: float
    high_s: float
    confidence: float  # that the interval holds the median of all possible repeats


@dataclass(frozen=True)
class StreamVerdict:
    """A stream's verdict. `down`: in most repeats all its probes failed at the end."""

    stream: Stream
    judgement: Judgement
    down: bool
    since: Since | None  # if it is slow


@dataclass(frozen=True)
class NodeVerdict:
    node: str
    verdict: Verdict
    down: bool
    since: Since | None


@dataclass(frozen=True)
class Limplock:
    """The three verdicts and their reasons; `nodes` in the order in which they became slow."""

    operation: Judgement
    node: Verdict
    cluster: Verdict
    scope: tuple[str, ...]
    nodes: tuple[NodeVerdict, ...]
    streams: tuple[StreamVerdict, ...]


def judge(measured: Measured, rule: Rule) -> Limplock:
    """Return the verdicts of a row.

    Raises: InputError if the probes are not as `probes.SCHEMA` says.
    """
    findings = probe_findings(measured.probes, measured.fault_s, measured.down_s,
                              factor=rule.factor, judged_share=rule.judged_share)  # fmt: skip
    streams = tuple(_judge_stream(stream, findings[stream], rule) for stream in sorted(findings))
    nodes = _judge_nodes(streams, measured.limping)
    cluster, scope = _judge_cluster(streams)
    node = combine_verdicts([node.verdict for node in nodes])
    operation = judge_operation(measured.base, measured.faulty, rule)
    if drift := describe_drift(measured.closing, rule):
        operation = replace(operation, verdict="insufficient", reason=drift)
        node, cluster, scope = "insufficient", "insufficient", ()
    return Limplock(
        operation=_apply_dose_to_operation(operation, measured.dose),
        node=_apply_dose(node, "node", measured.dose),
        cluster=_apply_dose(cluster, "cluster", measured.dose),
        scope=scope,
        nodes=nodes,
        streams=streams,
    )


def describe_drift(closing: Sequence[tuple[Duration, Duration]], rule: Rule) -> str:
    """Describe how bases changed from begin to end of their repeats; "" if they did not, or it is
    unknown."""
    if any(after.at_least for _, after in closing):
        return "a closing base did not end well"
    ratios = [after.seconds / before.seconds for before, after in closing if before.seconds > 0.0]
    if not ratios or min(ratios) <= 0.0:
        return ""
    drift = float(np.exp(np.mean(np.log(ratios))))
    if 1.0 / rule.drift_max <= drift <= rule.drift_max:
        return ""
    return f"the base drifted by {drift:.3g} from begin to end"


def _apply_dose(verdict: Verdict, name: Class, dose: Dose | None) -> Verdict:
    """Return the verdict if the dose is large enough for it; else an open verdict."""
    if dose is None or verdict == "yes" or name not in dose.verdicts:
        return verdict
    if dose.share is None:
        return "insufficient"
    return verdict if dose.share >= dose.share_least else "under-dosed"


def _apply_dose_to_operation(judgement: Judgement, dose: Dose | None) -> Judgement:
    verdict = _apply_dose(judgement.verdict, "operation", dose)
    if dose is None or verdict == judgement.verdict:
        return judgement
    return replace(judgement, verdict=verdict, reason=dose.words)


def judge_operation(base: Sequence[Duration], faulty: Sequence[Duration], rule: Rule) -> Judgement:
    if any(duration.at_least for duration in base):
        return Judgement("insufficient", reason="a base run did not end well")
    base_s = [duration.seconds for duration in base]
    return _judge_slowdown(base_s, base_s, faulty, rule)


def noise(values_s: Sequence[float]) -> float:
    """Return the spread of values: their geometric standard deviation."""
    return float(np.exp(np.std(np.log(values_s), ddof=1)))


def _judge_slowdown(
    base_s: Sequence[float], spread_s: Sequence[float], faulty: Sequence[Duration], rule: Rule
) -> Judgement:
    if min((*base_s, *spread_s), default=0.0) <= 0.0:
        return Judgement("insufficient", reason="there is no base")
    ratio = slowdown(base_s, faulty, rule.confidence)
    if ratio is None:
        return Judgement("insufficient", reason=f"too few repeats for {rule.confidence:g}")
    if len(spread_s) < _SPREAD_LEAST:
        return Judgement("insufficient", "too little of the base to tell its noise", ratio)
    if (spread := noise(spread_s)) > rule.noise_max:
        return Judgement("insufficient", f"the base differs by {spread:.3g} from itself", ratio)
    if ratio.low > rule.factor:
        return Judgement("yes", slowdown=ratio)
    if ratio.high is not None and ratio.high < rule.factor:
        return Judgement("no", slowdown=ratio)
    return Judgement("insufficient", "the bounds lie on both sides of the factor", ratio)


def _judge_stream(stream: Stream, repeats: Sequence[ProbeFinding], rule: Rule) -> StreamVerdict:
    base_s = [finding.base_s for finding in repeats if finding.base_s is not None]
    spread_s = [half for finding in repeats for half in finding.halves_s]
    faulty = [finding.faulty for finding in repeats if finding.faulty is not None]
    down = 2 * sum(finding.down_s is not None for finding in repeats) > len(repeats)
    if len(base_s) < len(repeats):
        judgement = Judgement("insufficient", reason="a repeat has no base")
    elif down and not faulty:
        judgement = Judgement("no", reason="it went down at once")
    else:
        judgement = _judge_slowdown(base_s, spread_s, faulty, rule)
    since = _slow_since(repeats) if judgement.verdict == "yes" else None
    return StreamVerdict(stream, judgement, down, since)


def _slow_since(repeats: Sequence[ProbeFinding]) -> Since | None:
    """Return the time at which a stream became slow. The least and the largest value of r repeats
    enclose the median with confidence 1 - 2^(1 - r)."""
    times = [finding.slow_s for finding in repeats if finding.slow_s is not None]
    if not times:
        return None
    return Since(
        seconds=float(np.median([(low + high) / 2 for low, high in times])),
        low_s=min(low for low, _ in times),
        high_s=max(high for _, high in times),
        confidence=1.0 - 2.0 ** (1 - len(times)),
    )


def _judge_nodes(streams: Sequence[StreamVerdict], limping: str) -> tuple[NodeVerdict, ...]:
    """Judge every node that got an operation that needs nothing that limps."""
    nodes = []
    for name, group in groupby(streams, key=lambda judged: judged.stream.node):
        needs = "node" if name == limping else "neither"
        node_streams = [judged for judged in group if judged.stream.needs == needs]
        if node_streams:
            times = [judged.since for judged in node_streams if judged.since is not None]
            first = min(times, key=lambda since: since.seconds, default=None)
            verdict = combine_verdicts([judged.judgement.verdict for judged in node_streams])
            down = any(judged.down for judged in node_streams)
            nodes.append(NodeVerdict(name, verdict, down, first))
    return tuple(sorted(nodes, key=lambda node: node.since.seconds if node.since else np.inf))


def combine_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """Return yes if one verdict is, no if all are; else the one that leaves most open."""
    for verdict in ("yes", "insufficient", "under-dosed", "no"):
        if verdict in verdicts:
            return verdict
    return "insufficient"


def _judge_cluster(streams: Sequence[StreamVerdict]) -> tuple[Verdict, tuple[str, ...]]:
    by_operation: dict[str, list[StreamVerdict]] = {}
    for stream_verdict in streams:
        by_operation.setdefault(stream_verdict.stream.operation, []).append(stream_verdict)
    locked = {operation: _judge_lock(group) for operation, group in by_operation.items()}
    scope = tuple(sorted(name for name, verdict in locked.items() if verdict == "yes"))
    return combine_verdicts(list(locked.values())), scope


def _judge_lock(streams: Iterable[StreamVerdict]) -> Verdict:
    """Judge if no node can do an operation as before, and not only because all are down."""
    verdicts = set()
    for stream_verdict in streams:
        if stream_verdict.judgement.verdict == "no" and not stream_verdict.down:
            return "no"
        verdicts.add(stream_verdict.judgement.verdict)
    if "insufficient" in verdicts:
        return "insufficient"
    return "yes" if "yes" in verdicts else "no"
