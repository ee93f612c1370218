"""Limplock's rows as they stand: the table and counts of docs/results/limplock.md, made of
docs/results/limplock.toml.

One rule says which run of a row and release counts: the newest that is valid and has three repeats
or more. Parts of a row that limp in turn are one row: yes where one is, else what leaves most open.
What is not yes is under-dosed by the row's mechanism, whatever a run said before that word was
there.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.kinds.limplock.judge.result import CLASSES, over
from experiments.kinds.limplock.judge.rule import Verdict
from experiments.kinds.limplock.row import Row, rows
from experiments.paths import ROOT

DATA = ROOT / "docs" / "results" / "limplock.toml"
TABLE = ROOT / "docs" / "results" / "limplock.md"
AGES = {"today": "Today's releases", "paper": "The paper's"}
_ORDER: tuple[Verdict, ...] = ("yes", "no", "insufficient", "under-dosed")
_SAID = {"insufficient": "undecided"}
_WORDS = {"insufficient": "?", "under-dosed": "<"}
Verdicts = tuple[Verdict, ...]


@dataclass(frozen=True)
class RowResult:
    """Of a row on a release: verdicts, and when the run began that counts."""

    verdicts: Verdicts
    when: dt.datetime
    commit: str


def standing(text: str, known: Mapping[str, Row]) -> dict[tuple[str, str], RowResult]:
    """By row and age, what the run said that counts.

    Parameters: text, of limplock.toml.
    """
    found: dict[tuple[str, str], RowResult] = {}
    for run in sorted(tomllib.loads(text)["runs"], key=lambda one: one["when"]):
        mine: dict[tuple[str, str], list[Verdicts]] = {}
        for one in run["rows"]:
            verdicts = dosed(known[one["row"]], one["said"], one.get("put"), one.get("bound"))
            mine.setdefault((one["row"], one["age"]), []).append(verdicts)
        for key, parts in mine.items():
            together = tuple(over(some) for some in zip(*parts, strict=True))
            found[key] = RowResult(together, run["when"], run["commit"])
    return found


def dosed(row: Row, said: Sequence[Verdict], put: float | None, bound: float | None) -> Verdicts:
    """Return a run's verdicts by the row's mechanism. Raises ValueError if it has one and the
    run does not say what was put in.
    """
    if row.mechanism is None:
        return tuple(said)
    if put is None or bound is None:
        raise ValueError(f"{row.name}: a run without put and bound")
    if put / bound >= row.mechanism.share_least:
        return tuple(said)
    return tuple(
        "under-dosed" if verdict != "yes" and name in row.mechanism.verdicts else verdict
        for name, verdict in zip(CLASSES, said, strict=True)
    )


def table(found: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row]) -> str:
    """Every row of the paper's Table 1: its verdicts and slowdown, and ours of both releases."""
    lines = [
        "| row | paper | its slowdown | today's release | run | the paper's release | run |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted(known, key=_place):
        row = known[name]
        if row.paper is None:
            continue
        paper = ", ".join(getattr(row.paper, name) for name in CLASSES)
        slower = f"{row.paper.slowdown:g} ×" if row.paper.slowdown else ""
        ours = [cell for age in AGES for cell in _cells(found.get((name, age)))]
        lines.append(f"| {' | '.join([_title(row), paper, slower, *ours])} |")
    return "\n".join(lines)


def counts(found: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row], age: str) -> str:
    """Count of the paper's rows by verdict, for operation, node and cluster apart."""
    paper = [name for name, row in known.items() if row.paper is not None]
    said = []
    for place, one in enumerate(CLASSES):
        came = Counter(
            found[name, age].verdicts[place] if (name, age) in found else "not run"
            for name in paper
        )
        words = [f"{came[word]} {_SAID.get(word, word)}" for word in _ORDER]
        words += [f"{came['not run']} not run"] if came["not run"] else []
        said.append(f"{one} {', '.join(words)}")
    return "; ".join(said)


def same(found: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row], age: str) -> str:
    """Count of equal verdicts among those that both give, class by class."""
    said = []
    for place, one in enumerate(CLASSES):
        pairs = [
            (getattr(row.paper, one), found[name, age].verdicts[place])
            for name, row in known.items()
            if row.paper is not None and (name, age) in found
        ]
        both = [(paper, ours) for paper, ours in pairs
                if paper in ("yes", "no") and ours in ("yes", "no")]  # fmt: skip
        agreed = sum(paper == ours for paper, ours in both)
        said.append(f"{one} {agreed} of {len(both)}")
    return ", ".join(said)


def short(found: Mapping[tuple[str, str], RowResult], known: Mapping[str, Row]) -> str:
    """Return the counts of today's releases as README.md has them: yes, no, undecided and
    under-dosed.
    """
    paper = [name for name, row in known.items() if row.paper is not None]
    told = []
    for place, one in enumerate(CLASSES):
        came = Counter(found[name, "today"].verdicts[place] for name in paper)
        told.append(f"{one} {'/'.join(str(came[word]) for word in _ORDER)}")
    return ", ".join(told)


def made() -> str:
    """limplock.md as it has to be."""
    known = rows()
    found = standing(DATA.read_text(encoding="utf-8"), known)
    lines = [
        f"- {words}: {counts(found, known, age)}. "
        f"As the paper's, of those that both give: {same(found, known, age)}."
        for age, words in AGES.items()
    ]
    text = TABLE.read_text(encoding="utf-8")
    text = with_part(text, "rows", f"\n{table(found, known)}\n")
    return with_part(text, "counts", "\n" + "\n".join(lines) + "\n")


def with_part(text: str, name: str, part: str) -> str:
    """Return a text whose part between `<!-- name -->` and `<!-- /name -->` is this. Raises
    ValueError where these marks are not there once.
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{begin} and {end}: each once")
    before, rest = text.split(begin)
    return f"{before}{begin}{part}{end}{rest.split(end)[1]}"


def _cells(said: RowResult | None) -> tuple[str, str]:
    if said is None:
        return "–", ""
    words = ", ".join(_WORDS.get(one, one) for one in said.verdicts)
    return words, f"{said.when:%-d %b %H:%M}"


def _title(row: Row) -> str:
    beside = f" beside {row.beside.operation}" if row.beside else ""
    part = {"nic": "card", "disk": "disk"}[row.limpware]
    return f"{row.name} {row.workload.operation}{beside}; {' or '.join(row.injected)}'s {part}"


def _place(name: str) -> tuple[int, int]:
    return "FHZCBE".index(name[0]), int(name[1:])
