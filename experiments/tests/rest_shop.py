"""A shop over HTTP with a log-in, a token, a cookie and a cart, in this process."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from experiments.design.target import in_url


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as ipv6_socket:
            ipv6_socket.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this host has no address ::1")


@dataclass
class Asked:
    """A request as the shop got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Shop:
    """Its URL, what it was asked, and by how many connections; `gives_tokens` and `moved_to`, where
    `/moved` leads, may be changed."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    gives_tokens: bool = True
    moved_to: str = ""

    def answer(self, request: Asked) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        if request.path == "/login":
            user = json.loads(request.body)["user"]
            profile = {"user": {"id": 7, "name": user}}
            token = {"token": f"t-{user}"} if self.gives_tokens else {}
            return 200, {"Set-Cookie": f"sid={user}; Path=/"}, json.dumps(profile | token).encode()
        if request.path == "/cart" and request.method == "POST":
            user = request.headers.get("Authorization", "").removeprefix("Bearer t-")
            ok = user and request.headers.get("Cookie") == f"sid={user}"
            return (201, {"Location": "/cart/1"}, b"{}") if ok else (401, {}, b"who?")
        if request.path == "/echo":
            return 200, {"Content-Type": "text/plain"}, request.body
        if request.path == "/moved" and self.moved_to:
            return 302, {"Location": self.moved_to}, b""
        if request.path == "/empty":
            return 204, {}, b""
        return 404, {}, b"none"


@contextmanager
def rest_shop(tls: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> Iterator[Shop]:
    """The shop, until the end of the block; over TLS by a server's context."""
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        timeout = 60

        def setup(self) -> None:
            super().setup()
            shop.connections += 1

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Asked(self.command, self.path, dict(self.headers.items()), body)
            shop.asked.append(request)
            status, headers, content = shop.answer(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_one

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        daemon_threads = True

    server = Server((address, 0), Handler)
    if tls is not None:  # each connection shakes hands in its own thread
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    shop.url = f"{'https' if tls else 'http'}://{in_url(address)}:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield shop
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
