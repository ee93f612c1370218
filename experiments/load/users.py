"""Who sends the load: what each user class asks for, and how often it writes.

Which roles a user class can ask is in `spec/experiment.py`. Popularity follows Zipf's law: for
pages and searches with the exponent of Breslau et al. (Web caching and Zipf-like distributions,
INFOCOM 1999), for the key-value stores with YCSB's 0.99 (Cooper et al., SoCC 2010).
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from experiments.errors import InputError

TITLES = Path(__file__).with_name("titles.txt")  # what infra/roles/mariadb holds
PAGE_ZIPF = 0.8  # between 0.64 and 0.83 in Breslau et al.
KEY_ZIPF = 0.99
LOOP_PATH = "/loop.php"
STATIC_PATH = "/static/style.css"


@dataclass(frozen=True)
class Page:
    """One thing to ask for: what it is called, the request's text, what its answer must contain."""

    name: str
    path: str
    must_contain: str


@dataclass(frozen=True)
class Population:
    """All that a user class asks for; `writes[k]` changes what `pages[k]` reads."""

    pages: tuple[Page, ...]
    zipf: float
    writes: tuple[Page, ...] = ()
    write_share: float = 0.0


def wiki_pages(titles: Path) -> tuple[Page, ...]:
    """The pages of the wiki, from the list of titles (one in a line) its database was made from.

    The answer must have the title in its <title> element, as MediaWiki escapes it.
    """
    return tuple(_wiki_page(name) for name in _words(titles))


def _words(titles: Path) -> list[str]:
    names = [line.strip() for line in titles.read_text(encoding="utf-8").splitlines()]
    found = [name for name in names if name]
    if not found:
        raise InputError(
            str(titles), expected="a page title in each line", came="none", do="Make it again."
        )
    return found


def _wiki_page(name: str) -> Page:
    path = "/index.php?title=" + quote(name.replace(" ", "_"), safe="/:(),;@!*")
    escaped = html.escape(name, quote=False)
    return Page(name, path, f"<title>{escaped}")


def _readers() -> Population:
    return Population(wiki_pages(TITLES), PAGE_ZIPF)


def _one(page: Page) -> Callable[[], Population]:
    return lambda: Population((page,), PAGE_ZIPF)


def _searchers() -> Population:
    """Searches for a word, in the front end's page."""
    pages = (Page(word, f"/?q={quote(word)}", f"<title>{word}:") for word in _words(TITLES))
    return Population(tuple(pages), PAGE_ZIPF)


def _selects() -> Population:
    """The same searches, put to Solr itself."""
    excerpts = "rows=20&fl=id,headword,source&hl=true&hl.fl=text&hl.snippets=3"
    select = f"/solr/dictionary/select?echoParams=explicit&{excerpts}&q="
    pages = (Page(word, select + quote(word), f'"q":"{word}"') for word in _words(TITLES))
    return Population(tuple(pages), PAGE_ZIPF)


@dataclass(frozen=True)
class _Records:
    """Records of a key-value store, as infra/roles/memcached and redis hold them [bytes]."""

    name: str
    count: int
    size: int
    fields: int = 10

    @property
    def keys(self) -> tuple[str, ...]:
        """As infra/roles/records.py names them."""
        return tuple(f"{self.name}:{place:06d}" for place in range(self.count))


_ENTRIES = _Records("entry", 20_000, 1000)
_CACHED_PAGES = _Records("page", 400, 64_000)
_LARGE_HASHES = _Records("page", 400, 50_000)


def _cache(records: _Records) -> Callable[[], Population]:
    """Gets of values of one size, one set in thirty gets (Facebook's ETC, Atikoglu et al. 2012)."""
    return lambda: Population(
        tuple(Page(key, f"get {key}", key) for key in records.keys),
        KEY_ZIPF,
        tuple(Page(key, f"set {key} {records.size}", "STORED") for key in records.keys),
        1 / 31,
    )


def _ycsb(records: _Records, update_share: float) -> Callable[[], Population]:
    """YCSB's core workload: reads of a whole record, updates of one of its fields."""
    size = records.size // records.fields
    # The first field names the record, so that a mixed-up reply is noticed: it stays.
    updates = [f"field{1 + place % (records.fields - 1)} {size}" for place in range(records.count)]
    return lambda: Population(
        tuple(Page(key, f"HGETALL {key}", key) for key in records.keys),
        KEY_ZIPF,
        tuple(
            Page(key, f"HSET {key} {update}", "0")
            for key, update in zip(records.keys, updates, strict=True)
        ),
        update_share,
    )


USERS: dict[str, Callable[[], Population]] = {
    "wiki-reader": _readers,
    "static-file": _one(Page("static", STATIC_PATH, "sparecraft")),
    "php-loop": _one(Page("loop", LOOP_PATH, "<title>1000")),
    "word-search": _searchers,
    "solr-select": _selects,
    "cache-reader": _cache(_ENTRIES),
    "cached-pages": _cache(_CACHED_PAGES),
    "ycsb-a": _ycsb(_ENTRIES, 0.5),
    "ycsb-b-large": _ycsb(_LARGE_HASHES, 0.05),
}
