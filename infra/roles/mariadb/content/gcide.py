"""Reads Debian's `dict-gcide` (the two files of a dictd dictionary), and chooses pages.

A dictd index has one line per headword: `headword TAB offset TAB length`, both numbers in base 64.
Several headwords may point to one entry, so entries are told apart by their place in the text. The
choice depends on the dictionary alone: no clock, no randomness, no order of a file system.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# One word of plain letters: such a title needs no escaping in a URL, in HTML or in wiki text.
TITLE = re.compile(r"[A-Z][a-z]{2,23}")


class DictionaryError(Exception):
    """The dictionary's files are not what dictd writes."""


@dataclass(frozen=True)
class Entry:
    """One entry: the headword as it stands at its beginning, and the whole text."""

    headword: str
    text: str


def decode_number(digits: str) -> int:
    """The value of dictd's base-64 number."""
    value = 0
    for digit in digits:
        position = BASE64.find(digit)
        if position < 0:
            raise DictionaryError(f"expected a base-64 number of a dictd index, got {digits!r}")
        value = value * 64 + position
    return value


def read_index(lines: Iterable[str]) -> list[tuple[int, int]]:
    """The places (offset, length) of all entries, each once, in the order of the text."""
    places = set()
    for number, line in enumerate(lines, start=1):
        fields = line.rstrip("\n").split("\t")
        if len(fields) < 3:
            raise DictionaryError(
                f"index line {number}: expected 'headword TAB offset TAB length', got {line!r}"
            )
        if not fields[0].startswith("00-"):
            places.add((decode_number(fields[1]), decode_number(fields[2])))
    return sorted(places)


def read_entries(index: Path, dictionary: Path) -> Iterator[Entry]:
    """All entries that begin with `headword \\pronunciation\\`, in the order of the text."""
    text = gzip.decompress(dictionary.read_bytes())
    with index.open(encoding="utf-8") as lines:
        places = read_index(lines)
    for offset, length in places:
        if offset + length > len(text):
            raise DictionaryError(
                f"{dictionary}: the index points to byte {offset + length} of {len(text)}; "
                "expected an index and a dictionary of the same package"
            )
        try:
            entry = text[offset : offset + length].decode("utf-8").strip()
        except UnicodeDecodeError:
            continue  # three entries hold bytes of an older encoding
        headword, backslash, _ = entry.partition(" \\")
        if backslash and "\n" not in headword:
            yield Entry(headword, entry)


def title_of(word: str) -> str:
    """The wiki's title of a word: MediaWiki's titles begin with a capital letter."""
    return word[:1].upper() + word[1:]


def choose(
    entries: Iterable[Entry], pages: int, least_chars: int, most_chars: int
) -> Mapping[str, list[Entry]]:
    """The chosen pages: title -> its entries (noun, verb, ...), in the order of the titles.

    Candidates are titles whose text has between least_chars and most_chars characters: long enough
    to have links and quotations, short enough that pages cost about the same. Of these the ones
    with the smallest SHA-256 of the title are taken: an even sample of the alphabet.
    """
    by_title: dict[str, list[Entry]] = {}
    for entry in entries:
        title = title_of(entry.headword)
        if TITLE.fullmatch(title):
            by_title.setdefault(title, []).append(entry)
    candidates = [
        title
        for title, group in by_title.items()
        if least_chars <= sum(len(entry.text) for entry in group) <= most_chars
    ]
    if len(candidates) < pages:
        raise DictionaryError(
            f"expected at least {pages} entries of {least_chars} to {most_chars} characters, "
            f"got {len(candidates)}; widen the range"
        )
    candidates.sort(key=lambda title: hashlib.sha256(title.encode()).digest())
    return {title: by_title[title] for title in sorted(candidates[:pages])}
