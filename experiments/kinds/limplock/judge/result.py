"""From the files of a run to the verdicts of each row and scenario, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import polars as pl

from core.runfiles.manifest import manifest_if_any
from experiments.kinds.limplock.judge.coverage import missing_measurements
from experiments.kinds.limplock.judge.dose import Dose, dose_of
from experiments.kinds.limplock.judge.lasting import courses
from experiments.kinds.limplock.judge.probes import SCHEMA
from experiments.kinds.limplock.judge.remedies import remedies_of
from experiments.kinds.limplock.judge.rule import (
    Judgement,
    Limplock,
    Measured,
    Rule,
    Verdict,
    judge,
)
from experiments.kinds.limplock.judge.search import Search, searched, value_of
from experiments.kinds.limplock.row import Row, rows
from experiments.kinds.limplock.scenarios import BASE, CRASH, scenarios_of
from experiments.kinds.limplock.windows import (
    ASKED,
    ASKED_FILE,
    PROBE,
    WHITEBOX,
    WHITEBOX_FILE,
    Key,
    RunInputs,
    Window,
    by_part,
    later_bases,
    read_windows,
)
from experiments.record.records import read_table
from experiments.record.result import Findings, not_measured

CLASSES: tuple[Literal["operation", "node", "cluster"], ...] = ("operation", "node", "cluster")
_LETTERS = {"operation": "O", "node": "N", "cluster": "C"}


class Judged(TypedDict):
    """The verdicts of a scenario and what they rest on."""

    slowdown: dict[str, object] | None
    operation: Verdict
    reason: str
    node: Verdict
    cluster: Verdict
    scope: list[str]
    nodes: list[dict[str, object]]
    streams: list[dict[str, object]]


_NOTHING: Judged = {
    "slowdown": None,
    "operation": "insufficient",
    "node": "insufficient",
    "cluster": "insufficient",
    "reason": "the base was cut short",
    "scope": [],
    "nodes": [],
    "streams": [],
}


class ScenarioFacts(TypedDict):
    """A row under one severity: its repeats, and how many were cut short, moved, begun anew."""

    arm: str
    row: str
    part: str
    scenario: str
    repeats: int
    count: int
    base_s: float
    base_all_s: list[float]
    closing_all_s: list[float]
    took_all_s: list[float]
    died_s: list[dict[str, float]]
    dose: dict[str, object] | None
    cut: int
    bases_cut: int
    timeout_factor: float
    limping: str
    moved: int
    anew: int
    stuck: int
    cold: int
    bases_cold: int
    errors: int
    endures: bool


class JudgedScenario(Judged, ScenarioFacts):
    """A row under one severity, judged."""


class RowSummary(TypedDict):
    """A row of an arm over its severities, as in the paper's Table 1."""

    arm: str
    row: str
    part: str
    protocol: str
    limpware: str
    workload: dict[str, object]
    count: int
    base_s: float
    repeats: int
    operation: Verdict
    node: Verdict
    cluster: Verdict
    paper: dict[str, object] | None
    agrees: dict[str, bool | None]


def analyse(folder: Path) -> Findings:
    """Return the findings of a run's rows, from its files."""
    manifest = manifest_if_any(folder)
    left, windows = read_windows(folder)
    everything = read_table(folder / ASKED_FILE, ASKED)
    asked = everything.filter(purpose=PROBE)
    spec = manifest["spec"]["limplock"]
    rule = Rule.model_validate(spec["rule"])
    known = rows()
    doses = _Doses(left, manifest["spec"], read_table(folder / WHITEBOX_FILE, WHITEBOX))
    parts = by_part(windows)
    found = [
        _scenario(parts[key], known[key[1]], scenario, asked, rule, left, doses)
        for key, scenario in _scenarios(parts, spec)
    ]
    if spec.get("search") is not None:
        found.sort(key=lambda one: value_of(one["scenario"]))
    found += _unjudged(windows, left)
    for one in found:
        one["endures"] = spec.get("endure") is not None
    summary = _summary(found, known, spec.get("reference"))
    arms = list(dict.fromkeys(one["arm"] for one in summary))
    letters = {" ".join([one["row"], *told_apart(one, summary)]): _letters(one) for one in summary}
    body = {
        "scale": left.scale,
        "rule": rule.model_dump(),
        "arms": arms,
        "rows": summary,
        "scenarios": found,
        "letters": letters,
        "abandoned": list(left.abandoned),
        "zones": _zones(windows, spec.get("search")),
        "remedies": _remedies(windows, found, spec.get("reference"), rule),
        "courses": courses(left, windows, everything) if spec.get("endure") else None,
    }
    verdicts = not_measured(manifest["verdicts"], missing_measurements(manifest["spec"], windows))
    said = ", ".join(f"{name} {letter}" for name, letter in letters.items())
    return Findings(body, verdicts, found=said)


