"""The client of servers' pages, on a real server."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from experiments.kinds.limplock.clients import metrics_client

_BEANS = {
    "Hadoop:service=NameNode,name=FSNamesystem": '{"beans": [{"BlocksTotal": 7}]}',
    "none": '{"beans": []}',
    "no-beans": "{}",
    "no-object": "[1]",
    "text": "It works!",
}


class _Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query).get("qry", [""])[0]
        said = _BEANS.get(asked, "").encode()
        self.send_response(200 if said else 404)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.mark.parametrize("name", _BEANS)
def test_a_bean_or_nothing(server: ThreadingHTTPServer, name: str) -> None:
    wanted = {"BlocksTotal": 7} if name.startswith("Hadoop") else {}
    assert metrics_client.bean("127.0.0.1", server.server_port, name) == wanted


def test_who_refuses_or_does_not_listen_says_nothing(server: ThreadingHTTPServer) -> None:
    assert metrics_client.bean("127.0.0.1", server.server_port, "unknown") == {}
    server.shutdown()
    server.server_close()
    assert metrics_client.bean("127.0.0.1", server.server_port, "none") == {}


def test_a_request_makes_no_client(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which would read all certificates of the world for it."""

    def made(*_: object, **__: object) -> ssl.SSLContext:
        raise AssertionError("a client of its own")

    monkeypatch.setattr(ssl, "create_default_context", made)
    name = next(iter(_BEANS))
    told = [metrics_client.bean("127.0.0.1", server.server_port, name) for _ in range(3)]
    assert told == [json.loads(_BEANS[name])["beans"][0]] * 3
