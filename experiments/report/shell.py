"""Shared frame of every page: the style sheet, the script that swaps drawings, and chips."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from experiments.design.feasible import infeasible_words
from experiments.record.records import write_bytes
from experiments.record.result import stopped_words
from experiments.report import palette
from experiments.report.svg import dark_rules
from experiments.report.text import command_line

_HERE = Path(__file__).parent
QUESTIONS = {
    "measurement": "Measured?",
    "injection": "Faults as asked?",
    "revert": "All undone?",
    "cleanup": "Cleaned up?",
}


@dataclass(frozen=True)
class Verdict:
    """A chip at the head of a page: what was asked, the answer, and its reasons."""

    question: str
    answer: str
    mood: str
    reasons: tuple[str, ...]


def chip(question: str, answer: bool | str | None, reasons: Sequence[object] = ()) -> Verdict:
    """Return the chip of an answer; None is not known, a word is neither yes nor no."""
    texts = tuple(str(reason) for reason in reasons)
    if isinstance(answer, str):
        return Verdict(question, answer, "unknown", texts)
    if answer is None:
        return Verdict(question, "not known", "unknown", texts)
    return Verdict(question, "yes" if answer else "no", "good" if answer else "bad", texts)


def chips(verdicts: Mapping[str, Any], questions: Mapping[str, str]) -> list[Verdict]:
    by_name = {name: verdicts.get(name) or {} for name in questions}
    return [
        chip(question, _answer(by_name[name]), by_name[name].get("reasons") or ())
        for name, question in questions.items()
    ]


def _answer(verdict: Mapping[str, Any]) -> bool | str | None:
    return "disturbed" if verdict.get("disturbed") else verdict.get("ok")


def repeat_rows(manifest: Mapping[str, Any], **more: str) -> list[tuple[str, str]]:
    """Return the facts that are needed to repeat a run."""
    facts = {
        "command": command_line(manifest.get("command")),
        "run": manifest.get("run"),
        "seed": manifest.get("seed"),
        "not feasible": " ".join(map(infeasible_words, manifest.get("infeasible") or ())),
        **more,
        "commit": (manifest.get("versions") or {}).get("commit"),
    }
    return [(label, str(value)) for label, value in facts.items() if value not in (None, "")]


def render_page(template: str, folders: Sequence[Path], **values: Any) -> str:
    """Return a page: one HTML file that needs no network. `template` extends base.html.j2.

    Parameters: folders to look for templates in, before this one.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_HERE / "report.js").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        **{"about": "", **values},
        style=(_HERE / "report.css").read_text(encoding="utf-8"),
        light_rules=palette.page_rules(dark=False),
        dark_rules=f"{palette.page_rules(dark=True)}\n{dark_rules()}",
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def render_run(
    template: Path,
    result: Mapping[str, Any],
    manifest: Mapping[str, Any],
    headline: str,
    questions: Mapping[str, str] = QUESTIONS,
    **values: Any,
) -> str:
    """Return a run's page: its head, what `values` say, and how it is repeated.

    Parameters: template, a file; result, head and body in one; headline, what was found.
    """
    common = {
        "name": result["experiment"],
        "when": str(manifest.get("started_at") or ""),
        "headline": f"{stopped_words(manifest)} {headline}".strip(),
        "verdicts": chips(result["verdicts"], questions),
        "repeat": repeat_rows(manifest),
    }
    return render_page(template.name, [template.parent], **{**common, **values})


def save_page(folder: Path, html: str) -> Path:
    """Write report.html into a run's folder, completely or not at all, and return its path."""
    path = folder / "report.html"
    write_bytes(path, html.encode())
    return path