def _scenarios(
    parts: Mapping[Key, Sequence[Window]], spec: Mapping[str, Any]
) -> list[tuple[Key, str]]:
    """Return each scenario that was measured, by row as they came and then from the mildest on, as
    the design has them: each repeat had an order of its own.
    """
    rank = {one.name: k for k, one in enumerate(scenarios_of(spec["severities"], spec["crash"]))}
    return [
        (key, name)
        for key, mine in parts.items()
        for name in sorted(
            dict.fromkeys(w.scenario for w in mine if w.scenario != BASE),
            key=lambda name: rank.get(name, len(rank)),
        )
    ]


class _Doses:
    """Doses of all rows of a run."""

    def __init__(self, left: RunInputs, spec: Mapping[str, Any], whitebox: pl.DataFrame) -> None:
        self._left = left
        self._fleet = spec["fleet"]
        self._whitebox = whitebox

    def of(self, row: Row, faulty: Sequence[Window], probes: pl.DataFrame) -> Dose | None:
        """None of a row that needs none.

        Parameters: probes, as probes.SCHEMA.
        """
        if row.mechanism is None:
            return None
        healthy = probes.filter(needs="neither")["node"].n_unique()
        count, size_kb = self._left.counts[row.name], row.workload.size_kb
        return dose_of(
            row.mechanism, count, size_kb, faulty, healthy, self._fleet,
            row.injected_role or row.system, self._whitebox,
        )  # fmt: skip


