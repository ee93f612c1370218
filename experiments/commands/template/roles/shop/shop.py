"""The shop: GET /flag/CODE is the page of a flag, with others to buy beside it."""

from __future__ import annotations

import html
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COUNTRIES = Path("/usr/share/iso-codes/json/iso_3166-1.json")
PORT = 8080
RELATED = int(os.environ.get("RELATED", "10"))

flags = {
    country["alpha_2"]: country
    for country in json.loads(COUNTRIES.read_text(encoding="utf-8"))["3166-1"]
}
codes = sorted(flags)


def page(code: str) -> str:
    """The page of a flag, and links to those that come after it in the alphabet."""
    flag = flags[code]
    name = html.escape(flag["name"])
    official = html.escape(flag.get("official_name", flag["name"]))
    index = codes.index(code)
    others = (codes + codes)[index + 1 : index + 1 + RELATED]
    links = "\n".join(
        f'<li><a href="/flag/{other}">{html.escape(flags[other]["name"])}</a>' for other in others
    )
    head = f"<!doctype html>\n<title>{name}: flags</title>\n<h1>{name} {flag['flag']}</h1>\n"
    return f"{head}<p>The flag of {official}.</p>\n<ul>\n{links}\n</ul>\n"


class Handler(BaseHTTPRequestHandler):
    """One client's connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together
    timeout = 60

    def do_GET(self) -> None:
        """Answer with the page of a flag; 404 for everything else."""
        code = self.path.removeprefix("/flag/")
        if code not in flags:
            self.send_error(404, "expected /flag/CODE")
            return
        body = page(code).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are counted by who sends them."""


class Server(ThreadingHTTPServer):
    """Takes a burst of connections at once."""

    request_queue_size = 512


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Server(("0.0.0.0", PORT), Handler).serve_forever()
