"""The entries of Debian's dictionaries GCIDE and WordNet as documents for Solr, JSON in one array.

documents.py gcide=/usr/share/dictd/gcide wordnet=/usr/share/dictd/wn > documents.json
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from gcide import decode_number

TEXT_BYTES_MIN = 40  # shorter entries only point to another


def entries(source: str, files: str) -> Iterator[dict[str, str]]:
    """Every entry once, under the first headword that points to it."""
    text = gzip.decompress(Path(f"{files}.dict.dz").read_bytes())
    seen = set()
    with open(f"{files}.index", encoding="utf-8") as index:
        for line in index:
            headword, offset, length = line.rstrip("\n").split("\t")[:3]
            place = decode_number(offset)
            if headword.startswith("00-") or place in seen:
                continue
            seen.add(place)
            entry = text[place : place + decode_number(length)].decode("utf-8", "replace")
            if len(entry) >= TEXT_BYTES_MIN:
                words = " ".join(entry.split())
                yield {
                    "id": f"{source}-{place}",
                    "headword": headword,
                    "source": source,
                    "text": words,
                }


def main(arguments: list[str]) -> None:
    separator = "["
    for argument in arguments:
        source, files = argument.split("=", 1)
        for document in entries(source, files):
            sys.stdout.write(f"{separator}{json.dumps(document)}")
            separator = ",\n"
    sys.stdout.write("]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
