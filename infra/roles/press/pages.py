"""The page set of Broadwell 2004, section 3.3.2: 18,000 HTML files of 26 KB each.

That set is not public; this one has its count and size. The text is GCIDE's, as Debian's
`dict-gcide` has it. Each page has its key as its title, so that a mixed-up answer is seen.

    pages.py --dictionary gcide.dict.dz --folder /opt/sparecraft/data
"""

from __future__ import annotations

import gzip
from argparse import ArgumentParser
from pathlib import Path

PAGES = 18_000
PAGE_BYTES = 26 * 1024
HEAD = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{key}</title></head>\n'
    "<body><h1>{key}</h1>\n<p>"
)
TAIL = "</p></body></html>\n"


def page(place: int, text: str) -> bytes:
    """Page number `place`: a window of the text that moves on with the number."""
    head = HEAD.format(key=f"page:{place:06d}")
    room = PAGE_BYTES - len(head) - len(TAIL)
    start = place * ((len(text) - room) // PAGES)
    return (head + text[start : start + room] + TAIL).encode("ascii")


def text_of(dictionary: Path) -> str:
    """The dictionary's words, ASCII and without what HTML gives a meaning."""
    with gzip.open(dictionary, "rt", encoding="utf-8", errors="ignore") as file:
        plain = file.read().translate(dict.fromkeys(map(ord, "<>&")))
    return " ".join(plain.encode("ascii", "ignore").decode().split())


def main() -> None:
    parser = ArgumentParser(description="Pages of real text")
    parser.add_argument("--dictionary", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    text = text_of(options.dictionary)
    for place in range(PAGES):
        (options.folder / f"{place:06d}.html").write_bytes(page(place, text))


if __name__ == "__main__":
    main()
