"""The verdicts of each row and scenario from the files of a run, beside the paper's verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from core.json_object import JsonObject
from core.runfiles.manifest import manifest_if_any
from experiments.kinds.limplock.judge.coverage import missing_measurements
from experiments.kinds.limplock.judge.dose import Dose, dose_of
from experiments.kinds.limplock.judge.lasting import courses
from experiments.kinds.limplock.judge.probes import SCHEMA
from experiments.kinds.limplock.judge.remedies import remedies_of
from experiments.kinds.limplock.judge.rule import (
    Limplock,
    Measured,
    Rule,
    Verdict,
    combine_verdicts,
    judge,
)
from experiments.kinds.limplock.judge.search import Search, summarise_search, value_of
from experiments.kinds.limplock.row import Row, rows
from experiments.kinds.limplock.scenarios import BASE, CRASH, scenarios_of
from experiments.kinds.limplock.windows import (
    ASKED_FILE,
    PROBE,
    WHITEBOX_FILE,
    Key,
    RunInputs,
    Window,
    group_by_part,
    later_bases,
    read_windows,
)
from experiments.record.result import Findings, not_measured

CLASSES: tuple[Literal["operation", "node", "cluster"], ...] = ("operation", "node", "cluster")
_LETTERS = {"operation": "O", "node": "N", "cluster": "C"}


_NOTHING: JsonObject = {
    "slowdown": None,
    "operation": "insufficient",
    "node": "insufficient",
    "cluster": "insufficient",
    "reason": "the base was cut short",
    "scope": [],
    "nodes": [],
    "streams": [],
}


def analyse(folder: Path) -> Findings:
    manifest = manifest_if_any(folder)
    inputs, windows = read_windows(folder)
    operations = pl.read_parquet(folder / ASKED_FILE)
    probes = operations.filter(purpose=PROBE)
    spec = manifest["spec"]["limplock"]
    rule = Rule.model_validate(spec["rule"])
    known = rows()
    whitebox = pl.read_parquet(folder / WHITEBOX_FILE)
    doses = partial(_dose, inputs, manifest["spec"]["fleet"], whitebox)
    parts = group_by_part(windows)
    scenarios = [
        _judge_scenario(parts[key], known[key[1]], scenario, probes, rule, inputs, doses)
        for key, scenario in _scenario_keys(parts, spec)
    ]
    if search := spec.get("search"):
        scenarios.sort(key=lambda scenario: value_of(scenario["scenario"]))
    scenarios += _cut_short_scenarios(windows, inputs)
    for scenario in scenarios:
        scenario["endures"] = spec.get("endure") is not None
    summary = _summary(scenarios, known, spec.get("reference"))
    arms = list(dict.fromkeys(row["arm"] for row in summary))
    letters = {
        " ".join([row["row"], *distinguishing_labels(row, summary)]): _letters(row)
        for row in summary
    }
    body = {
        "scale": inputs.scale,
        "rule": rule.model_dump(),
        "arms": arms,
        "rows": summary,
        "scenarios": scenarios,
        "letters": letters,
        "abandoned": list(inputs.abandoned),
        "zones": summarise_search(windows, Search.model_validate(search)) if search else None,
        "remedies": _remedies(windows, scenarios, spec.get("reference"), rule),
        "courses": courses(inputs, windows, operations) if spec.get("endure") else None,
    }
    verdicts = not_measured(manifest["verdicts"], missing_measurements(manifest["spec"], windows))
    summary_text = ", ".join(f"{name} {letter}" for name, letter in letters.items())
    return Findings(body, verdicts, found=summary_text)


def _scenario_keys(
    parts: Mapping[Key, Sequence[Window]], spec: Mapping[str, Any]
) -> list[tuple[Key, str]]:
    """Return each measured scenario. Rows are in the order of measurement, their scenarios in the
    design's order from the mildest on, because each repeat had its own order.
    """
    rank = {
        scenario.name: k
        for k, scenario in enumerate(scenarios_of(spec["severities"], spec["crash"]))
    }
    return [
        (key, name)
        for key, part_windows in parts.items()
        for name in sorted(
            dict.fromkeys(window.scenario for window in part_windows if window.scenario != BASE),
            key=lambda name: rank.get(name, len(rank)),
        )
    ]


def _dose(
    inputs: RunInputs, fleet: Mapping[str, Any], whitebox: pl.DataFrame, row: Row,
    faulty: Sequence[Window], probes: pl.DataFrame,
) -> Dose | None:  # fmt: skip
    """Return the dose of a row's scenario; None if the row has no mechanism.

    Parameters: probes, as probes.SCHEMA.
    """
    if row.mechanism is None:
        return None
    healthy = probes.filter(needs="neither")["node"].n_unique()
    return dose_of(
        row.mechanism, inputs.counts[row.name], row.workload.size_kb, faulty, healthy, fleet,
        row.injected_role or row.system, whitebox,
    )  # fmt: skip


def distinguishing_labels(
    row: Mapping[str, Any], summary: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the labels of a row beside its name: its arm, if there are several arms, and its
    limping part, if several parts of the row limp one after another.
    """
    parts = {entry["part"] for entry in summary if entry["row"] == row["row"]}
    arms = {entry["arm"] for entry in summary}
    return [row["arm"]] * (len(arms) > 1) + [row["part"]] * (len(parts) > 1)