def told_apart(one: Mapping[str, Any], summary: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row's label beside its name: its arm where there are several, and the part that
    limps where several do in it, one after another.
    """
    parts = {other["part"] for other in summary if other["row"] == one["row"]}
    arms = {other["arm"] for other in summary}
    return [one["arm"]] * (len(arms) > 1) + [one["part"]] * (len(parts) > 1)


def _zones(
    windows: Sequence[Window], search: Mapping[str, Any] | None
) -> list[dict[str, object]] | None:
    """Of a search; None if the design has none."""
    return None if search is None else searched(windows, Search.model_validate(search))


def _unjudged(windows: Sequence[Window], left: RunInputs) -> list[JudgedScenario]:
    """Of each row that has no scenario, for its bases were cut short: that."""
    found: list[JudgedScenario] = []
    for mine in by_part(windows).values():
        bases = later_bases(mine)
        if all(w.scenario == BASE for w in mine) and _cut(bases.values()):
            found.append({**_facts(mine, BASE, bases, {}, left), **_NOTHING})
    return found


def _facts(
    mine: Sequence[Window], scenario: str, base: Mapping[int, Window],
    faulty: Mapping[int, Window], left: RunInputs,
) -> ScenarioFacts:  # fmt: skip
    """Return the runs of a row under a scenario, of which nothing is judged yet.

    Parameters: mine, all windows of its row; base, of the repeats that have it.
    """
    arm, name, part = mine[0].key
    runs = list((faulty or base).values())
    again = {w.repeat: w for w in left.closing if w.key == mine[0].key}
    return {
        "arm": arm,
        "row": name,
        "part": part,
        "scenario": scenario,
        "repeats": len(runs),
        "count": left.counts[name],
        "base_s": float(np.median([w.took_s for w in base.values()])),
        "base_all_s": [w.took_s for w in base.values()],
        "closing_all_s": [again[repeat].took_s for repeat in faulty if repeat in again],
        "took_all_s": [w.took_s for w in faulty.values()],
        "died_s": [_died(w) for w in faulty.values()],
        "dose": None,
        "cut": _cut(faulty.values()),
        "bases_cut": _cut(later_bases(mine).values()),
        "timeout_factor": left.timeout_factor[name],
        "limping": runs[0].labels[runs[0].limping],
        "moved": sum(w.moved for w in faulty.values()),
        "anew": sum(w.whole_after_s is None for w in faulty.values()),
        "stuck": sum(w.stuck for w in faulty.values()),
        "cold": sum(w.cold for w in faulty.values()),
        "bases_cold": sum(w.cold for w in base.values()),
        "errors": sum(w.errors for w in runs),
        "endures": False,
    }


def _cut(windows: Iterable[Window]) -> int:
    return sum(window.cut for window in windows)


def _remedies(
    windows: Sequence[Window], found: Sequence[Mapping[str, Any]], reference: str | None, rule: Rule
) -> list[dict[str, object]] | None:
    """Of arms that are remedies, each side with its verdicts of node and cluster; None if the
    design does not say so.

    Parameters: found, the scenarios.
    """
    if reference is None:
        return None
    judged = {(one["arm"], one["row"], one["part"], one["scenario"]): one for one in found}
    lines = [asdict(one) for one in remedies_of(windows, reference, rule)]
    for line in lines:
        for side in (line["without"], line["remedy"]):
            mine = judged.get((side["arm"], line["row"], line["part"], line["scenario"]), {})
            side |= {name: mine.get(name, "insufficient") for name in ("node", "cluster")}
    return lines


def _scenario(
    mine: Sequence[Window], row: Row, scenario: str, asked: pl.DataFrame, rule: Rule,
    left: RunInputs, doses: _Doses,
) -> JudgedScenario:  # fmt: skip
    faulty = {w.repeat: w for w in mine if w.scenario == scenario}
    base = {repeat: one for repeat, one in later_bases(mine).items() if repeat in faulty}
    measured = measured_of(row, base, faulty, asked)
    dose = doses.of(row, list(faulty.values()), measured.probes)
    again = {w.repeat: w for w in left.closing if w.key == mine[0].key}
    closing = [(base[repeat].waited, again[repeat].waited) for repeat in faulty if repeat in again]
    found = judge(replace(measured, closing=closing, dose=dose), rule)
    facts = _facts(mine, scenario, base, faulty, left)
    facts["dose"] = None if dose is None else {**asdict(dose), "share": dose.share}
    return {**facts, **_json(found)}


def _died(window: Window) -> dict[str, float]:
    """Return the servers that ran out of memory, by their part, with the time until then [s]."""
    return {window.labels.get(name, name): since_s for name, since_s in window.died_s.items()}


def measured_of(
    row: Row, base: Mapping[int, Window], faulty: Mapping[int, Window], asked: pl.DataFrame
) -> Measured:
    """Return a row's repeats as the rule takes them; nodes are called by their parts.

    Parameters: base and faulty by repeat; asked, the probes as ASKED. A repeat's base is that of
    all its scenarios: its probes end at second 0, the fault's begin there.
    """
    frames = [pl.DataFrame(schema=SCHEMA)]
    for repeat, window in faulty.items():
        calm = base[repeat]
        whole = (pl.col("start_s") >= calm.start_s) & (pl.col("end_s") <= calm.end_s)
        begun = (pl.col("start_s") >= window.start_s) & (pl.col("start_s") < window.end_s)
        frames.append(_probes(row, calm, asked.filter(whole), repeat, calm.end_s))
        frames.append(_probes(row, window, asked.filter(begun), repeat, window.start_s))
    down_s = {
        (repeat, window.labels[machine]): since_s
        for repeat, window in faulty.items()
        for machine, since_s in window.gone_s.items()
    }
    first = next(iter(faulty.values()))
    return Measured(
        limping=first.labels[first.limping],
        fault_s={repeat: window.length_s for repeat, window in faulty.items()},
        probes=pl.concat(frames),
        base=[base[repeat].waited for repeat in faulty],
        faulty=[window.waited for window in faulty.values()],
        down_s=down_s,
    )


def _probes(
    row: Row, window: Window, asked: pl.DataFrame, repeat: int, zero_s: float
) -> pl.DataFrame:
    """Return those that the row has, by what they need of the node that limps in this window."""
    needs = pl.DataFrame(
        [
            (machine, probe.operation, label, probe.needs)
            for machine, label in window.labels.items()
            for probe in row.probes
            if (probe.at == "injected") == (machine == window.limping)
        ],
        dict.fromkeys(("machine", "operation", "node", "needs"), pl.String),
        orient="row",
    )
    return (
        asked.join(needs, on=["machine", "operation"])
        .with_columns(
            pl.lit(repeat, pl.Int64).alias("repeat"),
            pl.col("start_s") - zero_s,
            pl.col("end_s") - zero_s,
        )
        .select(SCHEMA.names())
    )


def _json(found: Limplock) -> Judged:
    return {
        "slowdown": asdict(found.operation.slowdown) if found.operation.slowdown else None,
        "operation": found.operation.verdict,
        "reason": found.operation.reason,
        "node": found.node,
        "cluster": found.cluster,
        "scope": list(found.scope),
        "nodes": [
            {
                "node": one.node,
                "verdict": one.verdict,
                "down": one.down,
                "since": one.since and asdict(one.since),
            }
            for one in found.nodes
        ],
        "streams": [
            {**asdict(one.stream), **_judged(one.judgement), "down": one.down}
            for one in found.streams
        ],
    }


def _judged(judgement: Judgement) -> dict[str, object]:
    return {
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "slowdown": judgement.slowdown and asdict(judgement.slowdown),
    }


def _summary(
    found: Sequence[JudgedScenario], known: Mapping[str, Row], reference: str | None
) -> list[RowSummary]:
    """Return each row of each arm; a crash is beside.

    Parameters: reference, the release as it is: arms that are remedies beside it are held against
    it, and not against the paper, which had none.
    """
    result: list[RowSummary] = []
    for arm, name, part in dict.fromkeys((f["arm"], f["row"], f["part"]) for f in found):
        mine = [f for f in found if (f["arm"], f["row"], f["part"]) == (arm, name, part)]
        limping = [f for f in mine if f["scenario"] != CRASH]
        row = known[name]
        paper = None if row.paper is None else row.paper.model_dump(mode="json")
        beside = paper if reference in (None, arm) else None
        verdicts = {name: over([f[name] for f in limping]) for name in CLASSES}
        result.append({
            "arm": arm,
            "row": name,
            "part": part,
            "protocol": row.protocol,
            "limpware": row.limpware,
            "workload": row.workload.model_dump(mode="json", exclude_none=True),
            "count": mine[0]["count"],
            "base_s": mine[0]["base_s"],
            "repeats": min(f["repeats"] for f in mine),
            "operation": verdicts["operation"],
            "node": verdicts["node"],
            "cluster": verdicts["cluster"],
            "paper": paper,
            "agrees": {name: _agrees(beside, name, one) for name, one in verdicts.items()},
        })  # fmt: skip
    return result


def over(verdicts: Iterable[Verdict]) -> Verdict:
    """Yes where one is, no where all are; of others what leaves most open."""
    listed = list(verdicts)
    for verdict in ("yes", "insufficient", "under-dosed", "no"):
        if verdict in listed:
            return verdict
    return "insufficient"


def _agrees(paper: Mapping[str, Any] | None, name: str, ours: Verdict) -> bool | None:
    """None where either says nothing."""
    if paper is None or paper[name] == "unread" or ours not in ("yes", "no"):
        return None
    return bool(paper[name] == ours)


def _letters(one: Mapping[str, Any]) -> str:
    """`O C`, `-` for none; `N?` is not known, `N<` under-dosed."""
    said = {"yes": "{}", "insufficient": "{}?", "under-dosed": "{}<", "no": ""}
    words = [said[one[name]].format(letter) for name, letter in _LETTERS.items()]
    return " ".join(filter(None, words)) or "-"
