"""Writes the wiki's pages as a MediaWiki export file, and their titles, one a line.

    build_wiki.py --index gcide.index --dictionary gcide.dict.dz --dump wiki.xml --titles titles.txt

The output depends on the dictionary and on this folder alone, byte for byte.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape as xml_escape

from gcide import DictionaryError, choose, read_entries
from wikitext import PARTS_OF_SPEECH, TEMPLATES, page_text

PAGES = 2200
CHARS_LEAST = 700
CHARS_MOST = 2200
TIMESTAMP = "2022-02-15T10:31:36Z"  # when the dictionary was converted, by its own header
NAMESPACES = {"Template:": 10, "Category:": 14}


def all_pages(index: Path, dictionary: Path) -> Iterator[tuple[str, str]]:
    """Title and wiki text: templates first (pages need them), then words, categories, main page."""
    for name, text in sorted(TEMPLATES.items()):
        yield f"Template:{name}", f"<includeonly>{text}</includeonly><noinclude>Layout.</noinclude>"
    chosen = choose(read_entries(index, dictionary), PAGES, CHARS_LEAST, CHARS_MOST)
    for title, entries in chosen.items():
        yield title, page_text(title, entries, chosen)
    letters = sorted({title[0] for title in chosen})
    for category in sorted({*PARTS_OF_SPEECH.values(), "Other words"}):
        yield f"Category:{category}", f"{category} of the dictionary.\n[[Category:Words]]\n"
    for letter in letters:
        yield f"Category:{letter}", f"Words that begin with {letter}.\n[[Category:Words]]\n"
    yield "Category:Words", "All words, by letter and by part of speech.\n"
    links = " ".join(f"[[:Category:{letter}|{letter}]]" for letter in letters)
    yield "Main Page", f"A dictionary of {len(chosen)} words: {links}\n"


def page_xml(title: str, text: str) -> str:
    """One page of an export file."""
    namespace = next((n for prefix, n in NAMESPACES.items() if title.startswith(prefix)), 0)
    return (
        f"<page><title>{xml_escape(title)}</title><ns>{namespace}</ns><revision>"
        f"<timestamp>{TIMESTAMP}</timestamp><contributor><username>Gcide</username></contributor>"
        f'<model>wikitext</model><format>text/x-wiki</format><text xml:space="preserve">'
        f"{xml_escape(text)}</text></revision></page>\n"
    )


def main(arguments: list[str]) -> int:
    """Writes both files; 2 where the dictionary is not as expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("index", "dictionary", "dump", "titles"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(arguments)
    titles = []
    try:
        with options.dump.open("w", encoding="utf-8") as dump:
            dump.write(
                '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="en">\n'
            )
            for title, text in all_pages(options.index, options.dictionary):
                dump.write(page_xml(title, text))
                if ":" not in title and title != "Main Page":
                    titles.append(title)
            dump.write("</mediawiki>\n")
    except (DictionaryError, OSError) as error:
        print(f"build_wiki: {error}", file=sys.stderr)
        return 2
    options.titles.write_text("".join(f"{title}\n" for title in titles), encoding="utf-8")
    print(f"{len(titles)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
