"""The page: snapshots and charts on 127.0.0.1, drawn in the browser by Vega, which is served too.

It answers only requests to its own address, so that no other page of the browser can read it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jinja2
import vl_convert

from core import chart_style as style
from experiments.report import palette

_HERE = Path(__file__).parent
_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; img-src data:; "
    "script-src 'self' 'unsafe-eval'"  # Vega compiles its expressions
)


class Page(ThreadingHTTPServer):
    """Serves until it is shut down. `take` returns what the page shows; it is called at most every
    `refresh_s`, however many browsers look."""

    daemon_threads = True

    def __init__(self, port: int, take: Callable[[], Any], refresh_s: float) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._take = take
        self._refresh_s = refresh_s
        self._guard = threading.Lock()
        self._answer: tuple[int, bytes] = (503, b"{}")
        self._taken_s = float("-inf")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def answer(self) -> tuple[int, bytes]:
        """Return status and JSON: what there is to see, or why there is nothing."""
        with self._guard:
            if time.monotonic() - self._taken_s >= self._refresh_s:
                try:
                    self._answer = 200, json.dumps(self._take()).encode()
                except Exception as error:  # the page says it, and asks again
                    self._answer = 503, json.dumps({"error": str(error)}).encode()
                self._taken_s = time.monotonic()
            return self._answer


class _Handler(BaseHTTPRequestHandler):
    server: Page

    def do_GET(self) -> None:
        if self.headers.get("Host") not in _hosts(self.server.server_port):
            self._send(403, "text/plain", b"ask 127.0.0.1")
        elif self.path == "/":
            self._send(200, "text/html; charset=utf-8", _document())
        elif self.path == "/watch.js":
            self._send(200, "text/javascript", (_HERE / "watch.js").read_bytes())
        elif self.path == "/vega.js":
            self._send(200, "text/javascript", _vega())
        elif self.path == "/look.json":
            status, body = self.server.answer()
            self._send(status, "application/json", body)
        else:
            self._send(404, "text/plain", b"nothing here")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing, because the terminal is the command's."""

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", _POLICY),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _hosts(port: int) -> tuple[str, str]:
    return f"127.0.0.1:{port}", f"localhost:{port}"


@cache
def _vega() -> bytes:
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode()


@cache
def _document() -> bytes:
    css = (_HERE.parent / "report" / "report.css").read_text() + (_HERE / "watch.css").read_text()
    dark = palette.page_rules(dark=True)
    rules = (
        f"{palette.page_rules(dark=False)}\n{css}\n@media (prefers-color-scheme: dark) {{{dark}}}"
    )
    config = json.dumps(
        {"font": style.CONFIG["font"], "light": _axis_colours(False), "dark": _axis_colours(True)}
    )
    template = jinja2.Template((_HERE / "watch.html.j2").read_text())
    return str(template.render(style=rules, config=config)).encode()


def _axis_colours(dark: bool) -> dict[str, str]:
    """Return the colours of axes and of windows."""
    colours = {
        "text": palette.TEXT,
        "title": palette.TITLE,
        "grid": palette.GRID,
        "axis": palette.AXIS,
        "limit": palette.FAULT,
        "window": palette.INTERFERENCE,
    }
    return {name: colour.dark if dark else colour.light for name, colour in colours.items()}