def _cut_short_scenarios(windows: Sequence[Window], inputs: RunInputs) -> list[JsonObject]:
    """Return an entry for each row without a scenario because its bases were cut short."""
    scenarios: list[JsonObject] = []
    for part_windows in group_by_part(windows).values():
        bases = later_bases(part_windows)
        if all(window.scenario == BASE for window in part_windows) and _count_cut(bases.values()):
            scenarios.append({**_facts(part_windows, BASE, bases, {}, inputs), **_NOTHING})
    return scenarios


def _facts(
    windows: Sequence[Window], scenario: str, base: Mapping[int, Window],
    faulty: Mapping[int, Window], inputs: RunInputs,
) -> JsonObject:  # fmt: skip
    """Return the figures of a row's runs under a scenario, without verdicts.

    Parameters: windows, all of the row; base and faulty, by repeat.
    """
    arm, name, part = windows[0].key
    runs = list((faulty or base).values())
    closing_bases = inputs.closing_bases(windows[0].key)
    return {
        "arm": arm,
        "row": name,
        "part": part,
        "scenario": scenario,
        "repeats": len(runs),
        "count": inputs.counts[name],
        "base_s": float(np.median([window.took_s for window in base.values()])),
        "base_all_s": [window.took_s for window in base.values()],
        "closing_all_s": [
            closing_bases[repeat].took_s for repeat in faulty if repeat in closing_bases
        ],
        "took_all_s": [window.took_s for window in faulty.values()],
        "died_s": [window.died_by_part for window in faulty.values()],
        "dose": None,
        "cut": _count_cut(faulty.values()),
        "bases_cut": _count_cut(later_bases(windows).values()),
        "timeout_factor": inputs.timeout_factor[name],
        "limping": runs[0].labels[runs[0].limping],
        "moved": sum(window.moved for window in faulty.values()),
        "anew": sum(window.whole_after_s is None for window in faulty.values()),
        "stuck": sum(window.stuck for window in faulty.values()),
        "cold": sum(window.cold for window in faulty.values()),
        "bases_cold": sum(window.cold for window in base.values()),
        "errors": sum(window.errors for window in runs),
        "endures": False,
    }


def _count_cut(windows: Iterable[Window]) -> int:
    return sum(window.cut for window in windows)


def _remedies(
    windows: Sequence[Window],
    scenarios: Sequence[Mapping[str, Any]],
    reference: str | None,
    rule: Rule,
) -> list[dict[str, object]] | None:
    """Return the remedies, each side with its verdicts of node and cluster; None if the design has
    no reference arm.
    """
    if reference is None:
        return None
    judged = {
        (scenario["arm"], scenario["row"], scenario["part"], scenario["scenario"]): scenario
        for scenario in scenarios
    }
    lines = [asdict(remedy) for remedy in remedies_of(windows, reference, rule)]
    for line in lines:
        for side in (line["without"], line["remedy"]):
            verdicts = judged.get((side["arm"], line["row"], line["part"], line["scenario"]), {})
            side |= {name: verdicts.get(name, "insufficient") for name in ("node", "cluster")}
    return lines


def _judge_scenario(
    windows: Sequence[Window], row: Row, scenario: str, probes: pl.DataFrame, rule: Rule,
    inputs: RunInputs, dose_in: Callable[[Row, Sequence[Window], pl.DataFrame], Dose | None],
) -> JsonObject:  # fmt: skip
    faulty = {window.repeat: window for window in windows if window.scenario == scenario}
    base = {repeat: window for repeat, window in later_bases(windows).items() if repeat in faulty}
    measured = measured_of(row, base, faulty, probes)
    dose = dose_in(row, list(faulty.values()), measured.probes)
    closing_bases = inputs.closing_bases(windows[0].key)
    closing = [
        (base[repeat].duration, closing_bases[repeat].duration)
        for repeat in faulty
        if repeat in closing_bases
    ]
    limplock = judge(replace(measured, closing=closing, dose=dose), rule)
    facts = _facts(windows, scenario, base, faulty, inputs)
    facts["dose"] = None if dose is None else {**asdict(dose), "share": dose.share}
    return {**facts, **_json(limplock)}


