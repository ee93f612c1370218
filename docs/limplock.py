"""Current results of limplock's rows: the table and counts of docs/results/limplock.md, from
docs/results/limplock.toml.

For each row and release one run counts: the newest that is valid and has three repeats or more. If
several parts of a row limp one after the other, they are one row: yes if the verdict of any part is
yes, otherwise the verdict that leaves most open. A verdict other than yes becomes under-dosed by
the row's mechanism, even if the run is older than that verdict.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.kinds.limplock.judge.result import CLASSES
from experiments.kinds.limplock.judge.rule import Verdict, combine_verdicts
from experiments.kinds.limplock.row import Row, rows
from experiments.paths import ROOT

DATA = ROOT / "docs" / "results" / "limplock.toml"
TABLE = ROOT / "docs" / "results" / "limplock.md"
AGES = {"today": "Today's releases", "paper": "The paper's"}
_ORDER: tuple[Verdict, ...] = ("yes", "no", "insufficient", "under-dosed")
_LABELS = {"insufficient": "undecided"}
_SIGNS = {"insufficient": "?", "under-dosed": "<"}
Verdicts = tuple[Verdict, ...]


@dataclass(frozen=True)
class RowResult:
    """The verdicts on a row with a release, and the start and commit of the run that counts."""

    verdicts: Verdicts
    when: dt.datetime
    commit: str


def current_results(text: str, known: Mapping[str, Row]) -> dict[tuple[str, str], RowResult]:
    """Return the results of the runs that count, by row and age.

    Parameters: text, of limplock.toml.
    """
    results: dict[tuple[str, str], RowResult] = {}
    for run in sorted(tomllib.loads(text)["runs"], key=lambda record: record["when"]):
        verdicts_by_key: dict[tuple[str, str], list[Verdicts]] = {}
        for entry in run["rows"]:
            verdicts = apply_mechanism(
                known[entry["row"]], entry["said"], entry.get("put"), entry.get("bound")
            )
            verdicts_by_key.setdefault((entry["row"], entry["age"]), []).append(verdicts)
        for key, parts in verdicts_by_key.items():
            combined = tuple(combine_verdicts(column) for column in zip(*parts, strict=True))
            results[key] = RowResult(combined, run["when"], run["commit"])
    return results


def apply_mechanism(
    row: Row, verdicts: Sequence[Verdict], put: float | None, bound: float | None
) -> Verdicts:
    """Return a run's verdicts, corrected by the row's mechanism.

    Raises: ValueError if the row has a mechanism and the run does not say what was put in.
    """
    if row.mechanism is None:
        return tuple(verdicts)
    if put is None or bound is None:
        raise ValueError(f"{row.name}: a run without put and bound")
    if put / bound >= row.mechanism.share_least:
        return tuple(verdicts)
    return tuple(
        "under-dosed" if verdict != "yes" and name in row.mechanism.verdicts else verdict
        for name, verdict in zip(CLASSES, verdicts, strict=True)
    )


def table(results: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row]) -> str:
    """Return a table of the paper's rows: its verdicts and slowdown, and our verdicts."""
    lines = [
        "| row | paper | its slowdown | today's release | run | the paper's release | run |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted(known, key=_sort_key):
        row = known[name]
        if row.paper is None:
            continue
        paper = ", ".join(getattr(row.paper, name) for name in CLASSES)
        slower = f"{row.paper.slowdown:g} ×" if row.paper.slowdown else ""
        ours = [cell for age in AGES for cell in _cells(results.get((name, age)))]
        lines.append(f"| {' | '.join([_title(row), paper, slower, *ours])} |")
    return "\n".join(lines)


def counts(results: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row], age: str) -> str:
    """Return the counts of the paper's rows by verdict, for operation, node and cluster each."""
    paper = [name for name, row in known.items() if row.paper is not None]
    texts = []
    for index, class_name in enumerate(CLASSES):
        tally = Counter(
            results[name, age].verdicts[index] if (name, age) in results else "not run"
            for name in paper
        )
        labels = [f"{tally[verdict]} {_LABELS.get(verdict, verdict)}" for verdict in _ORDER]
        labels += [f"{tally['not run']} not run"] if tally["not run"] else []
        texts.append(f"{class_name} {', '.join(labels)}")
    return "; ".join(texts)


def count_equal(
    results: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row], age: str
) -> str:
    """Return the counts of equal verdicts, of the rows with two decided verdicts, by class."""
    texts = []
    for index, class_name in enumerate(CLASSES):
        pairs = [
            (getattr(row.paper, class_name), results[name, age].verdicts[index])
            for name, row in known.items()
            if row.paper is not None and (name, age) in results
        ]
        decided = [(paper, ours) for paper, ours in pairs
                if paper in ("yes", "no") and ours in ("yes", "no")]  # fmt: skip
        equal = sum(paper == ours for paper, ours in decided)
        texts.append(f"{class_name} {equal} of {len(decided)}")
    return ", ".join(texts)


def short_counts(results: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row]) -> str:
    """Return the counts of today's releases in the form of README.md.

    The order is yes, no, undecided and under-dosed.
    """
    paper = [name for name, row in known.items() if row.paper is not None]
    texts = []
    for index, class_name in enumerate(CLASSES):
        tally = Counter(results[name, "today"].verdicts[index] for name in paper)
        texts.append(f"{class_name} {'/'.join(str(tally[verdict]) for verdict in _ORDER)}")
    return ", ".join(texts)


def render_page() -> str:
    """Return the text of limplock.md with the current table and counts."""
    known = rows()
    results = current_results(DATA.read_text(encoding="utf-8"), known)
    lines = [
        f"- {heading}: {counts(results, known, age)}. "
        f"As the paper's, of those that both give: {count_equal(results, known, age)}."
        for age, heading in AGES.items()
    ]
    text = TABLE.read_text(encoding="utf-8")
    text = replace_part(text, "rows", f"\n{table(results, known)}\n")
    return replace_part(text, "counts", "\n" + "\n".join(lines) + "\n")


def replace_part(text: str, name: str, part: str) -> str:
    """Replace the part of a text between `<!-- name -->` and `<!-- /name -->`.

    Raises: ValueError if a mark is not there exactly once.
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{begin} and {end}: each once")
    before, rest = text.split(begin)
    return f"{before}{begin}{part}{end}{rest.split(end)[1]}"


def _cells(result: RowResult | None) -> tuple[str, str]:
    if result is None:
        return "–", ""
    signs = ", ".join(_SIGNS.get(verdict, verdict) for verdict in result.verdicts)
    return signs, f"{result.when:%-d %b %H:%M}"


def _title(row: Row) -> str:
    beside = f" beside {row.beside.operation}" if row.beside else ""
    part = {"nic": "card", "disk": "disk"}[row.limpware]
    return f"{row.name} {row.workload.operation}{beside}; {' or '.join(row.injected)}'s {part}"


def _sort_key(name: str) -> tuple[int, int]:
    return "FHZCBE".index(name[0]), int(name[1:])
