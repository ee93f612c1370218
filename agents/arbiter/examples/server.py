"""Servers to try the arbiter with: `python3 server.py 8081 8082`, one at each port or unix socket.

GET answers who it is, the path, and what it was told of the client. `/health` says 503 while there
is a file PORT.sick here. A request for a WebSocket is answered with one message, hello. With
`--tls CERT KEY` before the ports they speak TLS.
"""

import base64
import hashlib
import socketserver
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

_TOLD = ("forwarded", "x-forwarded-for", "x-forwarded-proto", "x-request-id")
_WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    where = ""

    def do_GET(self) -> None:
        key = self.headers.get("Sec-WebSocket-Key")
        if key and self.headers.get("Upgrade", "").lower() == "websocket":
            self._switch(key)
        else:
            self._answer()

    do_HEAD = do_GET

    def _answer(self) -> None:
        told = [f"{name}: {self.headers[name]}\n" for name in _TOLD if name in self.headers]
        body = f"{self.path} by {self.where}\n{''.join(told)}".encode()
        is_sick = self.path == "/health" and Path(f"{self.where}.sick").exists()
        self.send_response(503 if is_sick else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _switch(self, key: str) -> None:
        digest = hashlib.sha1((key + _WEBSOCKET).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        self.wfile.write(b"\x81\x05hello\x88\x00")
        self.close_connection = True

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *words: object) -> None:
        pass


class _Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def serve(where: str, tls: ssl.SSLContext | None) -> None:
    handler = type("At", (Handler,), {"where": where})
    is_port = where.isdigit()
    server = _Tcp(("127.0.0.1", int(where)), handler) if is_port else _Unix(where, handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def main(words: list[str]) -> None:
    tls = None
    if words[0] == "--tls":
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(words[1], words[2])
        words = words[3:]
    for where in words[1:]:
        threading.Thread(target=serve, args=(where, tls), daemon=True).start()
    serve(words[0], tls)


main(sys.argv[1:])
