"""`sparecraft glossary`: the meaning of a word, from docs/concepts.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

import typer
from rich.table import Table

from core.errors import InputError
from core.terminal import JsonOption, out, print_json
from experiments.paths import ROOT

CONCEPTS = ROOT / "docs" / "concepts.md"
_ROW = re.compile(r"^\| (?P<words>[^|]+) \| (?P<meaning>.+) \|$", re.M)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True)
class Entry:
    """A row of the glossary: its word, others for the same, and what they mean."""

    words: tuple[str, ...]
    meaning: str

    def is_in(self, text: str) -> bool:
        """True if a text uses one of the words."""
        return any(re.search(rf"(?<![\w-]){re.escape(one)}s?(?![\w-])", text) for one in self.words)


def entries() -> list[Entry]:
    """Return the glossary of docs/concepts.md, in its order."""
    _, _, after = CONCEPTS.read_text(encoding="utf-8").partition("\n## Glossary\n")
    return list(_rows(after.partition("\n## ")[0]))


def _rows(table: str) -> Iterator[Entry]:
    for row in list(_ROW.finditer(table))[1:]:  # without its head
        plain = [_LINK.sub(r"\1", row[part]).replace("`", "") for part in ("words", "meaning")]
        yield Entry(tuple(plain[0].split(", ")), plain[1])


def words_of(text: str) -> str:
    """Return the line below a command's help: which of its words the glossary has; ""
    without any.
    """
    used = [entry.words[0] for entry in entries() if entry.is_in(text)]
    return (
        f"Words: {', '.join(used)}. `sparecraft glossary WORD` says what one means." if used else ""
    )


def _names(incomplete: str) -> list[str]:
    found = [word for entry in entries() for word in entry.words]
    return [word for word in found if word.startswith(incomplete)]


def glossary(
    word: Annotated[
        str | None, typer.Argument(help="A word; without one, all words.", autocompletion=_names)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain the words of help texts, reports and files.

    Some are the papers' (PCRAFT, sPARE, NodT, TAD, r), some this project's (arm, block, dose).

    Example: sparecraft glossary NodT
    """
    found = entries() if word is None else [_find_entry(word)]
    if as_json:
        print_json({one.words[0]: {"words": one.words, "meaning": one.meaning} for one in found})
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for one in found:
        table.add_row(", ".join(one.words), one.meaning)
    out.print(table, markup=False, highlight=False)


def _find_entry(word: str) -> Entry:
    """Return the entry of a word, in whatever case or number. Raises InputError if there is
    none.
    """
    known = {one.lower(): entry for entry in entries() for one in entry.words}
    wanted = word.strip().lower()
    entry = known.get(wanted) or known.get(wanted.removesuffix("s"))
    if entry is None:
        near = get_close_matches(wanted, known)
        raise InputError(
            f"sparecraft glossary {word}",
            expected="a word of the glossary",
            got=word,
            hint=f"Did you mean {' or '.join(known[one].words[0] for one in near)}?"
            if near
            else "`sparecraft glossary` shows all of them.",
        )
    return entry
