"""Make the database: one row for each entry of the dictionary, and a full-text index of them.

load_entries.py /usr/share/dictd/gcide words.txt dictionary.db
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from gcide import read_entries


def main(dictionary: str, words: Path, database: Path) -> None:
    """Load the entries. Exit with an error if a word of the workload is in no entry."""
    entries = list(read_entries(Path(f"{dictionary}.index"), Path(f"{dictionary}.dict.dz")))
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE VIRTUAL TABLE entry USING fts5(headword, text)")
        rows = ((entry.headword, " ".join(entry.text.split())) for entry in entries)
        connection.executemany("INSERT INTO entry VALUES (?, ?)", rows)
        connection.execute("INSERT INTO entry (entry) VALUES ('optimize')")
    for word in words.read_text(encoding="utf-8").split():
        matches = connection.execute("SELECT count(*) FROM entry WHERE entry MATCH ?", (word,))
        if matches.fetchone() == (0,):
            sys.exit(f"expected an entry with the word {word!r}, got none; take it out of {words}")
    print(f"{len(entries)} entries")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
