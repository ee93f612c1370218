"""The dictionary's entries as CSV: number, headword, text in one line.

entries.py /usr/share/dictd/gcide > entries.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from gcide import read_entries

if __name__ == "__main__":
    files = sys.argv[1]
    entries = read_entries(Path(f"{files}.index"), Path(f"{files}.dict.dz"))
    writer = csv.writer(sys.stdout)
    for number, entry in enumerate(entries, start=1):
        writer.writerow((number, entry.headword, " ".join(entry.text.split())))
