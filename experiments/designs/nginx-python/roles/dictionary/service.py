"""Searches a dictionary: GET /search?q=WORD answers with the best ten entries as an HTML page.

Python's own HTTP server, one thread for each connection, and SQLite's full-text search.
"""

from __future__ import annotations

import html
import signal
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

DATABASE = "file:/opt/sparecraft/data/dictionary.db?mode=ro&immutable=1"
PORT = 8000
BEST = 10
QUERY = f"""
    SELECT headword, snippet(entry, 1, char(2), char(3), ' ... ', 40)
    FROM entry WHERE entry MATCH ? ORDER BY bm25(entry, 10, 1) LIMIT {BEST}
"""
_of_thread = threading.local()


def search(word: str) -> list[tuple[str, str]]:
    """Return headword and excerpt of the best entries for a word, the best first."""
    if not hasattr(_of_thread, "database"):
        _of_thread.database = sqlite3.connect(DATABASE, uri=True)
    phrase = '"' + word.replace('"', '""') + '"'
    rows = _of_thread.database.execute(QUERY, (phrase,)).fetchall()
    return [(str(headword), str(excerpt)) for headword, excerpt in rows]


def page(word: str) -> str:
    """Return the text of the answer; the marks around the word become bold."""
    rows = "".join(
        f"<dt>{html.escape(headword)}</dt><dd>{html.escape(excerpt)}</dd>\n"
        for headword, excerpt in search(word)
    )
    rows = rows.translate({2: "<b>", 3: "</b>"})
    return f"<!doctype html>\n<title>{html.escape(word)}: dictionary</title>\n<dl>\n{rows}</dl>\n"


class Handler(BaseHTTPRequestHandler):
    """One client's connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together
    timeout = 60

    def do_GET(self) -> None:
        """Answer a search; 404 for every other path."""
        parts = urlsplit(self.path)
        word = parse_qs(parts.query).get("q", [""])[0]
        if parts.path != "/search" or not word:
            self.send_error(404, "expected /search?q=WORD")
            return
        body = page(word).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: the load worker records the requests."""


class Server(ThreadingHTTPServer):
    """Takes a burst of connections at once."""

    request_queue_size = 512


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Server(("0.0.0.0", PORT), Handler).serve_forever()
