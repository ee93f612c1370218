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
    """A row of the glossary: a word, its synonyms, and their meaning."""

    words: tuple[str, ...]
    meaning: str

    def occurs_in(self, text: str) -> bool:
        """True if a text uses one of the words."""
        return any(
            re.search(rf"(?<![\w-]){re.escape(word)}s?(?![\w-])", text) for word in self.words
        )


def entries() -> list[Entry]:
    """Return the glossary of docs/concepts.md, in its order."""
    _, _, after = CONCEPTS.read_text(encoding="utf-8").partition("\n## Glossary\n")
    return list(_rows(after.partition("\n## ")[0]))


def _rows(table: str) -> Iterator[Entry]:
    for row in list(_ROW.finditer(table))[1:]:  # without its head
        plain = [_LINK.sub(r"\1", row[part]).replace("`", "") for part in ("words", "meaning")]
        yield Entry(tuple(plain[0].split(", ")), plain[1])


def glossary_line(text: str) -> str:
    """Return the line below a command's help that names its words of the glossary; "" without
    any.
    """
    names = [entry.words[0] for entry in entries() if entry.occurs_in(text)]
    return (
        f"Words: {', '.join(names)}. `sparecraft glossary WORD` says what one means."
        if names
        else ""
    )


def _names(incomplete: str) -> list[str]:
    words = [word for entry in entries() for word in entry.words]
    return [word for word in words if word.startswith(incomplete)]


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
    selection = entries() if word is None else [_find_entry(word)]
    if as_json:
        print_json(
            {
                entry.words[0]: {"words": entry.words, "meaning": entry.meaning}
                for entry in selection
            }
        )
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for entry in selection:
        table.add_row(", ".join(entry.words), entry.meaning)
    out.print(table, markup=False, highlight=False)


def _find_entry(word: str) -> Entry:
    """Return the entry of a word, in any case and number. Raises InputError if there is none."""
    known = {name.lower(): entry for entry in entries() for name in entry.words}
    key = word.strip().lower()
    entry = known.get(key) or known.get(key.removesuffix("s"))
    if entry is None:
        suggestions = get_close_matches(key, known)
        raise InputError(
            f"sparecraft glossary {word}",
            expected="a word of the glossary",
            got=word,
            hint=f"Did you mean {' or '.join(known[name].words[0] for name in suggestions)}?"
            if suggestions
            else "`sparecraft glossary` shows all of them.",
        )
    return entry