def measured_of(
    row: Row, base: Mapping[int, Window], faulty: Mapping[int, Window], probes: pl.DataFrame
) -> Measured:
    """Return a row's repeats as input of the rule; nodes are named by their parts.

    Parameters: base and faulty by repeat; probes as ASKED. All scenarios of a repeat share its
    base: the base's probes end at second 0, and the fault's probes begin there.
    """
    frames = [pl.DataFrame(schema=SCHEMA)]
    for repeat, window in faulty.items():
        calm = base[repeat]
        inside = (pl.col("start_s") >= calm.start_s) & (pl.col("end_s") <= calm.end_s)
        under_way = (pl.col("start_s") >= window.start_s) & (pl.col("start_s") < window.end_s)
        frames.append(_label_probes(row, calm, probes.filter(inside), repeat, calm.end_s))
        frames.append(_label_probes(row, window, probes.filter(under_way), repeat, window.start_s))
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
        base=[base[repeat].duration for repeat in faulty],
        faulty=[window.duration for window in faulty.values()],
        down_s=down_s,
    )


def _label_probes(
    row: Row, window: Window, probes: pl.DataFrame, repeat: int, zero_s: float
) -> pl.DataFrame:
    """Return the row's probes in this window, with their need of the limping node."""
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
        probes.join(needs, on=["machine", "operation"])
        .with_columns(
            pl.lit(repeat, pl.Int64).alias("repeat"),
            pl.col("start_s") - zero_s,
            pl.col("end_s") - zero_s,
        )
        .select(SCHEMA.names())
    )


def _json(limplock: Limplock) -> JsonObject:
    return {
        "slowdown": asdict(limplock.operation.slowdown) if limplock.operation.slowdown else None,
        "operation": limplock.operation.verdict,
        "reason": limplock.operation.reason,
        "node": limplock.node,
        "cluster": limplock.cluster,
        "scope": list(limplock.scope),
        "nodes": [asdict(node) for node in limplock.nodes],
        "streams": [
            {**asdict(stream.stream), **asdict(stream.judgement), "down": stream.down}
            for stream in limplock.streams
        ],
    }


def _summary(
    scenarios: Sequence[JsonObject], known: Mapping[str, Row], reference: str | None
) -> list[JsonObject]:
    """Return each row of each arm; a crash does not count.

    Parameters: reference, the arm with the release as it is. The other arms are remedies then: they
    are not compared with the paper, which had none.
    """
    result: list[JsonObject] = []
    groups: dict[Key, list[JsonObject]] = {}
    for scenario in scenarios:
        groups.setdefault((scenario["arm"], scenario["row"], scenario["part"]), []).append(scenario)
    for (arm, name, part), row_scenarios in groups.items():
        limping = [scenario for scenario in row_scenarios if scenario["scenario"] != CRASH]
        row = known[name]
        paper = None if row.paper is None else row.paper.model_dump(mode="json")
        compared_paper = paper if reference in (None, arm) else None
        verdicts: dict[str, Verdict] = {
            key: combine_verdicts([scenario[key] for scenario in limping]) for key in CLASSES
        }
        result.append({
            "arm": arm,
            "row": name,
            "part": part,
            "protocol": row.protocol,
            "limpware": row.limpware,
            "workload": row.workload.model_dump(mode="json", exclude_none=True),
            "count": row_scenarios[0]["count"],
            "base_s": row_scenarios[0]["base_s"],
            "repeats": min(scenario["repeats"] for scenario in row_scenarios),
            **verdicts,
            "paper": paper,
            "agrees": {key: _agrees(compared_paper, key, ours) for key, ours in verdicts.items()},
        })  # fmt: skip
    return result


def _agrees(paper: Mapping[str, Any] | None, name: str, ours: Verdict) -> bool | None:
    """Return True if both verdicts are equal; None if one of them decides nothing."""
    if paper is None or paper[name] == "unread" or ours not in ("yes", "no"):
        return None
    return bool(paper[name] == ours)


def _letters(row: Mapping[str, Any]) -> str:
    """Return a row's limplocks as letters: `O C`; `-`: none; `N?`: not known; `N<`: under-dosed."""
    formats = {"yes": "{}", "insufficient": "{}?", "under-dosed": "{}<", "no": ""}
    letters = [formats[row[name]].format(letter) for name, letter in _LETTERS.items()]
    return " ".join(filter(None, letters)) or "-"
